//! Shards on disk and in memory.

pub mod groups;
pub mod reader;
pub mod synthetic;
