//! From gradients to new weights: the update, and how fast it learns when.

pub(crate) mod adamw;
pub(crate) mod schedule;

pub use self::adamw::OptimizerConfig;
pub use self::schedule::{ScheduleConfig, ScheduleKind, Span};
