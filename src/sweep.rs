//! Sweeps: fine-tunings with lists of values and several seeds, as one job.
//!
//! A [`plan::SweepPlan`] states the runs. It is stored as `sweep.json`, so every process on a folder has the same ones.
//! [`runner`] starts each run as a child process `cloze finetune` and locks its folder meanwhile. [`results`] reads what
//! finished, [`summary`] computes statistics over seeds, and [`tables`], [`files`] and [`page`] show them.

pub(crate) mod average;
mod devices;
pub(crate) mod files;
pub(crate) mod grid;
pub(crate) mod page;
pub(crate) mod plan;
pub(crate) mod request;
pub(crate) mod results;
pub(crate) mod runner;
pub(crate) mod summary;
pub(crate) mod tables;
