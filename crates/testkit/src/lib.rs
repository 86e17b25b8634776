//! Support that the tests of several packages share. Only a dev-dependency.
//!
//! # What
//! | item | purpose |
//! |---|---|
//! | [`skip()`] | says that a test, or a part of it, did not run, and counts it |
//! | [`Home`] | temporary folder with a corpus, in which the program runs |
//! | [`Running`], [`send`] | program that is running, and signals to it |
//! | [`files()`], [`folder_hash`] | content of a folder |
//! | [`every_objective`], [`assert_equal_runs`], [`tuning`] | arguments and comparisons of runs |
//! | [`crash_after()`] | store that stops working after a number of changes |
//! | [`corpus`] | generated documents |
//! | [`tree`] | source files of this repository |

pub mod corpus;
mod crash_after;
mod files;
mod home;
mod outcome;
mod running;
mod runs;
mod skip;
pub mod tree;
pub mod tuning;

pub use self::crash_after::crash_after;
pub use self::files::{files, folder_hash, is_temporary};
pub use self::home::{Home, profile_args, program};
pub use self::outcome::Outcome;
pub use self::running::{Running, send, wait_for_handler, wait_for_thread};
pub use self::runs::{CLOCKS, assert_equal_runs, every_objective, values, with_every_objective};
pub use self::skip::{say, skip};
pub use self::tree::root;
