//! A run from its first step to its last: the loop, one step of it, its reports and its checkpoints.

pub(crate) mod around;
pub mod checkpoint;
pub(crate) mod fill;
pub(crate) mod guard;
mod on_device;
pub(crate) mod pace;
pub(crate) mod ranks;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod room;
pub(crate) mod rows;
pub(crate) mod run;
pub(crate) mod start;
pub(crate) mod step;
pub(crate) mod tally;
pub(crate) mod timing;
pub(crate) mod validation;

pub use self::around::{Data, Host, Outcome};
pub use self::checkpoint::Snapshot;
pub use self::fill::{Filler, Guess};
pub use self::guard::Observed;
pub use self::ranks::{Alone, Ranks};
pub use self::replay::Replay;
pub use self::run::run;
pub use self::step::Trainer;
pub use self::timing::{Timing, time_steps};
