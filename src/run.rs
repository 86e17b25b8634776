//! A run: its folder, the data that it reads, how signals and clients control it, and how it is monitored.

pub mod bad_rows;
pub mod control;
pub mod data;
pub mod dataset_versions;
pub mod fault_injection;
pub mod folder;
pub mod log_writer;
pub mod monitoring;
pub(crate) mod worker_status;
