//! Training of a run: the loop, the optimizer step, reports and checkpoints.

pub mod checkpoint;
pub(crate) mod detector_health;
pub(crate) mod early_stop;
pub(crate) mod fill;
mod gradient_sum;
mod inference;
pub(crate) mod init_loss_check;
pub(crate) mod inspect;
pub(crate) mod interfaces;
pub(crate) mod metric_accumulator;
mod moment_shards;
pub(crate) mod oom_error;
pub(crate) mod predict;
pub(crate) mod process_group;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod row_losses;
pub(crate) mod run;
pub(crate) mod spike_guard;
mod startup_report;
pub(crate) mod step;
pub(crate) mod straggler;
pub(crate) mod throughput;
pub(crate) mod timing;
pub(crate) mod validation;

pub use self::checkpoint::Snapshot;
pub use self::fill::{Filler, TokenGuess};
pub use self::inspect::Inspector;
pub use self::interfaces::{Data, Host, RunOutcome, ValidationScorer};
pub use self::predict::Predictor;
pub use self::process_group::{HostShare, PendingReduction, ProcessGroup, SingleProcess, connect};
pub use self::replay::Replay;
pub use self::run::run;
pub use self::spike_guard::Observed;
pub use self::step::Trainer;
pub use self::timing::{Timing, time_steps};
