//! Event envelope and table of all event kinds.
//!
//! # What
//! An [`Event`] of a run or a preparation has a format version, a time, a position in the run, and a kind. As JSON it
//! is one flat object: the keys of the envelope, `kind`, and the keys of the payload of that kind.
//!
//! # Why
//! Logs are read for years, by older and newer programs than the one that wrote them. So the keys are a stable format.
//!
//! # Definition
//! - The envelope is `version`, `time`, `elapsed_s`, `kind` and, if they apply, `step`, `epoch`, `rows_seen` and
//!   `tokens_seen`. Their meaning never changes. No payload has a key with one of these names.
//! - A new kind or a new key of a kind does not raise the version. Readers ignore unknown keys. They read an unknown
//!   kind as [`EventKind::Unknown`] with all its keys. A key that is added later has a default.
//! - Removing a key or changing its meaning raises the version. Events of a later version are also read as
//!   [`EventKind::Unknown`], because their keys may have another meaning.
//! - Numbers that are not finite are written as `"NaN"`, `"Infinity"` and `"-Infinity"`.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use schemas::ordinal::Step;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::change::{ChangeReport, NoteReport};
use crate::number::{Float, OptionalNumber};
use crate::preparation::{PartDone, PrepareEnd, PrepareProgress, PrepareStart};
use crate::training::{
    AuditReport, BadRowReport, CheckpointReport, DatasetVersionReport, EarlyStopReport, EnvironmentReport,
    LossSpikeReport, ResumeReport, SkipReport, StartReport, StarvedReport, StepReport, StopReport, ValidReport,
    Warning,
};

/// Version of the event format that this program writes.
pub const VERSION: u32 = 2;

/// Event of a run or a preparation. A [`Clock`](crate::Clock) creates it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// [`VERSION`] of the program that emitted the event.
    pub version: u32,
    /// Wall-clock time in milliseconds since the Unix epoch.
    pub time: u64,
    /// Seconds since this process started the run or the preparation, by a monotonic clock.
    #[serde(with = "Float")]
    pub elapsed_s: f64,
    /// Position in the run.
    #[serde(flatten)]
    pub at: Position,
    /// Kind and payload.
    #[serde(flatten)]
    pub what: EventKind,
}

/// Position in a run. Events of a preparation have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Position {
    /// Steps done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    /// Epochs of the training data: 1.25 is a quarter into the second epoch. Curves are drawn over this number. The
    /// exact position is `rows_seen`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "OptionalNumber")]
    pub epoch: Option<f64>,
    /// Rows of the stream that were trained on since the first step of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_seen: Option<u64>,
    /// Real tokens (no padding) that were trained on since the first step of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_seen: Option<u64>,
}

/// Declares [`EventKind`]: each line has a kind, its variant and its payload.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $kind:literal => $Variant:ident($Report:ident),)+) => {
        /// Kind of an event, with its payload.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(tag = "kind")]
        pub enum EventKind {
            $($(#[doc = $doc])* #[serde(rename = $kind)] $Variant($Report),)+
            /// Kind or version that this program does not know, from a later program.
            #[serde(untagged)]
            Unknown(Unknown),
        }

        impl EventKind {
            /// Every kind that this program knows, in the order of the table.
            pub const KINDS: &'static [&'static str] = &[$($kind),+];

            /// Returns the name, the description and the payload schema of each kind.
            pub(crate) fn schemas(generator: &mut SchemaGenerator) -> Vec<(&'static str, &'static str, Schema)> {
                vec![$(($kind, concat!($($doc),*).trim_ascii(), <$Report>::json_schema(generator))),+]
            }

            /// Returns the name of the kind in JSON.
            #[must_use]
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$Variant(_) => $kind,)+
                    Self::Unknown(unknown) => &unknown.kind,
                }
            }

            /// Returns the event name of the OpenTelemetry log record.
            #[cfg(feature = "otlp")]
            pub(crate) fn otel_event_name(&self) -> &'static str {
                match self {
                    $(Self::$Variant(_) => concat!("cloze.", $kind),)+
                    Self::Unknown(_) => "cloze.unknown",
                }
            }

            /// Reads the kind with this name from its keys.
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
    /// The model was evaluated on the valid split.
    "validation" => Validation(ValidReport),
    /// The last validations were no better than an earlier one, so the run ends before its last step.
    "early_stop" => EarlyStop(EarlyStopReport),
    /// A checkpoint is on disk. The event follows some steps later, when that is certain. `step` is the step of the
    /// checkpoint.
    "checkpoint" => Checkpoint(CheckpointReport),
    /// A run resumes from a checkpoint.
    "resume" => Resume(ResumeReport),
    /// A process begins to train, at the start of a run or after `resume`.
    "environment" => Environment(EnvironmentReport),
    /// There is a problem, and the work continues.
    "warning" => Warning(Warning),
    /// Batches were audited, and a view matches one of its specified probabilities.
    "audit" => Audit(AuditReport),
    /// The dataset version of the rows changes here.
    "dataset_version" => DatasetVersion(DatasetVersionReport),
    /// A step waited for data that are still being prepared.
    "starved" => Starved(StarvedReport),
    /// The user changed the run itself.
    "change" => Change(ChangeReport),
    /// A viewer of the run wrote a note.
    "note" => Note(NoteReport),
    /// A row cannot be built and is excluded from here on.
    "bad_row" => BadRow(BadRowReport),
    /// A run ended or was stopped: the last event of its process.
    "stop" => Stop(StopReport),
    /// The loss or the gradient norm of a step is far above that of the preceding steps.
    "loss_spike" => LossSpike(LossSpikeReport),
    /// A step with a loss spike is skipped.
    "skip" => Skip(SkipReport),
    /// The workers of a preparation have started.
    "prepare_start" => PrepareStart(PrepareStart),
    /// Progress of a preparation.
    "prepare_progress" => PrepareProgress(PrepareProgress),
    /// One more part of the corpus is complete.
    "part_done" => PartDone(PartDone),
    /// The manifest is written: the last event of a preparation.
    "prepare_end" => PrepareEnd(PrepareEnd),
}

/// Kind or version that this program does not know, with all its keys except those of the envelope.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unknown {
    /// Name of the kind.
    pub kind: String,
    /// Keys of the payload.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

/// JSON form of an event. The keys of the envelope and of [`Position`] are not in `fields`.
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
