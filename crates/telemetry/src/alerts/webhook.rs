//! Alerts by HTTPS. The address is a secret: whoever knows it may post there. It is read when it is needed, kept nowhere,
//! and no error repeats it.

use std::path::PathBuf;
use std::time::Instant;

use ureq::Agent;

use super::config::AlertsConfig;
use super::rate_limiter::Alert;
use crate::http_client;

/// Where to post.
pub(super) struct Webhook {
    place: Place,
    agent: Agent,
}

/// Where the address is.
enum Place {
    File(PathBuf),
    Environment(String),
}

impl Webhook {
    pub(super) fn of(config: &AlertsConfig) -> Option<Self> {
        let place = if !config.webhook_file.as_os_str().is_empty() {
            Place::File(config.webhook_file.clone())
        } else if !config.webhook_env.is_empty() {
            Place::Environment(config.webhook_env.clone())
        } else {
            return None;
        };
        Some(Self { place, agent: http_client::agent() })
    }

    /// The address as it is now, or why there is none.
    pub(super) fn address(&self) -> Result<String, String> {
        let (text, place) = match &self.place {
            Place::File(path) => {
                (crate::secret::read(path).map_err(|error| error.to_string()), path.display().to_string())
            }
            Place::Environment(name) => {
                (std::env::var(name).map_err(|error| error.to_string()), format!("environment variable `{name}`"))
            }
        };
        let text = text.map_err(|error| format!("{place}: {error}"))?;
        let address = text.lines().next().unwrap_or_default().trim();
        if !address.starts_with("https://") && !address.starts_with("http://") {
            return Err(format!("{place}: it does not begin with an address, `https://…`"));
        }
        Ok(address.to_owned())
    }

    /// Posts it, and waits for the answer until then. Why it did not arrive, otherwise.
    pub(super) fn tell(&self, alert: &Alert, deadline: Instant) -> Result<(), String> {
        let address = self.address()?;
        let left = deadline.saturating_duration_since(Instant::now());
        let post = self.agent.post(address).content_type("application/json");
        let post = post.config().timeout_global(Some(left)).build();
        let answer = post.send(alert.json.as_bytes()).map_err(|error| http_client::why(&error))?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(format!("it answered {}", status.as_u16())) }
    }
}
