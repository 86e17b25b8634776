//! Profiler of the pipeline: measurement, bottleneck analysis and prediction of changes.
//!
//! [`measure`] samples the pipeline ([`look`]) and derives [`figures`] and a [`timeline`]. [`statistics`] computes
//! the confidence interval of a rate. [`verdict`] names the [`bottleneck`], [`next_bottleneck`] the one after it.
//! [`neighbor`] reports the share of the processors that workers use. [`what_if`] simulates changes with the
//! [`model`]. [`scaling`] fits a scaling law to several numbers of workers. [`compare`] compares two profiles.
//! [`trace`] records the activity of each worker over time. [`report`] writes the HTML page of a profile.

pub mod bottleneck;
pub mod compare;
mod error;
pub mod figures;
mod look;
pub mod measure;
mod model;
pub mod neighbor;
mod next_bottleneck;
pub mod report;
pub mod scaling;
pub mod stages;
pub mod statistics;
mod timeline;
pub mod trace;
pub mod verdict;
pub mod what_if;

pub use self::error::InvalidProfile;

/// Version of the output of `cloze profile --json`.
pub const VERSION: u64 = 1;
