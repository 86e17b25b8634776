//! What a run is: its sections, the plan that they make, what it costs, and what makes it this run and no other.

pub(crate) mod config;
pub(crate) mod cost;
pub(crate) mod identity;
pub(crate) mod members;
pub(crate) mod memory;
pub(crate) mod reads;
pub(crate) mod request;
mod rules;
pub(crate) mod train_plan;

pub use self::config::{
    CheckpointConfig, GuardConfig, GuardRule, ModelFamily, ReportConfig, TrainConfig, ValidationConfig,
};
pub use self::identity::{Identity, check_allowed};
pub use self::reads::{columns_encoded, columns_read, used_networks};
pub use self::request::{Amended, TrainRequest};
pub(crate) use self::rules::GUARD_WINDOW_MIN;
pub use self::train_plan::TrainPlan;
