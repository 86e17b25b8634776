//! Who speaks, before anything is said.

/// A run or a preparation, as a collector is to know it.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "nobody is told in a program without the feature"))]
pub(crate) struct Speaker {
    /// Its folder, as it was named: one name for all its processes.
    pub(crate) name: String,
    /// What it is, as a hash; a preparation has none.
    pub(crate) identity: Option<String>,
    /// Steps by plan, where that is known.
    pub(crate) steps: Option<u64>,
}
