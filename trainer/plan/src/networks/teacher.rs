//! Teacher: the main network as the run began, which never learns.
//!
//! Su et al. 2022, TaCL, section 2. It runs in `trainer::model::networks::teacher`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Network, NetworkContext};
use crate::encoder::EncoderConfig;
use crate::weights::{self, SharedTables, WeightPath};

/// The main network as the run began: never updated. See the [module](self).
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

    fn learns(&self) -> bool {
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
