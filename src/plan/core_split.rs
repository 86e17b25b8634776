//! How the cores are shared where a corpus is prepared next to the training that reads it.

use crate::config::Config;

/// The workers of both halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halves {
    /// Those of the preparation: as many as `prepare.workers` says, else the cores that the loader leaves, at least one.
    pub prepare: usize,
    /// Those of the loader.
    pub(crate) load: usize,
    /// Cores of this machine.
    pub(crate) cores: usize,
}

impl Halves {
    /// The split for that configuration.
    pub fn of(config: &Config) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let load = config.data.workers();
        let left = cores.saturating_sub(load).max(1);
        Self { prepare: config.prepare.workers.unwrap_or(left), load, cores }
    }
}
