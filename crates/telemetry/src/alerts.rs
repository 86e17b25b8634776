//! Alerts of a run or a preparation. `[alerts]` names a command or a webhook, whose address is a secret.
//!
//! Alerts go into a bounded queue. A background thread delivers each of them within a timeout. A failed delivery never
//! blocks or ends the work. It is logged once for each topic and destination.

mod command;
mod config;
mod disk;
mod rate_limiter;
#[cfg(test)]
mod tests;
mod webhook;

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use self::command::Command;
use self::config::AlertTopic;
pub use self::config::AlertsConfig;
use self::rate_limiter::RateLimiter;
use self::webhook::Webhook;
use crate::{Event, Observer, event_text};

/// Alerts of one run or preparation. On drop, it waits for the last alerts for at most one timeout and 0.5 s.
pub struct Alerts {
    limiter: Option<RateLimiter>,
    /// Deadline of all deliveries. Set on drop.
    closing: Arc<OnceLock<Instant>>,
    timeout: Duration,
    /// Dropped to stop the disk check.
    disk_check: Option<SyncSender<()>>,
    /// Closed when all alerts are delivered.
    done: Receiver<()>,
}

impl Alerts {
    /// Starts the alerts of `run`, whose folder is `folder`. Returns `None` if there is no destination or no event in the
    /// configuration.
    pub fn start(config: &AlertsConfig, run: &str, folder: &Path) -> runtime::Result<Option<Self>> {
        if !config.is_enabled() {
            return Ok(None);
        }
        let timeout = Duration::from_secs(config.timeout_seconds);
        let closing = Arc::<OnceLock<Instant>>::default();
        let (limiter, waiting) = RateLimiter::new(config, run);
        let (alive, done) = sync_channel(0);
        let command = Command::from_config(config);
        let webhook = Webhook::from_config(config);
        if let Some(Err(why)) = webhook.as_ref().map(Webhook::address) {
            tracing::warn!("alerts: the webhook has no valid address: {why}");
        }
        let ends = Arc::clone(&closing);
        runtime::spawn("alerts", move || {
            let _alive = alive;
            let mut failed = Vec::new();
            for alert in waiting {
                let deadline = || {
                    let own = Instant::now() + timeout;
                    ends.get().map_or(own, |end| own.min(*end))
                };
                let results = [
                    ("command", command.as_ref().map(|command| command.send(&alert, deadline()))),
                    ("webhook", webhook.as_ref().map(|webhook| webhook.send(&alert, deadline()))),
                ];
                for (destination, result) in results {
                    if let Some(Err(why)) = result {
                        warn_once(&mut failed, destination, alert.topic, &why);
                    }
                }
            }
        })?;
        let disk_check = (config.events.contains(&AlertTopic::Disk) && config.min_free_disk_bytes > 0)
            .then(|| disk::spawn(folder, config.min_free_disk_bytes, limiter.clone()))
            .transpose()?;
        Ok(Some(Self { limiter: Some(limiter), closing, timeout, disk_check, done }))
    }

    /// Returns the observer that raises alerts from events.
    pub fn reader(&self) -> Option<Box<dyn Observer>> {
        Some(Box::new(Reader(self.limiter.clone()?)))
    }

    /// Raises an alert of a failure, unless an event has already raised one for the end.
    pub fn failed(&self, error: &dyn std::fmt::Display) {
        if let Some(limiter) = self.limiter.as_ref().filter(|limiter| !limiter.has_sent_stop()) {
            limiter.notify(AlertTopic::Stop, &format!("failed: {error:#}"), None);
        }
    }
}

impl Drop for Alerts {
    fn drop(&mut self) {
        let _ = self.closing.set(Instant::now() + self.timeout);
        self.limiter = None;
        self.disk_check = None;
        // A command that exceeds the deadline must still be killed and reaped: 0.5 s more.
        let _ = self.done.recv_timeout(self.timeout + Duration::from_millis(500));
    }
}

fn warn_once(failed: &mut Vec<(&'static str, AlertTopic)>, destination: &'static str, topic: AlertTopic, why: &str) {
    if !failed.contains(&(destination, topic)) {
        failed.push((destination, topic));
        tracing::warn!(%topic, "alerts: delivery by the {destination} failed: {why}; later failures are not logged");
    }
}

struct Reader(RateLimiter);

impl Observer for Reader {
    fn observe(&mut self, event: &Event) {
        let Some(topic) = AlertTopic::for_event(event) else { return };
        let text = event_text::line(event).or_else(|| event_text::summary(event));
        let text = text.unwrap_or_else(|| event.what.kind().to_owned());
        self.0.notify(topic, &text, Some(event));
    }
}
