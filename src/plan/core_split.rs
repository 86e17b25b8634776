//! Division of the cores between a preparation and the training that reads its output.

use crate::config::Config;

/// Numbers of workers of both parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreSplit {
    /// Workers of the preparation: `prepare.workers`, by default the cores that the loader leaves, at least one.
    pub prepare: usize,
    /// Workers of the loader.
    pub(crate) load: usize,
    /// Number of cores of this machine.
    pub(crate) cores: usize,
}

impl CoreSplit {
    /// Computes the division for a configuration.
    pub fn new(config: &Config) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let load = config.data.workers();
        let left = cores.saturating_sub(load).max(1);
        Self { prepare: config.prepare.workers.unwrap_or(left), load, cores }
    }
}
