//! Alerts by HTTPS. The address is a secret: whoever knows it may post there. It is read when it is needed, kept nowhere,
//! and no error repeats it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Error};

use super::config::AlertsConfig;
use super::desk::Alert;

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
        let tls = TlsConfig::builder().root_certs(roots()).build();
        let agent = Agent::config_builder()
            .tls_config(tls)
            // An address that has moved is for people to look at; a redirected post is no post any more.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("cloze/", env!("CARGO_PKG_VERSION")))
            .build();
        Some(Self { place, agent: agent.into() })
    }

    /// The address as it is now, or why there is none.
    pub(super) fn address(&self) -> Result<String, String> {
        let (text, place) = match &self.place {
            Place::File(path) => {
                (serve::secret::read(path).map_err(|error| error.to_string()), path.display().to_string())
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
        let answer = post.send(alert.json.as_bytes()).map_err(|error| why(&error))?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(format!("it answered {}", status.as_u16())) }
    }
}

/// What went wrong, in words of our own: those of libraries may repeat the address.
fn why(error: &Error) -> String {
    match error {
        Error::StatusCode(status) => format!("it answered {status}"),
        Error::Timeout(_) => "there was no answer in time".to_owned(),
        Error::HostNotFound => "its host is not known".to_owned(),
        Error::ConnectionFailed => "there was no connection".to_owned(),
        Error::Io(error) => error.kind().to_string(),
        Error::Rustls(rustls) => format!("TLS: {}", tls(rustls)),
        Error::Tls(_) | Error::TlsRequired | Error::Pem(_) => "TLS failed".to_owned(),
        Error::BadUri(_) | Error::Http(_) => "what stands there is no address".to_owned(),
        Error::InvalidProxyUrl | Error::ConnectProxyFailed(_) => "the proxy of the environment failed".to_owned(),
        _ => "the post failed".to_owned(),
    }
}

/// A certificate that does not fit says for which name; the rest is of no secret's concern.
fn tls(error: &impl std::fmt::Debug) -> &'static str {
    let text = format!("{error:?}");
    if text.contains("UnknownIssuer") {
        "nobody vouches for its certificate; `SSL_CERT_FILE` may name who does"
    } else if text.contains("NotValidForName") {
        "its certificate is for another name"
    } else if text.contains("Expired") || text.contains("NotValidYet") {
        "its certificate is not valid now"
    } else {
        "there was no agreement"
    }
}

/// Whom to believe: what `SSL_CERT_FILE` names, as a company's own hosts need it, else the list that browsers have, which
/// is built in.
fn roots() -> RootCerts {
    let Some(path) = std::env::var_os("SSL_CERT_FILE") else { return RootCerts::WebPki };
    let Ok(bytes) = std::fs::read(&path) else {
        tracing::warn!("`SSL_CERT_FILE` cannot be read; the list that is built in serves");
        return RootCerts::WebPki;
    };
    let certificates: Vec<Certificate<'static>> = parse_pem(&bytes)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    RootCerts::Specific(Arc::new(certificates))
}
