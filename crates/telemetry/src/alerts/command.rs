//! Delivery of alerts by a command of the user.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{self, Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::config::AlertsConfig;
use super::rate_limiter::Alert;

/// Interval of checks whether the command has exited.
const PAUSE: Duration = Duration::from_millis(20);

/// Program and its arguments.
pub(super) struct Command {
    words: Vec<String>,
    /// Environment variable with the webhook address, which the command must not see.
    secret: String,
}

impl Command {
    pub(super) fn from_config(config: &AlertsConfig) -> Option<Self> {
        let words = config.command.clone();
        let secret = config.webhook_env.clone();
        (!words.is_empty()).then_some(Self { words, secret })
    }

    /// Runs the command until `deadline` at most.
    ///
    /// # Errors
    /// If the command cannot be started, fails, or exceeds the deadline.
    pub(super) fn send(&self, alert: &Alert, deadline: Instant) -> Result<(), String> {
        let (program, arguments) = self.words.split_first().ok_or("the command is empty")?;
        let mut command = process::Command::new(program);
        command.args(arguments);
        // Own process group: its children are killed with it, and a Ctrl-C at the terminal reaches only the run.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.env("CLOZE_ALERT_TOPIC", alert.topic.name());
        command.env("CLOZE_ALERT_TEXT", &alert.text).env("CLOZE_ALERT_RUN", &alert.run);
        // The command must not see the secrets of this process or speak to its service manager.
        for name in [crate::secret::SERVER_TOKEN, "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] {
            command.env_remove(name);
        }
        if !self.secret.is_empty() {
            command.env_remove(&self.secret);
        }
        let mut child = command.spawn().map_err(|error| format!("`{program}`: {error}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            let json = format!("{}\n", alert.json);
            // A separate thread writes: if the command does not read, the pipe fills up. It ends with the child.
            let write = move || {
                let _ = stdin.write_all(json.as_bytes());
            };
            runtime::spawn("alert-stdin", write).map_err(|error| error.to_string())?;
        }
        self.wait(child, deadline)
    }

    fn wait(&self, mut child: Child, deadline: Instant) -> Result<(), String> {
        let program = &self.words[0];
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("`{program}` failed with {status}")),
                Ok(None) if Instant::now() < deadline => sleep(PAUSE),
                Ok(None) => break,
                Err(error) => return Err(format!("`{program}`: {error}")),
            }
        }
        // The child leads its group. The group id is not reused before the child is reaped.
        if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = child.wait();
        Err(format!("`{program}` exceeded `alerts.timeout_seconds` and was killed"))
    }
}
