//! Errors of requests: their kinds, and texts without anything that a server or a URL may leak.
//!
//! # Definition
//! | cause | kind | repeated |
//! |---|---|---|
//! | no progress within the limit, 408, 504 | `TimedOut` | yes |
//! | connection cut | `ConnectionReset` | yes |
//! | 429, 500, 502, 503 and other 5xx except 501, 505 and 507 | `WouldBlock` | yes |
//! | 401, 403 | `PermissionDenied` | no |
//! | 404, 410 | `NotFound` | no |
//! | connection refused, host unknown, before the server has answered | `ConnectionRefused`, `NotConnected` | no |
//! | the same after an answer of the server | `ConnectionReset` | yes |
//! | 507 | `StorageFull` | no |
//! | all others | `Other`, `Unsupported` | no |

use std::error::Error;
use std::io::{self, ErrorKind};
use std::time::Duration;

use object_store::client::{HttpError, HttpErrorKind};
use reqwest::header::HeaderMap;
use store::RetryAfter;

use crate::{answered, retry_after};

/// Longest error code of a server that a message repeats.
const MAX_CODE_CHARS: usize = 64;

/// Longest text of another library that a message repeats.
const MAX_SHOWN_CHARS: usize = 160;

/// Failed request.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: io::Error,
    /// Status of the answer, if there was one.
    pub(crate) status: Option<u16>,
    /// Error code of the answer; may be empty.
    pub(crate) code: String,
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self { error, status: None, code: String::new() }
    }
}

impl Failure {
    /// Returns the failure of an answer with an error status.
    pub(crate) fn from_status(status: u16, code: String) -> Self {
        let shown = if code.is_empty() { String::new() } else { format!(" ({code})") };
        let hint = match status {
            _ if code == "RequestTimeTooSkewed" => "; set the clock of this machine",
            _ if code == "ExpiredToken" => "; renew the credentials",
            301 | 307 | 308 => {
                "; the bucket is in another region or at another endpoint: set AWS_REGION or AWS_ENDPOINT_URL"
            }
            401 | 403 => "; check the credentials in the environment and their permissions (docs/object-stores.md)",
            501 => "; the server does not support this request",
            _ => "",
        };
        let error = io::Error::new(kind_of(status, &code), format!("the server answered {status}{shown}{hint}"));
        Self { error, status: Some(status), code }
    }

    /// Returns the failure of an answer with an error status, and with the pause that its headers ask for.
    pub(crate) fn from_answer(status: u16, code: String, headers: &HeaderMap) -> Self {
        let failure = Self::from_status(status, code);
        match retry_after::pause_of(headers) {
            Some(pause) if failure.error.kind() == ErrorKind::WouldBlock => {
                let error = RetryAfter::error(failure.error.kind(), failure.error.to_string(), pause);
                Self { error, ..failure }
            }
            _ => failure,
        }
    }

    /// Returns the failure of a request to `server` that had no complete answer.
    pub(crate) fn from_transport(error: &(dyn Error + 'static), server: &str) -> Self {
        let kind = match transport_kind(error) {
            ErrorKind::ConnectionRefused | ErrorKind::NotConnected if answered::has(server) => {
                ErrorKind::ConnectionReset
            }
            kind => kind,
        };
        let cause = innermost(error);
        let hint = match kind {
            ErrorKind::NotConnected if cause.contains("certificate") => {
                "; to trust it, set the variable `…_PROXY_CA_CERTIFICATE` of docs/object-stores.md"
            }
            ErrorKind::ConnectionRefused | ErrorKind::NotConnected => {
                "; check the address, the endpoint in the environment (docs/object-stores.md), and that the server runs"
            }
            _ => "",
        };
        io::Error::new(kind, format!("the connection failed: {cause}{hint}")).into()
    }
}

/// Returns the error of a request without progress.
pub(crate) fn stalled(limit: Duration) -> io::Error {
    io::Error::new(ErrorKind::TimedOut, format!("no progress for {} s", limit.as_secs_f32()))
}

/// Returns the error of a body that ended early.
pub(crate) fn cut_body(error: &(dyn Error + 'static)) -> io::Error {
    let kind = match transport_kind(error) {
        ErrorKind::TimedOut => ErrorKind::TimedOut,
        _ => ErrorKind::ConnectionReset,
    };
    io::Error::new(kind, format!("the connection was cut while the answer arrived: {}", innermost(error)))
}

/// Returns the error of a call that ended without a recorded request.
pub(crate) fn other(error: &(dyn Error + 'static)) -> io::Error {
    match transport_kind(error) {
        ErrorKind::Other => io::Error::other(innermost(error)),
        _ => cut_body(error),
    }
}

/// Returns the kind of an error status.
fn kind_of(status: u16, code: &str) -> ErrorKind {
    // S3 answers 400 with this code when the body of a request arrives too slowly.
    if matches!(status, 408 | 504) || (status == 400 && code == "RequestTimeout") {
        return ErrorKind::TimedOut;
    }
    match status {
        401 | 403 => ErrorKind::PermissionDenied,
        404 | 410 => ErrorKind::NotFound,
        501 | 505 => ErrorKind::Unsupported,
        507 => ErrorKind::StorageFull,
        429 | 500.. => ErrorKind::WouldBlock,
        _ => ErrorKind::Other,
    }
}

/// Returns the kind of an error without an answer.
fn transport_kind(error: &(dyn Error + 'static)) -> ErrorKind {
    let mut next = Some(error);
    let mut kind = ErrorKind::Other;
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<HttpError>() {
            kind = match error.kind() {
                HttpErrorKind::Timeout => return ErrorKind::TimedOut,
                HttpErrorKind::Request | HttpErrorKind::Interrupted => ErrorKind::ConnectionReset,
                HttpErrorKind::Connect => ErrorKind::NotConnected,
                _ => kind,
            };
        }
        if let Some(error) = error.downcast_ref::<reqwest::Error>() {
            kind = match () {
                () if error.is_timeout() => return ErrorKind::TimedOut,
                () if error.is_connect() => ErrorKind::NotConnected,
                () if error.is_request() || error.is_body() => ErrorKind::ConnectionReset,
                () => kind,
            };
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            kind = match error.kind() {
                ErrorKind::TimedOut => return ErrorKind::TimedOut,
                ErrorKind::ConnectionRefused => return ErrorKind::ConnectionRefused,
                ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe
                | ErrorKind::UnexpectedEof => return ErrorKind::ConnectionReset,
                _ => kind,
            };
        }
        next = error.source();
    }
    kind
}

/// Returns the text of the first cause. The texts around it may contain a URL with credentials.
fn innermost(mut error: &(dyn Error + 'static)) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    // A parser of answers repeats them, whatever they are.
    let text = error.to_string();
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}

/// Returns the error code in the body of an answer, of XML or JSON; empty if there is none.
pub(crate) fn code_in(body: &str) -> String {
    let between = |start: &str, end: char| {
        let (_, rest) = body.split_once(start)?;
        Some(rest.trim_start().split(end).next()?.trim())
    };
    let code = between("<Code>", '<').or_else(|| between("\"code\":\"", '"'));
    checked_code(code.unwrap_or_default())
}

/// Returns the code if it can be one; otherwise nothing, because it may be any text.
pub(crate) fn checked_code(code: &str) -> String {
    let is_code_char = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
    if code.len() <= MAX_CODE_CHARS && code.chars().all(is_code_char) { code.to_owned() } else { String::new() }
}
