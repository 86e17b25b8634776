//! The frozen copy that a student learns from.
//!
//! # What
//! The main network as the run began: never updated, no moving average. It is saved with every checkpoint, so that a
//! resumed run has the same teacher whatever became of the folder that it started from.
//!
//! # Why
//! What a network says of a token with the whole text before it is a target that costs no labels.
//!
//! # Definition
//! `θ_teacher = θ_main` at step 0, for good.
//!
//! # Reference
//! Su et al., *TaCL*, Findings of NAACL 2022, section 2. The released code leaves the teacher's dropout on, which
//! `dropout = true` reproduces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Network;
use super::network::{BuiltNetwork, Site};
use crate::model::encoder::{Encoder, Shared};
use crate::model::parameters::Path;
use crate::model::shape::EncoderConfig;

/// The main network as the run began: never updated. See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Teacher {
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

    fn build(&self, site: &Site<'_>, path: &mut Path<'_>) -> BuiltNetwork {
        let mut path = path.frozen(true);
        let mut path = path.sub("encoder");
        let encoder = Encoder::build(site.shape, site.vocab.size, site.precision, &Shared::default(), &mut path);
        BuiltNetwork { encoder: Some(encoder), is_still: !self.dropout, sampler: None }
    }
}
