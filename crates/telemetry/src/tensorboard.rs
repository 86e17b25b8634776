//! TensorBoard exporter: encodes events as TensorBoard files.
//!
//! # What
//! A file is a sequence of frames (TFRecord format). Each frame has one TensorFlow `Event` message. Events with numbers are
//! written as scalars over the optimizer step, with the tags below.
//!
//! # Why
//! Many users watch their runs in TensorBoard. The run log is complete without these files, so they can be deleted at any
//! time.
//!
//! # Definition
//! - A frame has the length (8 bytes, little-endian), its checksum, the message, and its checksum. A checksum is CRC-32C,
//!   rotated right by 15 bits, plus `0xa282ead8`.
//! - A file begins with its version, `brain.Event:2`. If a run resumes from an older checkpoint, steps repeat. Then a
//!   session `START` with the first repeated step precedes them. Readers drop their values from that step on.
//! - Tags: `train/…` for training, with `train/loss`, `train/lr` and `train/grad_norm` in addition to each term and metric;
//!   `eval/…` for validation, `valid/mlm` and `valid/mlm.accuracy` for the fixed mask; `throughput/…`, `data/…`, `time/…`
//!   (seconds) and `memory/…` (bytes).
//! - Values have 32 bits. NaN is written as NaN.

mod writer;

use std::collections::BTreeMap;

use prost::Message;
use schemas::ordinal::Step;

pub use self::writer::TensorBoard;
use crate::event::{Event, EventKind};
use crate::report_metrics::REPORT_METRICS;
use crate::training::{StepReport, ValidReport};

/// Version string at the start of a file.
const VERSION: &str = "brain.Event:2";

/// Subset of TensorFlow's `Event` message that is written here.
#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(oneof = "Content", tags = "3, 5, 7")]
    content: Option<Content>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Content {
    #[prost(string, tag = "3")]
    FileVersion(String),
    #[prost(message, tag = "5")]
    Summary(Summary),
    #[prost(message, tag = "7")]
    Session(Session),
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    values: Vec<Scalar>,
}

#[derive(Clone, PartialEq, Message)]
struct Scalar {
    #[prost(string, tag = "1")]
    tag: String,
    // Optional, so that 0 is written too: a scalar without a value is invalid.
    #[prost(float, optional, tag = "2")]
    value: Option<f32>,
}

#[derive(Clone, PartialEq, Message)]
struct Session {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// `SessionLog.START`.
const START: i32 = 1;

/// Encoder of the events of one process, which are one file.
#[derive(Debug, Default)]
struct Encoder {
    has_begun: bool,
    /// Newest step in the file.
    newest: Option<Step>,
}

impl Encoder {
    /// Returns the bytes that an event adds to the file. Empty if the event has no scalars.
    fn encode(&mut self, event: &Event) -> Vec<u8> {
        let mut bytes = Vec::new();
        let Some(step) = event.at.step else { return bytes };
        if let EventKind::Resume(_) = &event.what {
            self.start(event, Step(step.0 + 1), &mut bytes);
            self.newest = Some(step);
            return bytes;
        }
        let scalars = scalars(event);
        if scalars.is_empty() {
            return bytes;
        }
        // A checkpoint event follows some steps later, so its step may be older than the newest.
        if !matches!(event.what, EventKind::Checkpoint(_)) {
            if self.newest.is_none_or(|newest| step < newest) {
                self.start(event, step, &mut bytes);
            }
            self.newest = Some(step);
        }
        let values = scalars.into_iter().map(|(tag, value)| Scalar { tag, value: Some(to_f32(value)) }).collect();
        self.push(event, step, Content::Summary(Summary { values }), &mut bytes);
        bytes
    }

    fn start(&mut self, event: &Event, step: Step, bytes: &mut Vec<u8>) {
        self.push(event, step, Content::Session(Session { status: START }), bytes);
    }

    fn push(&mut self, event: &Event, step: Step, content: Content, bytes: &mut Vec<u8>) {
        let wall_time = event.time as f64 / 1e3;
        if !std::mem::replace(&mut self.has_begun, true) {
            let content = Some(Content::FileVersion(VERSION.to_owned()));
            frame(&Record { wall_time, step: 0, content }.encode_to_vec(), bytes);
        }
        let step = i64::try_from(step.0).unwrap_or(i64::MAX);
        frame(&Record { wall_time, step, content: Some(content) }.encode_to_vec(), bytes);
    }
}

/// Appends a message with its length and both checksums.
fn frame(message: &[u8], bytes: &mut Vec<u8>) {
    let length = (message.len() as u64).to_le_bytes();
    bytes.extend(length);
    bytes.extend(checksum(&length).to_le_bytes());
    bytes.extend(message);
    bytes.extend(checksum(message).to_le_bytes());
}

/// Returns the masked CRC-32C of TFRecord. It is masked because the CRC of data that contain their own CRC is constant.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Converts a value to 32 bits. Its seven digits suffice for a curve on a screen.
#[expect(clippy::cast_possible_truncation, reason = "the format's scalars have 32 bits")]
fn to_f32(value: f64) -> f32 {
    value as f32
}

/// Returns the scalars of an event by tag. If several have the same tag, the last one is used.
fn scalars(event: &Event) -> BTreeMap<String, f64> {
    let mut scalars = BTreeMap::new();
    let mut add = |tag: &str, value: f64| {
        scalars.insert(tag.to_owned(), value);
    };
    match &event.what {
        EventKind::Start(report) => named("start", &report.terms, &mut add),
        EventKind::Report(report) => {
            training(report, &mut add);
            let at = &event.at;
            let seen = [("rows", at.rows_seen), ("tokens", at.tokens_seen)];
            for (name, count) in seen.into_iter().filter_map(|(name, count)| Some((name, count?))) {
                add(&format!("data/{name}"), count as f64);
            }
            if let Some(epoch) = at.epoch {
                add("data/epoch", epoch);
            }
            add("time/elapsed_s", event.elapsed_s);
        }
        EventKind::Validation(report) => validation(report, &mut add),
        EventKind::Checkpoint(report) => {
            add("time/checkpoint_s", report.seconds);
            add("time/checkpoint_stall_s", report.stall_s);
        }
        EventKind::Starved(report) => add("data/starved_s", report.seconds),
        EventKind::LossSpike(report) => add("train/spike_sigmas", report.sigmas),
        EventKind::Skip(report) => add("train/skip_sigmas", report.spike.sigmas),
        _ => {}
    }
    scalars
}

fn training(report: &StepReport, add: &mut impl FnMut(&str, f64)) {
    named("train", &report.figures.terms, add);
    named("train", &report.figures.metrics, add);
    for metric in REPORT_METRICS {
        if let Some(value) = (metric.value)(report) {
            add(metric.tensorboard, value);
        }
    }
    if let Some(phases) = &report.phases {
        add("time/report_s", phases.wall);
        add("time/data_s", phases.data);
        add("time/step_s", phases.step);
        add("time/read_s", phases.read);
        add("time/validation_s", phases.validation);
        add("time/stall_s", phases.checkpoint);
    }
    named("data/epoch", &report.source_epochs, add);
}

fn validation(report: &ValidReport, add: &mut impl FnMut(&str, f64)) {
    named("eval", &report.terms, add);
    named("eval", &report.metrics, add);
    add("eval/loss", report.loss);
    if let Some(mlm) = &report.mlm {
        add("valid/mlm", mlm.loss);
        add("valid/mlm.accuracy", mlm.accuracy);
    }
}

fn named(group: &str, values: &BTreeMap<String, f64>, add: &mut impl FnMut(&str, f64)) {
    for (name, &value) in values {
        add(&format!("{group}/{name}"), value);
    }
}

#[cfg(test)]
mod tests;
