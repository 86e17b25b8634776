//! Who speaks, before anything is said.

/// A run or a preparation, as a collector is to know it.
#[derive(Clone, Debug, Default)]

pub struct Speaker {
    /// Its folder, as it was named: one name for all its processes.
    pub name: String,
    /// What it is, as a hash; a preparation has none.
    pub identity: Option<String>,
    /// Steps by plan, where that is known.
    pub steps: Option<u64>,
}
