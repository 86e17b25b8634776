//! The frozen copy that a student learns from.
//!
//! # What
//! The main network as the run began: never updated, no moving average. It is saved with every checkpoint, so that a
//! resumed run has the same teacher whatever became of the folder that it started from.
//!
//! # Reference
//! Su et al., *TaCL*, Findings of NAACL 2022, section 2. The released code leaves the teacher's dropout on, which
//! `dropout = true` reproduces.

use serde::{Deserialize, Serialize};

/// See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Teacher {
    /// Whether dropout stays on.
    pub dropout: bool,
}
