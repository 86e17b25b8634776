//! Events of runs and preparations, and their exporters.
//!
//! The trainer and the pipeline emit an [`Event`]: a time (of a [`Clock`]), a position ([`Position`]) and a kind
//! ([`EventKind`]). An [`Observer`] receives it. So the trainer and the pipeline do not depend on the terminal, the log
//! or the page.
//!
//! Events: [`event`] has the envelope and the table of all kinds. [`training`], [`change`] and [`preparation`] have
//! their payloads. [`schema`] generates the JSON schema, [`event_text`] the text for users. [`dispatcher`] runs
//! observers on a background thread, so that training never waits for them.
//!
//! [`report_metrics`] is the table of the metrics of a report: their names for each exporter, units and charts.
//!
//! Exporters: [`jsonl`] (the log of a run), [`terminal`], [`tensorboard`], [`prometheus`], [`otlp`], [`alerts`],
//! [`systemd`], and [`log`] for `tracing` events.

pub mod alerts;
pub mod change;
pub mod clock;
pub mod dispatcher;
pub mod event;
pub mod event_text;
pub mod host;
mod http_client;
pub mod jsonl;
pub mod log;
mod number;
pub mod observer;
pub mod otlp;
pub mod preparation;
pub mod prometheus;
pub mod quantities;
pub mod report_metrics;
pub mod run_metrics;
pub mod schema;
pub mod secret;
pub mod systemd;
pub mod tensorboard;
pub mod terminal;
#[cfg(test)]
mod tests;
pub mod training;

pub use clock::Clock;
pub use event::{Event, EventKind, Position, Unknown, VERSION};
pub use observer::{EarlyProgress, Fanout, Observer};
