//! Files of a run's folder next to its checkpoints: what was rolled back, skipped, extended and branched.

pub mod branch;
pub mod rollback;
pub mod rollback_archive;
pub mod sidecar_check;
pub mod skipped_steps;
pub mod step_budget;
pub mod time_budget;
