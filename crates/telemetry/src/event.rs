//! The envelope of an event, and the table of everything that can be said.
//!
//! # What
//! An [`Event`] is one thing that a run or a preparation says: the format's version, when, where in the run, and what.
//! As JSON it is one flat object: the envelope's keys, `kind`, and the keys of what that kind carries.
//!
//! # Why
//! A log is read for years, by programs that are older and newer than the one that wrote it. So the keys are a format.
//!
//! # Definition
//! - The envelope is `version`, `time`, `elapsed_s`, `kind` and, where they apply, `step`, `epoch`, `rows_seen` and
//!   `tokens_seen`. It never changes its meaning. No kind has a key of that name.
//! - A new kind, or a new key of a kind, is no new version: readers skip keys that they do not know, and read kinds
//!   that they do not know as [`EventKind::Unknown`], with all that stands there. A key that is added later has a default.
//! - A key that goes or means something else is a new version. Events of a later version are read as
//!   [`EventKind::Unknown`] too, since their keys may not mean what they seem to.
//! - Numbers that are not finite are `"NaN"`, `"Infinity"` and `"-Infinity"`.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use schemas::ordinal::Step;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::change::{ChangeReport, NoteReport};
use crate::number::{Float, Maybe};
use crate::preparation::{PartDone, PrepareEnd, PrepareProgress, PrepareStart};
use crate::training::{
    AuditReport, BadRowReport, CheckpointReport, DatasetVersionReport, LossSpikeReport, ResumeReport, SkipReport,
    StartReport, StarvedReport, StepReport, StopReport, ValidReport, Warning,
};

/// The version of the events that this program writes.
pub const VERSION: u32 = 2;

/// One thing that a run or a preparation says of itself. A [`Clock`](crate::Clock) makes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// [`VERSION`] of the program that said it.
    pub version: u32,
    /// Milliseconds since the epoch of Unix, by the wall clock.
    pub time: u64,
    /// Seconds since this process began to run or to prepare, by a clock that never goes back.
    #[serde(with = "Float")]
    pub elapsed_s: f64,
    /// Where in the run.
    #[serde(flatten)]
    pub at: Position,
    /// What.
    #[serde(flatten)]
    pub what: EventKind,
}

/// Where a run stands. A preparation stands nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Position {
    /// Steps done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    /// Passes over the training data: 1.25 is a quarter into the second. One number, since it is what curves are drawn
    /// over; the exact position is `rows_seen`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe")]
    pub epoch: Option<f64>,
    /// Rows of the stream that were learned from since the run's first step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_seen: Option<u64>,
    /// Real tokens (no padding) that were learned from since the run's first step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_seen: Option<u64>,
}

/// Declares [`EventKind`]: a line is a kind, its variant and what it carries.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $kind:literal => $Variant:ident($Report:ident),)+) => {
        /// What is said. Each line of the table is a kind.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(tag = "kind")]
        pub enum EventKind {
            $($(#[doc = $doc])* #[serde(rename = $kind)] $Variant($Report),)+
            /// Something that this program does not know: of a later one.
            #[serde(untagged)]
            Unknown(Unknown),
        }

        impl EventKind {
            /// Every kind that this program knows, in the table's order.
            pub const KINDS: &'static [&'static str] = &[$($kind),+];

            /// Each kind, what it is said for, and the schema of what it carries.
            pub(crate) fn schemas(generator: &mut SchemaGenerator) -> Vec<(&'static str, &'static str, Schema)> {
                vec![$(($kind, concat!($($doc),*).trim_ascii(), <$Report>::json_schema(generator))),+]
            }

            /// Its name in JSON.
            #[must_use]
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$Variant(_) => $kind,)+
                    Self::Unknown(unknown) => &unknown.kind,
                }
            }

            /// Event name of its OpenTelemetry log record.
            #[cfg(feature = "otlp")]
            pub(crate) fn otel_event_name(&self) -> &'static str {
                match self {
                    $(Self::$Variant(_) => concat!("cloze.", $kind),)+
                    Self::Unknown(_) => "cloze.unknown",
                }
            }

            /// The known kind of that name, from its keys.
            fn read(kind: String, fields: Map<String, Value>) -> serde_json::Result<Self> {
                match kind.as_str() {
                    $($kind => serde_json::from_value(Value::Object(fields)).map(Self::$Variant),)+
                    _ => Ok(Self::Unknown(Unknown { kind, fields })),
                }
            }
        }
    };
}

kinds! {
    /// The first step of a run is done.
    "start" => Start(StartReport),
    /// Some steps are done.
    "report" => Report(StepReport),
    /// The valid split was looked at.
    "validation" => Validation(ValidReport),
    /// A checkpoint is on disk. It is said when that is certain, some steps later; `at` is where the checkpoint stands.
    "checkpoint" => Checkpoint(CheckpointReport),
    /// A run continues from a checkpoint.
    "resume" => Resume(ResumeReport),
    /// Something is not as it should be, and work continues.
    "warning" => Warning(Warning),
    /// Batches were counted, and one law of a view was kept.
    "audit" => Audit(AuditReport),
    /// Rows are of another dataset version of the data from here on.
    "dataset_version" => DatasetVersion(DatasetVersionReport),
    /// A step waited for data that are still being prepared.
    "starved" => Starved(StarvedReport),
    /// Somebody did something to the run itself.
    "change" => Change(ChangeReport),
    /// Somebody who looks at a run said something of it.
    "note" => Note(NoteReport),
    /// A row that cannot be made is left out of the steps from here on.
    "bad_row" => BadRow(BadRowReport),
    /// A run ended or was stopped: the last that its process says.
    "stop" => Stop(StopReport),
    /// Loss or gradient norm of a step is far above those before it.
    "loss_spike" => LossSpike(LossSpikeReport),
    /// A step with a loss spike is skipped.
    "skip" => Skip(SkipReport),
    /// The workers of a preparation have started.
    "prepare_start" => PrepareStart(PrepareStart),
    /// How far a preparation is.
    "prepare_progress" => PrepareProgress(PrepareProgress),
    /// One more part of the corpus is there.
    "part_done" => PartDone(PartDone),
    /// The manifest is written: the last that a preparation says.
    "prepare_end" => PrepareEnd(PrepareEnd),
}

/// A kind, or a version, that this program does not know: all that stands there next to the envelope.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unknown {
    /// Its name.
    pub kind: String,
    /// Its keys.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

/// An event as it stands in JSON. What the envelope and [`Position`] have taken is not in `fields`.
#[derive(Deserialize)]
struct Line {
    version: u32,
    time: u64,
    #[serde(with = "Float")]
    elapsed_s: f64,
    #[serde(flatten)]
    at: Position,
    kind: String,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Line { version, time, elapsed_s, at, kind, fields } = Line::deserialize(deserializer)?;
        let what = if version > VERSION {
            EventKind::Unknown(Unknown { kind, fields })
        } else {
            let place = kind.clone();
            EventKind::read(kind, fields)
                .map_err(|problem| D::Error::custom(format_args!("kind `{place}`: {problem}")))?
        };
        Ok(Self { version, time, elapsed_s, at, what })
    }
}
