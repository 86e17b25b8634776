//! A run from its first step to its last: the loop, one step of it, what it says and what it keeps.

pub mod checkpoint;
pub mod fill;
pub mod ranks;
pub mod resume;
pub mod run;
pub mod start;
pub mod step;
pub mod tally;
pub mod validation;

pub use self::checkpoint::{Snapshot, State};
pub use self::fill::{Filler, Guess};
pub use self::ranks::{Alone, Ranks, Stop};
pub use self::run::{Data, Host, Outcome, run};
pub use self::step::Trainer;
pub use self::validation::VALID_MLM;
