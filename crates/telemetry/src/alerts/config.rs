//! Configuration of alerts: `[alerts]`.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use schemas::Problem;
use serde::{Deserialize, Serialize};

use crate::{Event, EventKind};

/// Destinations and events of alerts of a run or a preparation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AlertsConfig {
    /// Program and its arguments, run for each alert. Its stdin is one JSON object (`topic`, `text`, `run`, `event`,
    /// `held_back`). Its environment has `CLOZE_ALERT_TOPIC`, `CLOZE_ALERT_TEXT` and `CLOZE_ALERT_RUN`.
    pub(crate) command: Vec<String>,
    /// File with the webhook address in its first line. The same object is posted to it. The file is read for each
    /// alert. The address is a secret: it is not part of the configuration and never printed.
    #[serde(skip_serializing_if = "is_empty")]
    pub(crate) webhook_file: PathBuf,
    /// Environment variable with the webhook address, instead of `webhook_file`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) webhook_env: String,
    /// Events that raise an alert.
    pub(crate) events: Vec<AlertTopic>,
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
            events: vec![
                AlertTopic::Stop,
                AlertTopic::LossSpike,
                AlertTopic::Starved,
                AlertTopic::Disk,
                AlertTopic::Warning,
            ],
            timeout_seconds: 10,
            min_interval_seconds: 300,
            // Space for the next few checkpoints of BERT-base, 1.3 GB each.
            min_free_disk_bytes: 5 << 30,
        }
    }
}

/// Topic of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AlertTopic {
    /// A run or a preparation completed, was stopped, or failed.
    Stop,
    /// A run started or resumed.
    Start,
    /// A step has a loss spike, or is skipped because of one.
    LossSpike,
    /// A step waited for data that are still being prepared.
    Starved,
    /// The disk is nearly full.
    Disk,
    /// There is a problem, and the work continues.
    Warning,
}

impl AlertTopic {
    pub(super) fn for_event(event: &Event) -> Option<Self> {
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

impl fmt::Display for AlertTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl AlertsConfig {
    /// Returns the problems of the configuration. No message repeats a value, because it may be a misplaced secret.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut add = |key: &str, message: &str, hint: &str| {
            problems.push(Problem::new(format!("alerts.{key}"), message).hint(hint));
        };
        if self.command.first().is_some_and(String::is_empty) {
            add("command", "the program name is empty", "write the program and its arguments as separate strings");
        }
        let is_named = !self.webhook_file.as_os_str().is_empty();
        if is_named && !self.webhook_env.is_empty() {
            add("webhook_env", "`webhook_file` is also set", "set only one of them");
        }
        let hint = "the address is a secret: write it to a file or an environment variable, and put its name here";
        for (key, text) in
            [("webhook_file", self.webhook_file.to_string_lossy()), ("webhook_env", (&self.webhook_env).into())]
        {
            if text.contains("://") {
                add(key, "the value looks like the address itself", hint);
            }
        }
        if self.timeout_seconds == 0 {
            add("timeout_seconds", "the timeout is 0", "use at least 1; the default is 10");
        }
        problems
    }

    pub(super) fn is_enabled(&self) -> bool {
        let destinations =
            [!self.command.is_empty(), !self.webhook_file.as_os_str().is_empty(), !self.webhook_env.is_empty()];
        destinations.contains(&true) && !self.events.is_empty()
    }
}

fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}
