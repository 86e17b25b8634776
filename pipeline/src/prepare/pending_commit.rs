//! Commit of a segment: its objects become durable and visible, then its record.

use std::time::{Duration, Instant};

use schemas::Sealed as _;
use store::{ObjectWriter, Store};

use super::commit_record::CommitRecord;
use crate::Result;

/// Written segment that is not committed. It waits for disks or servers only.
#[must_use]
pub(super) struct PendingCommit {
    store: Option<Store>,
    /// Shards and table of documents.
    objects: Vec<ObjectWriter>,
    /// Name and content.
    record: (String, Vec<u8>),
}

impl PendingCommit {
    /// Creates the commit of these objects in the store, or of none.
    pub(super) fn new(store: Option<&Store>, objects: Vec<ObjectWriter>, record: &CommitRecord) -> Self {
        let record = if store.is_some() { (record.file_name(), record.seal()) } else { Default::default() };
        Self { store: store.cloned(), objects, record }
    }

    /// Commits the objects, then writes the record. Returns the time that it took.
    pub(super) fn complete(self) -> Result<Duration> {
        let began = Instant::now();
        for object in self.objects {
            object.commit()?;
        }
        if let Some(store) = self.store {
            let (name, content) = self.record;
            store.put(&name, &content)?;
        }
        Ok(began.elapsed())
    }
}
