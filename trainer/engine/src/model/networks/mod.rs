//! Networks of a run, one file and one line of the table below for each. The file of the same name in
//! [`trainer_plan::networks`] holds the configuration.

pub(crate) mod built;
#[cfg(test)]
mod contract;
pub(crate) mod network;
pub(crate) mod sampler;

use trainer_plan::networks::AnyNetwork;

use self::network::{BuiltNetwork, Site};
use crate::model::parameters::Path;

/// Builder of a configured network.
pub(crate) trait Build {
    /// Builds the network from its weights below `path`.
    fn build(&self, site: &Site<'_>, path: &Path<'_>) -> BuiltNetwork;
}

builders! {
    /// Returns the builder of a configured network.
    AnyNetwork {
        generator::Generator,
        teacher::Teacher,
    }
}
