//! What a run is: its sections, the plan that they make, what it costs, and what makes it this run and no other.

pub mod config;
pub mod cost;
pub mod identity;
pub mod members;
pub mod reads;
pub mod request;
mod rules;
pub mod train_plan;

pub use self::config::{CheckpointConfig, ReportConfig, TrainConfig, ValidationConfig};
pub use self::identity::Identity;
pub use self::reads::{ColumnsRead, columns_read, used_networks};
pub use self::request::TrainRequest;
pub use self::train_plan::TrainPlan;
