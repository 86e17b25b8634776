//! Options of `cloze train` on the command line.

/// Options of `cloze train` that are not keys of the configuration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options<'a> {
    /// Number of micro-batches to train on over and over; the run keeps nothing.
    pub(crate) replay: Option<u64>,
    /// Also prepares the corpus.
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
