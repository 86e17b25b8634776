//! What a run is seen by from elsewhere: a page, metrics, probes, a few things that may be asked of it.
//!
//! In the order of reading: `history` keeps what a run said, in bounded memory; `live` hands on what it says now;
//! [`RunState`] is both, fed by events. A [`Backend`] answers for what is not in events: what all actors do now, the
//! configuration, sample rows, and what may be asked of it. [`Server`] puts these on an address; [`report`] puts the
//! first into a file.
//!
//! Nothing here waits for a run, and no run waits for anything here: events come through a bounded queue of its owner,
//! clients read a ring and are told to start over where they are too slow for it.

mod access;
mod backend;
mod broadcast;
mod columns;
mod config;
mod history;
mod limits;
mod metrics;
mod page;
pub mod report;
mod routes;
mod run_state;
mod server;
mod shutdown;
#[cfg(test)]
mod tests;

pub use backend::{Action, ActorStatus, ApiError, Backend, CheckpointStatus, Health, MemoryStatus, Status};
pub use config::{ListenAddress, ServeConfig};
pub use run_state::{About, Kind, RunState};
pub use server::Server;
