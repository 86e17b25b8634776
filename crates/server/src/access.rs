//! Access control of requests.
//!
//! # Definition
//! - Over TCP, the `Host` header must be an IP address, `localhost` or a name of `serve.allowed_hosts`, and so must the
//!   host of an absolute request target. An `Origin` header must name the same host. This prevents requests by pages of
//!   other sites, also after DNS rebinding.
//! - Requests that change something need the token. Corpus rows need it if the address is not a loopback address.
//! - A Unix socket needs neither, because its file mode admits only its owner.

use std::net::IpAddr;
use std::path::Path;

use axum::http::{HeaderMap, StatusCode, Uri, header};
use telemetry::secret::SERVER_TOKEN as TOKEN;

/// Minimum length of a token; a shorter one can be guessed.
const TOKEN_MIN: usize = 16;

/// Category of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Read metrics, states and names.
    Look,
    /// Read text of the corpus.
    Corpus,
    /// Change the run or the server.
    Change,
}

/// Access rules of one address.
#[derive(Debug)]
pub(crate) struct Access {
    token: Option<Token>,
    hosts: Vec<String>,
    is_local: bool,
    is_socket: bool,
}

/// Digest of a secret token. The secret itself is neither kept nor shown.
#[derive(Clone, Copy)]
pub(crate) struct Token(blake3::Hash);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// Reads the token from `CLOZE_TOKEN`, else from `file`, if a file is configured.
    pub(crate) fn find(file: &Path) -> Result<Option<Self>, String> {
        // Environment files may set the variable to an empty value; it then counts as unset.
        if let Some(secret) = std::env::var_os(TOKEN).filter(|secret| !secret.is_empty()) {
            let secret = secret.into_string().map_err(|_| format!("{TOKEN}: the value is not valid UTF-8"))?;
            return Self::new(&secret).map(Some).map_err(|why| format!("{TOKEN}: {why}"));
        }
        if file.as_os_str().is_empty() {
            return Ok(None);
        }
        let place = file.display();
        let secret = telemetry::secret::read(file).map_err(|error| format!("serve.token_file: {place}: {error}"))?;
        Self::new(&secret).map(Some).map_err(|why| format!("serve.token_file: {place}: {why}"))
    }

    /// Creates the token from a secret. Surrounding white space is removed.
    pub(crate) fn new(secret: &str) -> Result<Self, String> {
        let secret = secret.trim();
        if secret.chars().count() < TOKEN_MIN {
            return Err(format!(
                "the token has fewer than {TOKEN_MIN} characters; create one with `openssl rand -hex 16`"
            ));
        }
        if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            let why = "the token must be one line of visible ASCII; create one with `openssl rand -hex 16`";
            return Err(why.to_owned());
        }
        Ok(Self(blake3::hash(secret.as_bytes())))
    }

    /// Whether the secret matches. The comparison takes constant time.
    fn matches(&self, secret: &str) -> bool {
        blake3::hash(secret.as_bytes()) == self.0
    }
}

/// Refusal of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Status 400, 401, 403 or 404.
    pub(crate) status: StatusCode,
    /// Reason and remedy.
    pub(crate) why: String,
}

impl Refusal {
    fn forbidden(why: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, why: why.into() }
    }
}

impl Access {
    /// Rules of a TCP address. `is_local`: only local programs can connect.
    #[must_use]
    pub(crate) fn over_tcp(token: Option<Token>, hosts: Vec<String>, is_local: bool) -> Self {
        Self { token, hosts, is_local, is_socket: false }
    }

    /// Rules of a Unix socket.
    #[must_use]
    pub(crate) fn over_socket() -> Self {
        Self { token: None, hosts: Vec::new(), is_local: true, is_socket: true }
    }

    /// Whether changes need a token.
    #[must_use]
    pub(crate) fn needs_token(&self) -> bool {
        !self.is_socket
    }

    /// Whether a token is configured.
    #[must_use]
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Checks whether a request is allowed.
    pub(crate) fn check(&self, headers: &HeaderMap, purpose: Purpose) -> Result<(), Refusal> {
        if self.is_socket {
            return Ok(());
        }
        self.judge_host(headers)?;
        let is_needed = match purpose {
            Purpose::Look => false,
            Purpose::Corpus => !self.is_local,
            Purpose::Change => true,
        };
        if is_needed { self.judge_token(headers, purpose) } else { Ok(()) }
    }

    /// Checks the host of an absolute request target, as in `GET http://host/status HTTP/1.1`. It takes the place of the
    /// `Host` header (RFC 9112, section 3.2.2).
    pub(crate) fn check_target(&self, target: &Uri) -> Result<(), Refusal> {
        match target.authority() {
            Some(authority) if !self.is_socket => self.require_known(authority.host()),
            _ => Ok(()),
        }
    }

    fn require_known(&self, name: &str) -> Result<(), Refusal> {
        if self.is_known(name) {
            return Ok(());
        }
        let why = format!("host `{}` is not allowed; add it to `serve.allowed_hosts`", schemas::printable(name));
        Err(Refusal::forbidden(why))
    }

    fn judge_host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        // A proxy could use a different one of two headers.
        if [header::HOST, header::ORIGIN].iter().any(|name| headers.get_all(name).iter().count() > 1) {
            let why = "a request must have exactly one Host header and at most one Origin header".to_owned();
            return Err(Refusal { status: StatusCode::BAD_REQUEST, why });
        }
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"));
        let host = text(header::HOST).ok_or_else(|| Refusal::forbidden("the Host header is missing"))?;
        self.require_known(name_of(host))?;
        match text(header::ORIGIN) {
            None => Ok(()),
            Some(origin)
                if origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host)) =>
            {
                Ok(())
            }
            Some(_) => Err(Refusal::forbidden("cross-origin request refused; open the page at this address")),
        }
    }

    fn is_known(&self, name: &str) -> bool {
        let is_number = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        is_number
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    }

    fn judge_token(&self, headers: &HeaderMap, purpose: Purpose) -> Result<(), Refusal> {
        let Some(token) = &self.token else {
            let what = if purpose == Purpose::Change { "actions" } else { "corpus rows" };
            let why = format!("{what} need a token, and none is configured; set `serve.token_file` or `CLOZE_TOKEN`");
            return Err(Refusal::forbidden(why));
        };
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        match given.and_then(|value| value.strip_prefix("Bearer ")) {
            Some(secret) if token.matches(secret.trim()) => Ok(()),
            given => {
                let why = if given.is_some() { "invalid token" } else { "missing token" };
                let why = format!("{why}; send `Authorization: Bearer TOKEN`");
                Err(Refusal { status: StatusCode::UNAUTHORIZED, why })
            }
        }
    }
}

/// Host part of `name:port` or `[address]:port`.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) && !name.is_empty() => {
            // A bare IPv6 address contains colons too.
            if name.contains(':') && !name.starts_with('[') { host } else { name }
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef";

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), value.parse().expect("a header"))).collect()
    }

    fn check(access: &Access, pairs: &[(header::HeaderName, &str)], purpose: Purpose, expected: u16) {
        let found = access.check(&headers(pairs), purpose).err().map_or(200, |refusal| refusal.status.as_u16());
        assert_eq!(found, expected, "{pairs:?} {purpose:?}");
    }

    #[test]
    fn only_requests_with_an_allowed_host_are_answered() {
        let access = Access::over_tcp(None, vec!["train1.lan".to_owned()], true);
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:8080", "10.0.0.7:1", "train1.lan:80", "::1"] {
            check(&access, &[(header::HOST, host)], Purpose::Look, 200);
        }
        for host in
            ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::1"]
        {
            check(&access, &[(header::HOST, host)], Purpose::Look, 403);
        }
        check(&access, &[], Purpose::Look, 403);
        let from = |origin| [(header::HOST, "localhost:80"), (header::ORIGIN, origin)];
        check(&access, &from("http://localhost:80"), Purpose::Look, 200);
        for origin in ["http://localhost:81", "http://evil.example", "null", "", "http://localhost:80.evil.example"] {
            check(&access, &from(origin), Purpose::Look, 403);
        }
    }

    #[test]
    fn changes_need_the_token_and_rows_do_on_public_addresses() {
        let host = (header::HOST, "10.0.0.7");
        let bearer = format!("Bearer {SECRET}");
        let given = |value| [host.clone(), (header::AUTHORIZATION, value)];
        for is_local in [true, false] {
            let access = Access::over_tcp(Token::new(SECRET).ok(), Vec::new(), is_local);
            check(&access, std::slice::from_ref(&host), Purpose::Look, 200);
            check(&access, std::slice::from_ref(&host), Purpose::Corpus, if is_local { 200 } else { 401 });
            check(&access, std::slice::from_ref(&host), Purpose::Change, 401);
            for wrong in ["Bearer 0123456789abcdeF", "Bearer ", "Basic abc", SECRET] {
                check(&access, &given(wrong), Purpose::Change, 401);
            }
            check(&access, &given(&bearer), Purpose::Change, 200);
            check(&access, &given(&bearer), Purpose::Corpus, 200);
        }
        let open = Access::over_tcp(None, Vec::new(), false);
        check(&open, &given(&bearer), Purpose::Change, 403);
        check(&open, &[host], Purpose::Corpus, 403);
        check(&Access::over_socket(), &[], Purpose::Change, 200);
    }

    #[test]
    fn a_secret_is_long_and_is_not_shown() {
        assert!(Token::new("short").is_err());
        let token = Token::new(&format!(" {SECRET}\n")).expect("long enough");
        assert!(token.matches(SECRET) && !token.matches("") && !format!("{token:?}").contains("0123"));
    }
}
