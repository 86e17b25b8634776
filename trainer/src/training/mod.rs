//! A run from its first step to its last: the loop, one step of it, what it says and what it keeps.

pub(crate) mod around;
pub(crate) mod beside;
pub mod branch;
pub mod checkpoint;
pub mod extended;
pub(crate) mod fill;
pub(crate) mod guard;
pub(crate) mod hours;
mod on_device;
pub(crate) mod pace;
pub(crate) mod ranks;
pub(crate) mod replay;
pub(crate) mod resume;
pub mod rollback;
pub(crate) mod room;
pub(crate) mod rows;
pub(crate) mod run;
pub mod skips;
pub(crate) mod start;
pub(crate) mod step;
pub(crate) mod tally;
pub(crate) mod timing;
pub(crate) mod undone;
pub(crate) mod validation;

pub use self::around::{Data, Host, Outcome};
pub use self::beside::Beside;
pub use self::checkpoint::{Snapshot, State};
pub use self::fill::{Filler, Guess};
pub use self::guard::{Observed, SavedGuard};
pub use self::ranks::{Alone, Ranks, StopRequest};
pub use self::replay::Replay;
pub use self::run::run;
pub use self::step::Trainer;
pub use self::timing::{Timing, time_steps};
pub use self::undone::Undone;
pub use self::validation::VALID_MLM;
