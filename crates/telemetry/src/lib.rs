//! Events of runs and preparations, and every exporter that tells somebody of them.
//!
//! The trainer and the pipeline emit an [`Event`]: a time ([`Clock`] stamps it), a position ([`Position`]) and a kind ([`EventKind`]).
//! An [`Observer`] receives it. So the trainer and the pipeline know no terminal, no log and no page.
//!
//! Events: [`event`] is the envelope and the table of all kinds; [`training`], [`change`] and [`preparation`] are their
//! contents; [`schema`] describes them to programs; [`event_text`] to people. [`dispatcher`] runs observers on a thread of
//! their own, so that training never waits for one.
//!
//! [`report_metrics`] is the table of the metrics of a report: their names for each exporter, their units, their charts.
//!
//! Exporters: [`jsonl`] (the log of a run), [`terminal`], [`tensorboard`], [`otlp`], [`alerts`], [`systemd`], and [`log`] for
//! what `tracing` collects.

pub mod alerts;
pub mod change;
pub mod clock;
pub mod dispatcher;
pub mod event;
pub mod event_text;
pub mod host_memory;
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
pub use observer::{Many, Observer};
