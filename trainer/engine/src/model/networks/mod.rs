//! The networks of a run, built. One file each, one line in the table below; its configuration is the file of the same name in
//! [`trainer_plan::networks`].

pub(crate) mod built;
#[cfg(test)]
mod contract;
pub(crate) mod network;
pub(crate) mod sampler;

use trainer_plan::networks::AnyNetwork;

use self::network::{BuiltNetwork, Site};
use crate::model::parameters::Path;

/// A configured network that can be built.
pub(crate) trait Build {
    /// Takes its weights, below `path`.
    fn build(&self, site: &Site<'_>, path: &Path<'_>) -> BuiltNetwork;
}

builders! {
    /// How each network is built.
    AnyNetwork {
        generator::Generator,
        teacher::Teacher,
    }
}
