//! HTTP server of a run: live page, Prometheus metrics, health probes and actions.
//!
//! Modules in reading order: `history` keeps past events in bounded memory. `broadcast` distributes new events.
//! [`RunState`] contains both and is fed by events. A [`Backend`] provides the data that events do not contain: worker
//! states, the configuration, sample rows and actions. [`Server`] serves them at an address. [`report`] writes the
//! history to a file.
//!
//! The server and the run never wait for each other. The owner of the run passes events through a bounded queue.
//! Clients read from a ring buffer. If a client falls behind the buffer, it is told to reload.

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
pub use run_state::{Kind, RunInfo, RunState};
pub use server::Server;
