//! Delivery of alerts by HTTPS. The address is a secret, because knowing it suffices to post. It is read for each alert
//! and never stored, and no error repeats it.

use std::path::PathBuf;
use std::time::Instant;

use ureq::Agent;

use super::config::AlertsConfig;
use super::rate_limiter::Alert;
use crate::http_client;

/// Webhook.
pub(super) struct Webhook {
    place: WebhookAddress,
    agent: Agent,
}

/// Location of the address.
enum WebhookAddress {
    File(PathBuf),
    Environment(String),
}

impl Webhook {
    pub(super) fn from_config(config: &AlertsConfig) -> Option<Self> {
        let place = if !config.webhook_file.as_os_str().is_empty() {
            WebhookAddress::File(config.webhook_file.clone())
        } else if !config.webhook_env.is_empty() {
            WebhookAddress::Environment(config.webhook_env.clone())
        } else {
            return None;
        };
        Some(Self { place, agent: http_client::agent() })
    }

    /// Reads the address.
    ///
    /// # Errors
    /// If the file or the variable cannot be read, or does not begin with `http://` or `https://`.
    pub(super) fn address(&self) -> Result<String, String> {
        let (text, place) = match &self.place {
            WebhookAddress::File(path) => {
                (crate::secret::read(path).map_err(|error| error.to_string()), path.display().to_string())
            }
            WebhookAddress::Environment(name) => {
                (std::env::var(name).map_err(|error| error.to_string()), format!("environment variable `{name}`"))
            }
        };
        let text = text.map_err(|error| format!("{place}: {error}"))?;
        let address = text.lines().next().unwrap_or_default().trim();
        if !address.starts_with("https://") && !address.starts_with("http://") {
            return Err(format!("{place}: it does not begin with `https://` or `http://`"));
        }
        Ok(address.to_owned())
    }

    /// Posts the alert and waits for the response until `deadline`.
    ///
    /// # Errors
    /// If the address is invalid, or the request fails or has another status than 2xx.
    pub(super) fn send(&self, alert: &Alert, deadline: Instant) -> Result<(), String> {
        let address = self.address()?;
        let left = deadline.saturating_duration_since(Instant::now());
        let post = self.agent.post(address).content_type("application/json");
        let post = post.config().timeout_global(Some(left)).build();
        let answer = post.send(alert.json.as_bytes()).map_err(|error| http_client::error_text(&error))?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(format!("the server answered with status {}", status.as_u16())) }
    }
}
