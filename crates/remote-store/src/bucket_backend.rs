//! Storage backend of a bucket: blocking calls on the shared runtime.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;
use object_store::ObjectStoreExt as _;
use store::{Created, Entry, Replaced, Stat, StoreBackend, Upload, Version};

use crate::bucket::{Bucket, stat_of};
use crate::list_pages::with_skipped;
use crate::runtime;
use crate::upload::BucketUpload;

impl StoreBackend for Bucket {
    fn get(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        let (bucket, path) = (self.clone(), self.path(name)?);
        runtime::run(async move {
            let Some(result) = bucket.open(&path, None).await? else { return Ok(None) };
            let stat = stat_of(&result.meta)?;
            Ok(Some((bucket.collect(result).await?, stat)))
        })
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let (bucket, path) = (self.clone(), self.path(name)?);
        runtime::run(async move { bucket.read_range(&path, range).await })
    }

    fn head(&self, name: &str) -> io::Result<Option<Stat>> {
        let (bucket, path) = (self.clone(), self.path(name)?);
        runtime::run(async move { bucket.meta(&path).await?.as_ref().map(stat_of).transpose() })
    }

    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        let (bucket, path) = (self.clone(), self.path(folder)?);
        let (entries, skipped) = runtime::run(async move {
            let (entries, skipped) = with_skipped(bucket.entries(&path)).await;
            Ok((entries?, skipped))
        })?;
        self.warn_of_skipped(&skipped);
        Ok(entries)
    }

    fn begin_upload(&self, name: &str) -> io::Result<Box<dyn Upload>> {
        Ok(Box::new(BucketUpload::new(self.clone(), self.path(name)?)))
    }

    fn put_if_absent(&self, name: &str, bytes: &[u8]) -> io::Result<Created> {
        let (bucket, path, bytes) = (self.clone(), self.path(name)?, Bytes::copy_from_slice(bytes));
        runtime::run(async move { bucket.create(&path, bytes).await })
    }

    fn put_if_version(&self, name: &str, bytes: &[u8], expected: &Version) -> io::Result<Replaced> {
        let (bucket, path, bytes) = (self.clone(), self.path(name)?, Bytes::copy_from_slice(bytes));
        let expected = expected.clone();
        runtime::run(async move { bucket.replace(&path, bytes, &expected).await })
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        let (bucket, path) = (self.clone(), self.path(name)?);
        runtime::run(async move {
            match bucket.observed(bucket.stall_timeout, bucket.client.delete(&path)).await {
                Err(failure) if failure.error.kind() != ErrorKind::NotFound => Err(failure.into()),
                _ => Ok(()),
            }
        })
    }

    /// Removes nothing. An unfinished multipart upload may belong to a live writer, and is in no listing: a lifecycle
    /// rule of the bucket must abort those that are older than the longest run (`docs/object-stores.md`).
    fn sweep(&self, _folder: &str) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn display_path(&self, name: &str) -> String {
        if name.is_empty() { self.display.clone() } else { format!("{}/{name}", self.display) }
    }

    fn local(&self, _folder: &str) -> Option<PathBuf> {
        None
    }
}
