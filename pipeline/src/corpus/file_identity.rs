//! Identity of a corpus file from its metadata, without reading it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};
use store::Stat;

/// Identity of a file from its metadata, without reading it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileIdentity {
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    inode: (u64, u64),
    /// Version of an object (its `ETag`, for example), which has no other identity than this and its length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

impl FileIdentity {
    pub(super) fn of_file(metadata: &Metadata) -> Self {
        Self {
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            inode: (metadata.dev(), metadata.ino()),
            version: None,
        }
    }

    pub(super) fn of_object(stat: &Stat) -> Self {
        Self { bytes: stat.bytes, version: Some(stat.version.to_string()), ..Self::default() }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether length, time of the last write and version of an object are equal. Two machines number devices differently.
    pub(crate) fn has_same_content_stamp(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.modified == other.modified && self.version == other.version
    }

    /// Whether the text is the same. A new hard link or another owner changes `changed` only.
    pub(super) fn has_same_text(&self, other: &Self) -> bool {
        self.inode == other.inode && self.has_same_content_stamp(other)
    }

    /// Whether both are the same unchanged file, perhaps seen by two machines.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        self == other || self.is_seen_elsewhere(other)
    }

    /// Whether both are one file of a file system, perhaps changed.
    pub(super) fn is_same_inode(&self, other: &Self) -> bool {
        self.version.is_none() && self.inode == other.inode
    }

    /// Whether both may be the same file, seen by two machines: the numbers of its device differ.
    pub(crate) fn is_seen_elsewhere(&self, other: &Self) -> bool {
        self.inode.0 != other.inode.0 && self.has_same_content_stamp(other)
    }
}
