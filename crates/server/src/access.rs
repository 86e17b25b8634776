//! Who may ask for what.
//!
//! # Definition
//! - Over TCP a request names its host by a number, by `localhost`, or by a name of `serve.allowed_hosts`; one that names an
//!   origin names the same host. So no page of another site asks in its reader's name, whatever its name resolves to.
//! - What changes something needs the token. Rows of the corpus need it where others than this machine reach the address.
//! - A socket is its owner's alone, by its file's mode: it needs neither.

use std::net::IpAddr;
use std::path::Path;

use axum::http::{HeaderMap, StatusCode, header};
use telemetry::secret::SERVER_TOKEN as TOKEN;

/// A secret of fewer characters is guessed.
const TOKEN_MIN: usize = 16;

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Numbers, states, names.
    Look,
    /// Text of the corpus.
    Corpus,
    /// Something is another afterwards.
    Change,
}

/// The rules of one address.
#[derive(Debug)]
pub(crate) struct Access {
    token: Option<Token>,
    hosts: Vec<String>,
    is_local: bool,
    is_socket: bool,
}

/// The digest of a secret; the secret itself is not kept, and is never shown.
#[derive(Clone, Copy)]
pub(crate) struct Token(blake3::Hash);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// The token of `CLOZE_TOKEN`, else of the file, if one is named.
    pub(crate) fn find(file: &Path) -> Result<Option<Self>, String> {
        // Where files of variables set it to nothing, it is not set.
        if let Some(secret) = std::env::var_os(TOKEN).filter(|secret| !secret.is_empty()) {
            let secret = secret.into_string().map_err(|_| format!("{TOKEN}: it is no UTF-8"))?;
            return Self::of(&secret).map(Some).map_err(|why| format!("{TOKEN}: {why}"));
        }
        if file.as_os_str().is_empty() {
            return Ok(None);
        }
        let place = file.display();
        let secret = telemetry::secret::read(file).map_err(|error| format!("serve.token_file: {place}: {error}"))?;
        Self::of(&secret).map(Some).map_err(|why| format!("serve.token_file: {place}: {why}"))
    }

    /// Of a secret, without the white space around it.
    pub(crate) fn of(secret: &str) -> Result<Self, String> {
        let secret = secret.trim();
        if secret.chars().count() < TOKEN_MIN {
            return Err(format!("a token has {TOKEN_MIN} characters at least; `openssl rand -hex 16` makes one"));
        }
        if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            let why = "no client can send more than one line of visible ASCII; `openssl rand -hex 16` makes one";
            return Err(format!("a token has letters, digits and signs alone: {why}"));
        }
        Ok(Self(blake3::hash(secret.as_bytes())))
    }

    /// Whether that is the secret. It takes equally long whatever is wrong with it.
    fn is(&self, secret: &str) -> bool {
        blake3::hash(secret.as_bytes()) == self.0
    }
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// 401 or 403.
    pub(crate) status: StatusCode,
    /// What, and what to do.
    pub(crate) why: String,
}

impl Refusal {
    fn forbidden(why: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, why: why.into() }
    }
}

impl Access {
    /// Of an address that only this machine reaches, or that others do.
    #[must_use]
    pub(crate) fn over_tcp(token: Option<Token>, hosts: Vec<String>, is_local: bool) -> Self {
        Self { token, hosts, is_local, is_socket: false }
    }

    /// Of a socket.
    #[must_use]
    pub(crate) fn over_socket() -> Self {
        Self { token: None, hosts: Vec::new(), is_local: true, is_socket: true }
    }

    /// Whether a change needs a token.
    #[must_use]
    pub(crate) fn needs_token(&self) -> bool {
        !self.is_socket
    }

    /// Whether there is one that could be given.
    #[must_use]
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whether a request is answered.
    pub(crate) fn judge(&self, headers: &HeaderMap, purpose: Purpose) -> Result<(), Refusal> {
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

    fn judge_host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        // Two could be read as either of them by who stands between.
        if [header::HOST, header::ORIGIN].iter().any(|name| headers.get_all(name).iter().count() > 1) {
            let why = "a request names one host, and one origin at the most".to_owned();
            return Err(Refusal { status: StatusCode::BAD_REQUEST, why });
        }
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"));
        let host = text(header::HOST).ok_or_else(|| Refusal::forbidden("a request has to name its host"))?;
        if !self.is_known(name_of(host)) {
            let why = format!(
                "`{}` is no name of this address; put it into `serve.allowed_hosts` if it is",
                schemas::printable(name_of(host))
            );
            return Err(Refusal::forbidden(why));
        }
        match text(header::ORIGIN) {
            None => Ok(()),
            Some(origin)
                if origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host)) =>
            {
                Ok(())
            }
            Some(_) => Err(Refusal::forbidden("a page of another origin asks; open the page of this address itself")),
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
            let what = if purpose == Purpose::Change { "nothing can be changed" } else { "no rows are shown" };
            let why = format!("{what} without a token: set `serve.token_file`, or `CLOZE_TOKEN` in its environment");
            return Err(Refusal::forbidden(why));
        };
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        match given.and_then(|value| value.strip_prefix("Bearer ")) {
            Some(secret) if token.is(secret.trim()) => Ok(()),
            given => {
                let why = if given.is_some() { "the token is another" } else { "the token is missing" };
                let why = format!("{why}: give `Authorization: Bearer TOKEN`");
                Err(Refusal { status: StatusCode::UNAUTHORIZED, why })
            }
        }
    }
}

/// The name in `name:port` or `[number]:port`.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) && !name.is_empty() => {
            // A bare number of IPv6 has colons too.
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
        let found = access.judge(&headers(pairs), purpose).err().map_or(200, |refusal| refusal.status.as_u16());
        assert_eq!(found, expected, "{pairs:?} {purpose:?}");
    }

    #[test]
    fn only_who_names_the_address_is_answered() {
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
    fn what_changes_needs_the_token_and_rows_do_where_others_look() {
        let host = (header::HOST, "10.0.0.7");
        let bearer = format!("Bearer {SECRET}");
        let given = |value| [host.clone(), (header::AUTHORIZATION, value)];
        for is_local in [true, false] {
            let access = Access::over_tcp(Token::of(SECRET).ok(), Vec::new(), is_local);
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
        assert!(Token::of("short").is_err());
        let token = Token::of(&format!(" {SECRET}\n")).expect("long enough");
        assert!(token.is(SECRET) && !token.is("") && !format!("{token:?}").contains("0123"));
    }
}
