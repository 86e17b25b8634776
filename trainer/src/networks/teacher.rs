//! The frozen copy that a student learns from.
//!
//! # What
//! The main network as the run began: never updated, no moving average. It is saved with every checkpoint, so that a
//! resumed run has the same teacher whatever became of the folder that it started from.
//!
//! # Reference
//! Su et al., *TaCL*, Findings of NAACL 2022, section 2. The released code leaves the teacher's dropout on, which
//! `dropout = true` reproduces.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tch::Tensor;

use super::AnyNetwork;
use crate::parameters::Parameters;

/// See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Teacher {
    /// Whether dropout stays on.
    pub dropout: bool,
}

/// Copies the main encoder's weights to every teacher: once, when a run begins.
pub fn teach(networks: &BTreeMap<String, AnyNetwork>, parameters: &Parameters) {
    let teachers = networks.iter().filter(|(_, network)| matches!(network, AnyNetwork::Teacher(_)));
    for prefix in teachers.map(|(name, _)| format!("{name}.")) {
        let copies = parameters.iter().filter_map(|(name, weight)| Some((name.strip_prefix(&prefix)?, &weight.tensor)));
        for (name, copy) in copies {
            let main = parameters.get(name).expect("a teacher has the main network's weights");
            let copy_from = |copy: &Tensor| copy.shallow_clone().copy_(&main.detach());
            tch::no_grad(|| copy_from(copy));
        }
    }
}
