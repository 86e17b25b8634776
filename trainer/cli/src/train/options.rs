//! Command-line options of `cloze train`.

/// Options of `cloze train` that are not keys of the configuration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options<'a> {
    /// Number of micro-batches to repeat. The run saves nothing.
    pub(crate) replay: Option<u64>,
    /// Whether to prepare the corpus too.
    pub(crate) prepare: bool,
    /// A phase to slow down, `PHASE=MS`.
    pub(crate) slow: Option<&'a str>,
    /// Faults to inject.
    pub(crate) faults: Option<&'a str>,
    /// Steps to profile.
    pub(crate) profile: Option<&'a str>,
    /// Keys that may differ from those of the newest checkpoint.
    pub(crate) allow_change: &'a [String],
}
