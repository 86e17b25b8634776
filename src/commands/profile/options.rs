//! What to profile, and how it is told.

use std::path::PathBuf;

use crate::cli::{Half, TraceArgs};

/// What to do with which half.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) half: Half,
    pub(crate) seconds: f64,
    pub(crate) batches: Option<u64>,
    #[cfg_attr(not(feature = "train"), expect(dead_code, reason = "there is no trainer to time"))]
    pub(crate) steps: usize,
    pub(crate) step_ms: f64,
    pub(crate) slow: Option<String>,
    pub(crate) check: bool,
    pub(crate) scale: Vec<usize>,
    pub(crate) report: Option<PathBuf>,
    pub(crate) svg: Option<PathBuf>,
    pub(crate) json: bool,
    pub(crate) traced: TraceArgs,
}
