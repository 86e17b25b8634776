//! Teacher: a frozen copy of the initial main network.
//!
//! Su et al. 2022, TaCL, section 2. It runs in `trainer::model::networks::teacher`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Network, NetworkContext};
use crate::encoder::EncoderConfig;
use crate::weights::{self, SharedTables, WeightPath};

/// Frozen copy of the initial main network. See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Teacher {
    /// Whether dropout stays on.
    pub dropout: bool,
}

impl Network for Teacher {
    fn shape(&self, main: &EncoderConfig) -> Option<EncoderConfig> {
        Some(main.clone())
    }

    fn is_trained(&self) -> bool {
        false
    }

    fn copies_main(&self) -> bool {
        true
    }

    fn declare(&self, context: NetworkContext<'_>, path: &mut WeightPath<'_>) {
        let mut path = path.frozen(true);
        weights::encoder(context.main, context.vocab_size, SharedTables::default(), &mut path.sub("encoder"));
    }
}
