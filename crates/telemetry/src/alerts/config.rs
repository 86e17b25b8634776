//! `[alerts]`: whom to tell, and of what.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use schemas::Problem;
use serde::{Deserialize, Serialize};

use crate::{Event, EventKind};

/// Who is told aside when something happens to a run or a preparation, and of what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AlertsConfig {
    /// A program and its arguments, run for each alert, with one JSON object on its stdin (`topic`, `text`, `run`, `event`)
    /// and `CLOZE_ALERT_TOPIC`, `CLOZE_ALERT_TEXT` and `CLOZE_ALERT_RUN` in its environment.
    pub(crate) command: Vec<String>,
    /// A file whose first line is a web address to which the same object is posted. It is read for each alert. The address
    /// itself is a secret: it is not written here, and nothing prints it.
    #[serde(skip_serializing_if = "is_empty")]
    pub(crate) webhook_file: PathBuf,
    /// The same, but the address is in the environment variable of this name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) webhook_env: String,
    /// Events that raise an alert.
    pub(crate) events: Vec<Topic>,
    /// Timeout of the command and of a POST request, in seconds. After it, the command is killed with its child
    /// processes. The process waits this long for the last alert before it exits.
    pub(crate) timeout_seconds: u64,
    /// Seconds between two alerts of one kind. Alerts in between are counted (`held_back`). The end of a run always
    /// raises an alert.
    pub(crate) min_interval_seconds: u64,
    /// Bytes of free disk space below which an alert is raised, in the run folder or the prepared folder. 0 disables
    /// the check.
    pub(crate) min_free_disk_bytes: u64,
}

impl Default for AlertsConfig {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            webhook_file: PathBuf::new(),
            webhook_env: String::new(),
            events: vec![Topic::Stop, Topic::LossSpike, Topic::Starved, Topic::Disk, Topic::Warning],
            timeout_seconds: 10,
            min_interval_seconds: 300,
            // Room for the next few checkpoints of BERT-base: 1.3 GB each.
            min_free_disk_bytes: 5 << 30,
        }
    }
}

/// What an alert is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Topic {
    /// A run or a preparation ended: it is done, was stopped, or failed.
    Stop,
    /// A run began, or continues.
    Start,
    /// A step has a loss spike, or is skipped for one.
    LossSpike,
    /// A step waited for data that are still being prepared.
    Starved,
    /// The disk is nearly full.
    Disk,
    /// Something is not as it should be, and work continues.
    Warning,
}

impl Topic {
    pub(super) fn of(event: &Event) -> Option<Self> {
        Some(match &event.what {
            EventKind::Stop(_) | EventKind::PrepareEnd(_) => Self::Stop,
            EventKind::Start(_) | EventKind::Resume(_) => Self::Start,
            EventKind::LossSpike(_) | EventKind::Skip(_) => Self::LossSpike,
            EventKind::Starved(_) => Self::Starved,
            EventKind::Warning(_) | EventKind::BadRow(_) => Self::Warning,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Start => "start",
            Self::LossSpike => "loss_spike",
            Self::Starved => "starved",
            Self::Disk => "disk",
            Self::Warning => "warning",
        }
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl AlertsConfig {
    /// What is wrong with it. No message repeats what may be a secret in a wrong place.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut add = |key: &str, message: &str, hint: &str| {
            problems.push(Problem::new(format!("alerts.{key}"), message).hint(hint));
        };
        if self.command.first().is_some_and(String::is_empty) {
            add("command", "its first word names no program", "a program and its arguments, each its own text");
        }
        let is_named = !self.webhook_file.as_os_str().is_empty();
        if is_named && !self.webhook_env.is_empty() {
            add("webhook_env", "there is a `webhook_file` too", "name one of the two");
        }
        let hint = "the address is a secret: write it into a file or an environment variable, and name that here";
        for (key, text) in
            [("webhook_file", self.webhook_file.to_string_lossy()), ("webhook_env", (&self.webhook_env).into())]
        {
            if text.contains("://") {
                add(key, "this seems to be the address itself", hint);
            }
        }
        if self.timeout_seconds == 0 {
            add("timeout_seconds", "in no time nobody answers", "10 is usual");
        }
        problems
    }

    pub(super) fn tells_anybody(&self) -> bool {
        let ways = [!self.command.is_empty(), !self.webhook_file.as_os_str().is_empty(), !self.webhook_env.is_empty()];
        ways.contains(&true) && !self.events.is_empty()
    }
}

fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}
