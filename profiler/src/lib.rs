//! Where the time of a pipeline goes: measured while it works, judged, and what a change would bring.
//!
//! [`measure`] takes samples ([`look`]) and derives [`figures`] and a [`timeline`], [`statistics`] gives the confidence of a
//! rate, [`verdict`] names the [`bottleneck`] and [`next_bottleneck`] the one after it, [`neighbor`] how much of the processors
//! workers take, [`what_if`] simulates changes with the [`model`], [`scaling`] fits a law to several numbers of workers,
//! [`compare`] compares two profiles. [`trace`] records what every worker does at each moment, and [`report`] writes the page of a
//! profile.

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

/// The version of what `cloze profile --json` writes.
pub const VERSION: u64 = 1;
