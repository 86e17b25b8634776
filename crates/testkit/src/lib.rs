//! Common support for the tests of several packages. Only a dev-dependency.
//!
//! # What
//! | item | purpose |
//! |---|---|
//! | [`skip()`] | reports and counts a test, or a part of a test, that did not run |
//! | [`Home`] | temporary working folder of the program with a corpus |
//! | [`Running`], [`send`] | running program, and signals to it |
//! | [`files()`], [`folder_hash`] | content of a folder |
//! | [`every_objective`], [`assert_equal_runs`], [`tuning`] | arguments and comparisons of runs |
//! | [`crash_after()`] | store that fails after a number of changes |
//! | [`check_contract()`] | contract of every storage backend |
//! | [`corpus`] | generated documents |
//! | [`LogRecords`] | log records in memory |
//! | [`exports`] | checks of exported models |
//! | [`servers`] | servers of HTTP, S3 and Azure in memory, with faults |
//! | [`tree`] | source files of this repository |

pub mod corpus;
mod crash_after;
pub mod exports;
mod files;
mod home;
mod log_records;
mod outcome;
mod running;
mod runs;
pub mod servers;
mod skip;
mod store_contract;
pub mod tree;
pub mod tuning;

pub use self::crash_after::crash_after;
pub use self::files::{files, folder_hash, is_temporary};
pub use self::home::{Home, profile_args, program};
pub use self::log_records::LogRecords;
pub use self::outcome::Outcome;
pub use self::running::{Running, send, wait_for_handler, wait_for_thread};
pub use self::runs::{CLOCKS, assert_equal_runs, every_objective, values, with_every_objective};
pub use self::skip::{print_uncaptured, skip};
pub use self::store_contract::check_contract;
pub use self::tree::root;
