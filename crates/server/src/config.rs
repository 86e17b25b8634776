//! Configuration section `[serve]`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use schemas::Problem;
use serde::{Deserialize, Serialize};

/// HTTP server of a running training or preparation: live page, Prometheus metrics and health probes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServeConfig {
    /// TCP address such as `127.0.0.1:8080`, or path of a Unix socket such as `runs/a/serve.sock`. Empty: no server.
    /// With port 0 the system chooses a port, which is written to `serve.json` in the run folder.
    pub address: String,
    /// File with the access token. Actions require the token. Corpus rows require it if the address is not a loopback
    /// address. The environment variable `CLOZE_TOKEN` takes precedence. Without a token, both are refused. A Unix
    /// socket needs no token, because only the owner of its file can connect.
    pub token_file: PathBuf,
    /// Host names under which browsers may reach the server, in addition to `localhost` and IP addresses:
    /// `["train1.lan"]`. Requests with another name are refused, which prevents DNS rebinding.
    pub allowed_hosts: Vec<String>,
}

/// Maximum path length of a Unix socket, less the characters of its temporary name.
const SOCKET_PATH_MAX: usize = 96;

/// Address on which the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// IP address and port.
    Tcp(SocketAddr),
    /// Path of a Unix socket.
    Socket(PathBuf),
}

impl ListenAddress {
    /// Parses `host:port`, an `http://` URL of it, or a socket path, which contains a `/`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix("http://").map_or(text, |rest| rest.trim_end_matches('/'));
        if text.contains("://") {
            return Err(format!("`{text}`: the server supports only `http://`; use a reverse proxy for TLS"));
        }
        if text.contains('/') {
            let length = text.len();
            if length > SOCKET_PATH_MAX {
                return Err(format!("`{text}`: the socket path has {length} bytes; the maximum is {SOCKET_PATH_MAX}"));
            }
            return Ok(Self::Socket(text.into()));
        }
        let local = text.replacen("localhost:", "127.0.0.1:", usize::from(text.starts_with("localhost:")));
        local
            .parse()
            .map(Self::Tcp)
            .map_err(|_| format!("`{text}` is neither an address such as `127.0.0.1:8080` nor a socket path"))
    }

    /// Whether only local programs can connect.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Socket(_) => true,
        }
    }
}

/// Formats the address as a URL or a path.
impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}/"),
            Self::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

impl ServeConfig {
    /// Parses the configured address. Returns `None` if no server is configured.
    pub fn address(&self) -> Result<Option<ListenAddress>, String> {
        if self.address.is_empty() { Ok(None) } else { ListenAddress::parse(&self.address).map(Some) }
    }

    /// Checks the section and returns its problems.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Err(message) = self.address() {
            problems.push(
                Problem::new("serve.address", message).hint("use `HOST:PORT`, or a socket path that contains a `/`"),
            );
        }
        for host in self.allowed_hosts.iter().filter(|host| host.is_empty() || host.contains(['/', ':', ' '])) {
            let message = format!("`{host}` is not a host name");
            problems
                .push(Problem::new("serve.allowed_hosts", message).hint("write the host name without scheme and port"));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_ip_addresses_or_paths() {
        assert_eq!(
            ListenAddress::parse("127.0.0.1:80").map(|at| at.to_string()),
            Ok("http://127.0.0.1:80/".to_owned())
        );
        assert_eq!(ListenAddress::parse("http://127.0.0.1:80/"), ListenAddress::parse("127.0.0.1:80"));
        for wrong in ["https://127.0.0.1:80", &format!("/{}", "a".repeat(200))] {
            assert!(ListenAddress::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(ListenAddress::parse("localhost:80"), ListenAddress::parse("127.0.0.1:80"));
        assert!(ListenAddress::parse("[::1]:80").expect("an address").is_local());
        assert!(!ListenAddress::parse("0.0.0.0:80").expect("an address").is_local());
        assert_eq!(ListenAddress::parse("runs/a.sock"), Ok(ListenAddress::Socket("runs/a.sock".into())));
        for wrong in ["8080", "example.org:80", "127.0.0.1", ":80", "127.0.0.1:99999"] {
            assert!(ListenAddress::parse(wrong).is_err(), "{wrong}");
        }
        let config =
            ServeConfig { address: "8080".to_owned(), allowed_hosts: vec!["a:1".to_owned()], ..ServeConfig::default() };
        assert_eq!(config.problems().len(), 2);
        assert!(ServeConfig::default().problems().is_empty());
    }
}
