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

use trainer_plan::networks::teacher::Teacher;

use super::Build;
use super::network::{BuiltNetwork, Site};
use crate::model::encoder::{Encoder, Shared};
use crate::model::parameters::Path;

impl Build for Teacher {
    fn build(&self, site: &Site<'_>, path: &Path<'_>) -> BuiltNetwork {
        let encoder = Encoder::build(site.shape, site.precision, &Shared::default(), &path.sub("encoder"));
        BuiltNetwork { encoder: Some(encoder), is_still: !self.dropout, sampler: None }
    }
}
