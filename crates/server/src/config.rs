//! `[serve]`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use schemas::Problem;
use serde::{Deserialize, Serialize};

/// Where a run can be seen while it is under way: a page, Prometheus' metrics, probes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServeConfig {
    /// An address like `127.0.0.1:8080`, or the path of a socket like `runs/a/serve.sock`. Empty: nothing is served. With
    /// port 0 the system chooses; `serve.json` in the run's folder says which.
    pub address: String,
    /// A file with the token that whoever changes something has to give, and on an address that others reach whoever looks
    /// at rows of the corpus; `CLOZE_TOKEN` in the environment is one too. Without a token neither can be done. A socket
    /// needs none: its file is its owner's alone.
    pub token_file: PathBuf,
    /// Host names under which browsers may reach the server, in addition to `localhost` and IP addresses:
    /// `["train1.lan"]`. Requests with another name are refused, which prevents DNS rebinding.
    pub allowed_hosts: Vec<String>,
}

/// What a system takes for the path of a socket, less what is put before its name while it is made.
const SOCKET_PATH_MAX: usize = 96;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A number and a port.
    Tcp(SocketAddr),
    /// The path of a socket.
    Socket(PathBuf),
}

impl ListenAddress {
    /// As written, or as a browser has it: what has a `/` in it otherwise is a path.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix("http://").map_or(text, |rest| rest.trim_end_matches('/'));
        if text.contains("://") {
            return Err(format!("`{text}`: this speaks HTTP alone; for TLS put a proxy before it"));
        }
        if text.contains('/') {
            let length = text.len();
            if length > SOCKET_PATH_MAX {
                return Err(format!("`{text}`: a socket's path has {SOCKET_PATH_MAX} bytes at the most, not {length}"));
            }
            return Ok(Self::Socket(text.into()));
        }
        let local = text.replacen("localhost:", "127.0.0.1:", usize::from(text.starts_with("localhost:")));
        local
            .parse()
            .map(Self::Tcp)
            .map_err(|_| format!("`{text}` is neither an address like `127.0.0.1:8080` nor a path"))
    }

    /// Whether only programs of this machine reach it.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Socket(_) => true,
        }
    }
}

/// As a client writes it.
impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}/"),
            Self::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

impl ServeConfig {
    /// Where to listen; none where nothing is served.
    pub fn address(&self) -> Result<Option<ListenAddress>, String> {
        if self.address.is_empty() { Ok(None) } else { ListenAddress::parse(&self.address).map(Some) }
    }

    /// What is wrong with it.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Err(message) = self.address() {
            problems.push(Problem::new("serve.address", message).hint("write the port too, or a path with a `/`"));
        }
        for host in self.allowed_hosts.iter().filter(|host| host.is_empty() || host.contains(['/', ':', ' '])) {
            let message = format!("`{host}` is no name of a machine");
            problems.push(Problem::new("serve.allowed_hosts", message).hint("a name alone, without scheme and port"));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_numbers_or_paths() {
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
