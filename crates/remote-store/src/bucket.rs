//! Storage backend over a bucket of S3, Google Cloud Storage or Azure Blob Storage.

use std::fmt::{self, Debug, Formatter};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::StreamExt;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload, PutResult,
    UpdateVersion,
};
use store::{Created, Entry, Replaced, Stat, Version};
use tracing::warn;

use crate::failure::{self, Failure};
use crate::list_pages::SkippedKeys;
use crate::location::{BucketPlace, Service};
use crate::progress::Transfer;
use crate::{body, connector, list_pages};

/// Slowest upload that is progress, per second. A part of 8 MiB may so take 32 seconds longer than a request without a
/// body.
const MIN_UPLOAD_BYTES_PER_SECOND: u64 = 256 << 10;

/// Client of one bucket.
pub(crate) trait ObjectClient: ObjectStore + MultipartStore {}

impl<T: ObjectStore + MultipartStore> ObjectClient for T {}

/// Storage backend over a prefix of a bucket. Clones share the client.
#[derive(Clone)]
pub(crate) struct Bucket {
    pub(crate) client: Arc<dyn ObjectClient>,
    service: Service,
    prefix: String,
    pub(crate) display: String,
    pub(crate) stall_timeout: Duration,
    /// Whether a warning has named objects that listings leave out.
    has_warned: Arc<AtomicBool>,
}

/// Without the client: it contains credentials.
impl Debug for Bucket {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.display).finish()
    }
}

impl Bucket {
    pub(crate) fn new(client: Arc<dyn ObjectClient>, place: &BucketPlace, stall_timeout: Duration) -> Self {
        let BucketPlace { service, prefix, display, .. } = place.clone();
        Self { client, service, prefix, display, stall_timeout, has_warned: Arc::default() }
    }

    /// Warns once of objects that listings leave out.
    pub(crate) fn warn_of_skipped(&self, skipped: &SkippedKeys) {
        if skipped.count > 0 && !self.has_warned.swap(true, Ordering::Relaxed) {
            let keys = skipped.shown.join(", ");
            warn!(
                place = self.display,
                objects = skipped.count,
                keys,
                "store: skipped objects whose keys no request can name (an empty part, `.`, `..`, a control character, \
                 or `/` at an end); rename them to read them"
            );
        }
    }

    /// Runs one call of the client with a time limit, and returns the reason if it fails.
    pub(crate) async fn observed<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Failure> {
        connector::observed(&self.display, limit, call).await
    }

    /// Returns the time limit of a request that sends `bytes` bytes.
    pub(crate) fn upload_limit(&self, bytes: usize) -> Duration {
        self.stall_timeout + Duration::from_secs(bytes as u64 / MIN_UPLOAD_BYTES_PER_SECOND)
    }

    pub(crate) fn path(&self, name: &str) -> io::Result<Path> {
        let joined = if self.prefix.is_empty() { name.to_owned() } else { format!("{}/{name}", self.prefix) };
        Path::parse(joined.trim_end_matches('/')).map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))
    }

    /// Returns the name of an object of a listing; `None` for the marker of the prefix itself.
    fn name_of<'a>(&self, path: &'a Path) -> Option<&'a str> {
        let path = path.as_ref();
        if self.prefix.is_empty() {
            return Some(path).filter(|path| !path.is_empty());
        }
        path.strip_prefix(&self.prefix)?.strip_prefix('/').filter(|name| !name.is_empty())
    }

    async fn put(&self, path: &Path, bytes: Bytes, mode: PutMode) -> Result<Stat, Failure> {
        let length = bytes.len();
        let call = self.client.put_opts(path, PutPayload::from_bytes(bytes), mode.into());
        let put = self.observed(self.upload_limit(length), call).await?;
        Ok(stat_of_put(put, length as u64)?)
    }

    /// Puts the whole object with one request.
    pub(crate) async fn overwrite(&self, path: &Path, bytes: Bytes) -> io::Result<Stat> {
        Ok(self.put(path, bytes, PutMode::Overwrite).await?)
    }

    pub(crate) async fn meta(&self, path: &Path) -> io::Result<Option<ObjectMeta>> {
        match self.observed(self.stall_timeout, self.client.head(path)).await {
            Ok(meta) => Ok(Some(meta)),
            Err(failure) if failure.error.kind() == ErrorKind::NotFound => Ok(None),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Begins a read; `None` if the object is absent.
    pub(crate) async fn open(&self, path: &Path, range: Option<GetRange>) -> Result<Option<GetResult>, Failure> {
        let options = GetOptions { range, ..GetOptions::default() };
        match self.observed(self.stall_timeout, self.client.get_opts(path, options)).await {
            Ok(result) => Ok(Some(result)),
            Err(failure) if failure.error.kind() == ErrorKind::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Passes the bytes of an answer to `sink` as they arrive, and checks that they are complete.
    pub(crate) async fn drain(&self, result: GetResult, mut sink: impl FnMut(&[u8])) -> io::Result<()> {
        let expected = result.range.end - result.range.start;
        let mut received = 0;
        let mut stream = result.into_stream();
        let mut transfer = Transfer::new(&self.display, self.stall_timeout);
        while let Some(chunk) = transfer.next(stream.next()).await? {
            let chunk = chunk.map_err(|error| failure::cut_body(&error))?;
            received += chunk.len() as u64;
            transfer.add(chunk.len());
            sink(&chunk);
        }
        body::check_complete(received, expected)
    }

    pub(crate) async fn collect(&self, result: GetResult) -> io::Result<Vec<u8>> {
        let mut bytes = body::buffer(result.range.end - result.range.start);
        self.drain(result, |chunk| bytes.extend_from_slice(chunk)).await?;
        Ok(bytes)
    }

    pub(crate) async fn read_range(&self, path: &Path, range: Range<u64>) -> io::Result<Vec<u8>> {
        if range.is_empty() {
            return self.meta(path).await?.map(|_| Vec::new()).ok_or_else(|| ErrorKind::NotFound.into());
        }
        // Servers parse the end of a range as a signed number.
        let range = range.start..range.end.min(i64::MAX as u64);
        match self.open(path, Some(GetRange::Bounded(range.clone()))).await {
            Ok(Some(result)) => self.collect(result).await,
            Ok(None) => Err(ErrorKind::NotFound.into()),
            // The object ends before the range.
            Err(failure) if failure.status == Some(416) => Ok(Vec::new()),
            // Azurite answers such a range with no bytes, which `object_store` refuses.
            Err(failure) if failure.status.is_none() && failure.error.kind() == ErrorKind::Other => {
                match self.meta(path).await? {
                    Some(meta) if meta.size <= range.start => Ok(Vec::new()),
                    _ => Err(failure.into()),
                }
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// Lists page by page. After an error the listing continues behind the newest object, as long as it progresses.
    pub(crate) async fn entries(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut last: Option<Path> = None;
        loop {
            let mut stream = match &last {
                None => self.client.list(Some(folder)),
                Some(last) => self.client.list_with_offset(Some(folder), last),
            };
            // The pages of another request may repeat those of the first one.
            list_pages::restart();
            let before = entries.len();
            let error = loop {
                match self.observed(self.stall_timeout, async { stream.next().await.transpose() }).await {
                    Ok(None) => return Ok(without_markers(entries)),
                    Ok(Some(meta)) => {
                        let Some(name) = self.name_of(&meta.location) else { continue };
                        entries.push(Entry { name: name.to_owned(), stat: stat_of(&meta)? });
                        last = Some(meta.location);
                    }
                    Err(failure) => break failure.error,
                }
            };
            if entries.len() == before || !is_transient(error.kind()) {
                return Err(error);
            }
        }
    }

    pub(crate) async fn create(&self, path: &Path, bytes: Bytes) -> io::Result<Created> {
        match self.put(path, bytes, PutMode::Create).await {
            Ok(stat) => Ok(Created::Made(stat)),
            Err(failure) => match failure.status {
                Some(409) if is_conflict(&failure.code) => Err(busy()),
                Some(409 | 412 | 304) => Ok(Created::Exists),
                _ => Err(failure.into()),
            },
        }
    }

    pub(crate) async fn replace(&self, path: &Path, bytes: Bytes, expected: &Version) -> io::Result<Replaced> {
        let e_tag = quoted(expected);
        let version = match self.service {
            // This service compares generations. The generation of this moment either has the tag or is too new.
            Service::Google => match self.meta(path).await? {
                Some(meta) if version_of(meta.e_tag.clone())? == *expected => meta.version,
                _ => return Ok(Replaced::Changed),
            },
            Service::S3 | Service::Azure => None,
        };
        let mode = PutMode::Update(UpdateVersion { e_tag: Some(e_tag), version });
        match self.put(path, bytes, mode).await {
            Ok(stat) => Ok(Replaced::Made(stat)),
            Err(failure) => match failure.status {
                Some(409) => Err(busy()),
                Some(404 | 412) => Ok(Replaced::Changed),
                _ => Err(failure.into()),
            },
        }
    }
}

/// Returns true if the server refused a conditional write because another one was in progress.
fn is_conflict(code: &str) -> bool {
    matches!(code, "ConditionalRequestConflict" | "OperationAborted")
}

fn busy() -> io::Error {
    io::Error::new(ErrorKind::WouldBlock, "another write of this object was in progress")
}

/// Returns true if a listing may continue after an error of that kind.
fn is_transient(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::TimedOut | ErrorKind::WouldBlock | ErrorKind::ConnectionReset)
}

/// Removes the empty objects that some programs create for folders: `a` if there is `a/b`.
fn without_markers(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let names: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
    entries.retain(|entry| {
        let inside = format!("{}/", entry.name);
        let at = names.partition_point(|name| *name < inside);
        entry.stat.bytes > 0 || !names.get(at).is_some_and(|name| name.starts_with(&inside))
    });
    entries
}

/// Returns the metadata of an object of a listing or a read.
pub(crate) fn stat_of(meta: &ObjectMeta) -> io::Result<Stat> {
    let version = version_of(meta.e_tag.clone())?;
    // Listings have fractions of a second, answers to reads have not.
    let seconds = u64::try_from(meta.last_modified.timestamp()).unwrap_or_default();
    Ok(Stat { bytes: meta.size, version, modified: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) })
}

/// Returns the metadata after a put. The time is of this machine: the answer has none.
pub(crate) fn stat_of_put(put: PutResult, bytes: u64) -> io::Result<Stat> {
    Ok(Stat { bytes, version: version_of(put.e_tag)?, modified: SystemTime::now() })
}

/// Returns the version of a tag. Without quotes: Azure leaves them out in listings.
fn version_of(e_tag: Option<String>) -> io::Result<Version> {
    let tag = e_tag.unwrap_or_default();
    let tag = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).unwrap_or(&tag);
    if tag.is_empty() {
        let message = "the server sends no ETag, so versions cannot be told apart";
        return Err(io::Error::new(ErrorKind::Unsupported, message));
    }
    Ok(Version::new(tag))
}

/// Returns the tag of a version.
fn quoted(version: &Version) -> String {
    let tag = version.to_string();
    if tag.starts_with("W/") { tag } else { format!("\"{tag}\"") }
}
