//! Files in a run's folder next to its checkpoints: rollbacks, skipped steps, budgets and branches.

pub mod branch;
pub mod resume_check;
pub mod rollback;
pub mod rollback_archive;
pub mod sidecar_check;
pub mod skipped_steps;
pub mod step_budget;
pub mod time_budget;
