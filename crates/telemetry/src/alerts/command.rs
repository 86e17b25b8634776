//! Alerts by a program of the operator's own.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{self, Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::config::AlertsConfig;
use super::rate_limiter::Alert;

/// Between two looks at whether it has ended.
const PAUSE: Duration = Duration::from_millis(20);

/// The program and its arguments.
pub(super) struct Command {
    words: Vec<String>,
    /// The variable that holds a secret which is none of its business.
    secret: String,
}

impl Command {
    pub(super) fn of(config: &AlertsConfig) -> Option<Self> {
        let (words, secret) = (config.command.clone(), config.webhook_env.clone());
        (!words.is_empty()).then_some(Self { words, secret })
    }

    /// Runs it, until then at most. Why it did not do as it should, otherwise.
    pub(super) fn tell(&self, alert: &Alert, deadline: Instant) -> Result<(), String> {
        let (program, arguments) = self.words.split_first().ok_or("it names no program")?;
        let mut command = process::Command::new(program);
        command.args(arguments);
        // Its own group: what it starts is killed with it, and a ctrl-c at the terminal is for the run.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.env("CLOZE_ALERT_TOPIC", alert.topic.name());
        command.env("CLOZE_ALERT_TEXT", &alert.text).env("CLOZE_ALERT_RUN", &alert.run);
        // What is this process' own business, secrets first, is none of the command's.
        for name in [crate::secret::SERVER_TOKEN, "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] {
            command.env_remove(name);
        }
        if !self.secret.is_empty() {
            command.env_remove(&self.secret);
        }
        let mut child = command.spawn().map_err(|error| format!("`{program}`: {error}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            let json = format!("{}\n", alert.json);
            // By another thread: it need not read what it is given, and then a pipe is full. It ends with the child.
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
                Ok(Some(status)) => return Err(format!("`{program}` ended with {status}")),
                Ok(None) if Instant::now() < deadline => sleep(PAUSE),
                Ok(None) => break,
                Err(error) => return Err(format!("`{program}`: {error}")),
            }
        }
        // The child leads its group, whose number nobody else gets before it is waited for.
        if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = child.wait();
        Err(format!("`{program}` was not done in time and is killed"))
    }
}
