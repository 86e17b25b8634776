//! Events for TensorBoard: the bytes of a file that it reads.
//!
//! # What
//! A file is a sequence of frames (a TFRecord file), each of them a message of TensorFlow's `Event`. What has numbers is
//! written as scalars over the optimizer's step, by the tags below.
//!
//! # Why
//! Who has a TensorBoard has it open all day. The log stays the whole truth; these files can be deleted at any time.
//!
//! # Definition
//! - A frame is the length as 8 bytes, little-endian, its checksum, the message, its checksum; a checksum is CRC-32C,
//!   turned right by 15 bits, plus `0xa282ead8`.
//! - A file begins with its version, `brain.Event:2`. Where steps come that were there before, since a run continues from an
//!   older checkpoint, a session `START` with the first of them goes before: readers then drop what they had from there on.
//! - Tags: `train/…` is what was learned, with `train/loss`, `train/lr` and `train/grad_norm` next to each term and metric;
//!   `eval/…` the same of validations, `eval/fixed_mask…` the yardstick; `throughput/…`, `data/…`, `time/…` (seconds) and
//!   `memory/…` (bytes).
//! - Values are 32-bit; what is not a number is written as NaN.

mod writer;

use std::collections::BTreeMap;

use prost::Message;
use schemas::ordinal::Step;

pub use self::writer::TensorBoard;
use crate::event::{Event, EventKind};
use crate::report_metrics::REPORT_METRICS;
use crate::training::{StepReport, ValidReport};

/// What a file begins with: its version.
const VERSION: &str = "brain.Event:2";

/// TensorFlow's `Event`, as far as it is written here.
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
    // Also where it is 0: a scalar without a value is none.
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

/// Writes the events of one process, which are one file.
#[derive(Debug, Default)]
struct Encoder {
    has_begun: bool,
    /// The newest step that a reader of the file knows of.
    newest: Option<Step>,
}

impl Encoder {
    /// What an event adds to the file; nothing where it has no number to draw.
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
        // A checkpoint is told of when it is certain, some steps later.
        if !matches!(event.what, EventKind::Checkpoint(_)) {
            if self.newest.is_none_or(|newest| step < newest) {
                self.start(event, step, &mut bytes);
            }
            self.newest = Some(step);
        }
        let values = scalars.into_iter().map(|(tag, value)| Scalar { tag, value: Some(narrow(value)) }).collect();
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

/// Adds a message with its length and both checksums.
fn frame(message: &[u8], bytes: &mut Vec<u8>) {
    let length = (message.len() as u64).to_le_bytes();
    bytes.extend(length);
    bytes.extend(checksum(&length).to_le_bytes());
    bytes.extend(message);
    bytes.extend(checksum(message).to_le_bytes());
}

/// Masked, as files have it that are themselves checked: the checksum of bytes with a checksum in them would be constant.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// As a curve is drawn: seven digits are more than a screen has.
#[expect(clippy::cast_possible_truncation, reason = "the format's scalars have 32 bits")]
fn narrow(value: f64) -> f32 {
    value as f32
}

/// The numbers of an event by tag; of several by one name the last is drawn.
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
        EventKind::Skip(report) => add("train/skip_sigmas", report.leap.sigmas),
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
        add("eval/fixed_mask_mlm", mlm.loss);
        add("eval/fixed_mask_accuracy", mlm.accuracy);
    }
}

fn named(group: &str, values: &BTreeMap<String, f64>, add: &mut impl FnMut(&str, f64)) {
    for (name, &value) in values {
        add(&format!("{group}/{name}"), value);
    }
}

#[cfg(test)]
mod tests;
