//! Upload of an object: one request for a small one, a multipart upload for a large one.
//!
//! # Definition
//! Bytes collect in parts of 8 MiB. An object that ends within its first part is put by the commit. Otherwise each full
//! part is sent while the next one collects, at most three at once, and the commit completes the upload. Memory:
//! four parts. Until the completion no reader sees anything.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use object_store::PutPayload;
use object_store::multipart::PartId;
use object_store::path::Path;
use store::{Stat, Upload};
use tokio::task::AbortHandle;

use crate::bucket::{Bucket, stat_of_put};
use crate::runtime;

/// Size of a part. S3 and R2 require at least 5 MiB, and R2 parts of equal size.
const PART_BYTES: usize = 8 << 20;
/// Most parts that a service accepts: 78 GiB of them.
const MAX_PARTS: usize = 10_000;
/// Parts that are sent at once.
const MAX_SENDING: usize = 3;
/// Longest wait for the abort of an unfinished upload.
const ABORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Unfinished upload.
#[derive(Debug)]
pub(crate) struct BucketUpload {
    bucket: Bucket,
    path: Path,
    /// Bytes that are in no part yet.
    buffer: Vec<u8>,
    /// Bytes that were received.
    length: u64,
    hasher: blake3::Hasher,
    /// Set with the first part.
    upload_id: Option<Arc<str>>,
    /// Parts that the server has, in their order.
    finished: Vec<PartId>,
    /// Following parts.
    sending: VecDeque<Part>,
    /// Set if a completion may have had its effect.
    maybe_completed: bool,
    committed: Option<Stat>,
}

/// Part that is being sent.
#[derive(Debug)]
struct Part {
    number: usize,
    bytes: Bytes,
    /// `None` after a failure.
    request: Option<Request>,
}

#[derive(Debug)]
struct Request {
    answer: Receiver<io::Result<PartId>>,
    task: AbortHandle,
}

impl BucketUpload {
    pub(crate) fn new(bucket: Bucket, path: Path) -> Self {
        Self {
            bucket,
            path,
            buffer: Vec::new(),
            length: 0,
            hasher: blake3::Hasher::new(),
            upload_id: None,
            finished: Vec::new(),
            sending: VecDeque::new(),
            maybe_completed: false,
            committed: None,
        }
    }

    /// Sends the buffer as the next part. After an error the buffer is unchanged.
    fn send_buffer(&mut self) -> io::Result<()> {
        let number = self.finished.len() + self.sending.len();
        if number >= MAX_PARTS {
            let message =
                format!("the object is larger than {MAX_PARTS} parts of {PART_BYTES} bytes; write smaller shards");
            return Err(io::Error::new(ErrorKind::FileTooLarge, message));
        }
        let upload_id = self.begin()?;
        while self.sending.len() >= MAX_SENDING {
            self.finish_part(&upload_id)?;
        }
        let bytes = Bytes::from(std::mem::take(&mut self.buffer));
        let request = self.request(&upload_id, number, &bytes)?;
        self.sending.push_back(Part { number, bytes, request: Some(request) });
        Ok(())
    }

    /// Returns the id of the multipart upload. The first call begins it.
    fn begin(&mut self) -> io::Result<Arc<str>> {
        if let Some(id) = &self.upload_id {
            return Ok(Arc::clone(id));
        }
        let (bucket, path) = (self.bucket.clone(), self.path.clone());
        let id: Arc<str> = runtime::run(async move {
            let begun = bucket.client.create_multipart(&path);
            Ok(bucket.observed(bucket.stall_timeout, begun).await?)
        })?
        .into();
        self.upload_id = Some(Arc::clone(&id));
        Ok(id)
    }

    /// Begins to send a part.
    fn request(&self, upload_id: &Arc<str>, number: usize, bytes: &Bytes) -> io::Result<Request> {
        let (bucket, path) = (self.bucket.clone(), self.path.clone());
        let (upload_id, bytes) = (upload_id.to_string(), bytes.clone());
        let (sender, answer) = sync_channel(1);
        let task = runtime::handle()?.spawn(async move {
            let limit = bucket.upload_limit(bytes.len());
            let put = bucket.client.put_part(&path, &upload_id, number, PutPayload::from_bytes(bytes));
            // An upload that was dropped does not read the answer.
            let _ = sender.send(bucket.observed(limit, put).await.map_err(io::Error::from));
        });
        Ok(Request { answer, task: task.abort_handle() })
    }

    /// Waits for the first part that is being sent. After an error the next call sends it again.
    fn finish_part(&mut self, upload_id: &Arc<str>) -> io::Result<()> {
        let Some(Part { number, bytes, request }) = self.sending.front() else { return Ok(()) };
        let again = if request.is_none() { Some(self.request(upload_id, *number, bytes)?) } else { None };
        let part = self.sending.front_mut().expect("it was there above");
        let request = part.request.take().or(again).expect("it is one of both");
        let lost = |_| Err(io::Error::other("the request of a part ended without an answer (internal error)"));
        let id = request.answer.recv().unwrap_or_else(lost)?;
        self.sending.pop_front();
        self.finished.push(id);
        Ok(())
    }

    fn complete(&mut self) -> io::Result<Stat> {
        if self.upload_id.is_none() {
            let (bucket, path) = (self.bucket.clone(), self.path.clone());
            let bytes = Bytes::copy_from_slice(&self.buffer);
            return runtime::run(async move { bucket.overwrite(&path, bytes).await });
        }
        if !self.buffer.is_empty() {
            self.send_buffer()?;
        }
        let upload_id = self.begin()?;
        while !self.sending.is_empty() {
            self.finish_part(&upload_id)?;
        }
        let repeated = std::mem::replace(&mut self.maybe_completed, true);
        let (bucket, path, length) = (self.bucket.clone(), self.path.clone(), self.length);
        let (upload_id, parts, hash) = (upload_id.to_string(), self.finished.clone(), self.hasher.finalize());
        runtime::run(async move {
            let completed = bucket.client.complete_multipart(&path, &upload_id, parts);
            // A server joins the parts before it answers.
            match bucket.observed(bucket.stall_timeout * 2, completed).await {
                Ok(put) => stat_of_put(put, length),
                // The upload no longer exists: an earlier completion, whose answer was lost, may have ended it.
                Err(failure) if repeated && matches!(failure.status, Some(400 | 404)) => {
                    match completed_before(&bucket, &path, length, hash).await? {
                        Some(stat) => Ok(stat),
                        None => Err(failure.into()),
                    }
                }
                Err(failure) => Err(failure.into()),
            }
        })
    }
}

/// Returns the metadata of the object if its content is that of the upload.
async fn completed_before(bucket: &Bucket, path: &Path, length: u64, hash: blake3::Hash) -> io::Result<Option<Stat>> {
    let Some(result) = bucket.open(path, None).await? else { return Ok(None) };
    if result.meta.size != length {
        return Ok(None);
    }
    let stat = crate::bucket::stat_of(&result.meta)?;
    let mut hasher = blake3::Hasher::new();
    bucket
        .drain(result, |chunk| {
            hasher.update(chunk);
        })
        .await?;
    Ok((hasher.finalize() == hash).then_some(stat))
}

impl Upload for BucketUpload {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        // After an error the caller repeats the write; its first bytes may already be here.
        let known = self.length.checked_sub(offset).and_then(|known| usize::try_from(known).ok());
        let gap =
            || io::Error::new(ErrorKind::InvalidInput, format!("bytes {}..{offset} were not written", self.length));
        let mut rest = bytes.get(known.ok_or_else(gap)?..).unwrap_or_default();
        while !rest.is_empty() {
            if self.buffer.len() == PART_BYTES {
                self.send_buffer()?;
            }
            let (next, after) = rest.split_at(rest.len().min(PART_BYTES - self.buffer.len()));
            self.buffer.extend_from_slice(next);
            self.hasher.update(next);
            self.length += next.len() as u64;
            rest = after;
        }
        Ok(())
    }

    fn commit(&mut self) -> io::Result<Stat> {
        if let Some(stat) = &self.committed {
            return Ok(stat.clone());
        }
        let stat = self.complete()?;
        self.committed = Some(stat.clone());
        Ok(stat)
    }
}

impl Drop for BucketUpload {
    fn drop(&mut self) {
        let (Some(upload_id), None) = (&self.upload_id, &self.committed) else { return };
        for request in self.sending.iter().filter_map(|part| part.request.as_ref()) {
            request.task.abort();
        }
        let (bucket, path, upload_id) = (self.bucket.clone(), self.path.clone(), upload_id.to_string());
        // If the abort fails, the lifecycle rule of the bucket removes the parts.
        let _ = runtime::run(async move {
            let limit = bucket.stall_timeout.min(ABORT_TIMEOUT);
            Ok(bucket.observed(limit, bucket.client.abort_multipart(&path, &upload_id)).await?)
        });
    }
}
