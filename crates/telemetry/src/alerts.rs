//! Who is told aside of what happens: `[alerts]` names a command, or a web address that is a secret.
//!
//! Next to everything: what is to be told goes into a bounded queue, and its own thread delivers it, each within a
//! time-out. That nobody answers costs the work nothing and ends nothing; it is said once for each topic.

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
pub use self::config::AlertsConfig;
use self::config::Topic;
use self::rate_limiter::RateLimiter;
use self::webhook::Webhook;
use crate::{Event, Observer, event_text};

/// Alerts of one run or preparation. At its end it waits for the last ones, no longer than one may take.
pub struct Alerts {
    desk: Option<RateLimiter>,
    /// When everything has to be delivered, once that is known.
    closing: Arc<OnceLock<Instant>>,
    timeout: Duration,
    /// Dropped to end the look at the disk.
    looks: Option<SyncSender<()>>,
    /// Closed when all is delivered.
    done: Receiver<()>,
}

impl Alerts {
    /// Tells whom the configuration names of what happens to `run`, which lies in `folder`. None where it names nobody.
    pub fn start(config: &AlertsConfig, run: &str, folder: &Path) -> runtime::Result<Option<Self>> {
        if !config.tells_anybody() {
            return Ok(None);
        }
        let timeout = Duration::from_secs(config.timeout_seconds);
        let closing = Arc::<OnceLock<Instant>>::default();
        let (desk, waiting) = RateLimiter::of(config, run);
        let (alive, done) = sync_channel(0);
        let command = Command::of(config);
        let webhook = Webhook::of(config);
        if let Some(Err(why)) = webhook.as_ref().map(Webhook::address) {
            tracing::warn!("no alert goes to the webhook: {why}");
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
                let ways = [
                    ("command", command.as_ref().map(|command| command.tell(&alert, deadline()))),
                    ("webhook", webhook.as_ref().map(|webhook| webhook.tell(&alert, deadline()))),
                ];
                for (way, told) in ways {
                    if let Some(Err(why)) = told {
                        say_once(&mut failed, way, alert.topic, &why);
                    }
                }
            }
        })?;
        let looks = (config.events.contains(&Topic::Disk) && config.min_free_disk_bytes > 0)
            .then(|| disk::look(folder, config.min_free_disk_bytes, desk.clone()))
            .transpose()?;
        Ok(Some(Self { desk: Some(desk), closing, timeout, looks, done }))
    }

    /// Who hears events for them.
    pub fn reader(&self) -> Option<Box<dyn Observer>> {
        Some(Box::new(Reader(self.desk.clone()?)))
    }

    /// The work failed. Told, unless an event has said that it ends.
    pub fn failed(&self, error: &dyn std::fmt::Display) {
        if let Some(desk) = self.desk.as_ref().filter(|desk| !desk.has_told_the_end()) {
            desk.tell(Topic::Stop, &format!("failed: {error:#}"), None);
        }
    }
}

impl Drop for Alerts {
    fn drop(&mut self) {
        let _ = self.closing.set(Instant::now() + self.timeout);
        (self.desk, self.looks) = (None, None);
        // Whoever is given up at that moment still has to be buried.
        let _ = self.done.recv_timeout(self.timeout + Duration::from_millis(500));
    }
}

fn say_once(failed: &mut Vec<(&'static str, Topic)>, way: &'static str, topic: Topic, why: &str) {
    if !failed.contains(&(way, topic)) {
        failed.push((way, topic));
        tracing::warn!(%topic, "an alert was not delivered by the {way}: {why}; this is said once");
    }
}

struct Reader(RateLimiter);

impl Observer for Reader {
    fn observe(&mut self, event: &Event) {
        let Some(topic) = Topic::of(event) else { return };
        let text = event_text::line(event).or_else(|| event_text::summary(event));
        let text = text.unwrap_or_else(|| event.what.kind().to_owned());
        self.0.tell(topic, &text, Some(event));
    }
}
