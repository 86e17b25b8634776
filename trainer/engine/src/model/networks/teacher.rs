//! Teacher network: a frozen copy of the main network.
//!
//! # What
//! The main network at the start of the run: never updated, no moving average. Every checkpoint contains it, so that a
//! resumed run has the same teacher even if the folder of the initial weights is gone.
//!
//! # Why
//! The output of a network that sees the complete text is a target that needs no labels.
//!
//! # Definition
//! `θ_teacher = θ_main` at step 0, constant for the whole run.
//!
//! # Reference
//! Su et al., *TaCL*, Findings of NAACL 2022, section 2. The released code leaves the teacher's dropout on; `dropout =
//! true` reproduces that.

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
