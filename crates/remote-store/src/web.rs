//! HTTP client of the stores that can only be read.
//!
//! # Definition
//! Redirects are followed by this client, not by the library below: the token goes only to requests of the origin that
//! it belongs to, and never over an unencrypted connection after an encrypted one. [`redirect`] has the rules.
//!
//! A file whose metadata were read is read in ranges of the same length, and of the same tag if the server sends tags.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{LazyLock, Once};
use std::time::{Duration, UNIX_EPOCH};

use reqwest::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderValue, LAST_MODIFIED,
    LOCATION, RANGE,
};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Method, Response};
use store::{Stat, Version};
use tracing::warn;
use url::{Origin, Position, Url};

use crate::failure::{self, Failure};
use crate::options::{CONNECT_TIMEOUT, StoreOptions, USER_AGENT};
use crate::progress::{Transfer, limited};
use crate::read_only::KnownObject;
use crate::{answered, body, redirect};

const MAX_REDIRECTS: usize = 10;
/// Longest answer that is kept as a whole for the client's own use, such as a page of a file list.
const MAX_TEXT_BYTES: usize = 32 << 20;

/// Client of this process. All stores share its connections.
static CLIENT: LazyLock<reqwest::Result<Client>> = LazyLock::new(|| {
    install_cryptography();
    client_builder().build()
});

/// Returns a builder of clients that follow no redirect: the token or the signature of a request is for one server.
pub(crate) fn client_builder() -> ClientBuilder {
    Client::builder().redirect(Policy::none()).connect_timeout(CONNECT_TIMEOUT).user_agent(USER_AGENT)
}

/// Chooses ring for encrypted connections, once per process. Another choice that was made before stays.
pub(crate) fn install_cryptography() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Client for one server and the servers that it redirects to.
#[derive(Clone)]
pub(crate) struct Web {
    client: Client,
    stall_timeout: Duration,
    /// Header for requests to its origin.
    token: Option<(Origin, HeaderValue)>,
}

/// Answer of a server, after redirects.
pub(crate) struct Answer {
    response: Response,
    /// Headers of the first answer: those of the redirect, or of the only one.
    pub(crate) first: HeaderMap,
}

impl Web {
    /// Creates a client. The token is sent to `origin` only.
    pub(crate) fn new(options: &StoreOptions, token: Option<(Origin, &str)>) -> io::Result<Self> {
        let started = CLIENT.as_ref();
        let client = started.map_err(|error| io::Error::other(format!("cannot start an HTTP client: {error}")))?;
        let token = token.map(|(origin, token)| {
            let mut header = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
                io::Error::new(ErrorKind::InvalidInput, "HF_TOKEN contains characters that no token has")
            })?;
            header.set_sensitive(true);
            Ok::<_, io::Error>((origin, header))
        });
        Ok(Self { client: client.clone(), stall_timeout: options.stall_timeout, token: token.transpose()? })
    }

    /// Sends a request and follows redirects. An error status is a failure.
    pub(crate) async fn send(&self, method: Method, url: Url, range: Option<Range<u64>>) -> Result<Answer, Failure> {
        let mut url = url;
        let mut first: Option<(HeaderMap, Option<SocketAddr>)> = None;
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send_once(method.clone(), url.clone(), range.as_ref()).await?;
            let (headers, from) = first.get_or_insert_with(|| (response.headers().clone(), response.remote_addr()));
            redirect::check_answer(*from, response.remote_addr())?;
            let status = response.status();
            if !status.is_redirection() {
                if status.is_success() {
                    return Ok(Answer { first: headers.clone(), response });
                }
                let code = response.headers().get("x-error-code").and_then(|code| code.to_str().ok());
                let code = failure::checked_code(code.unwrap_or_default());
                return Err(Failure::from_answer(status.as_u16(), code, response.headers()));
            }
            let target = response.headers().get(LOCATION).and_then(|target| target.to_str().ok());
            let target = target.and_then(|target| url.join(target).ok());
            let target = target.ok_or_else(|| io::Error::other("the server redirects to no valid address"))?;
            redirect::check(&url, &target, *from)?;
            url = target;
        }
        Err(io::Error::other(format!("the server redirects more than {MAX_REDIRECTS} times")).into())
    }

    async fn send_once(&self, method: Method, url: Url, range: Option<&Range<u64>>) -> Result<Response, Failure> {
        let server = server_of(&url);
        // Without compression the length of the answer is that of the file.
        let mut request = self.client.request(method, url.clone()).header(ACCEPT_ENCODING, "identity");
        if let Some(Range { start, end }) = range {
            request = request.header(RANGE, format!("bytes={start}-{}", end - 1));
        }
        if let Some((origin, header)) = &self.token
            && *origin == url.origin()
        {
            request = request.header(AUTHORIZATION, header.clone());
        }
        let answer = limited(server, self.stall_timeout, request.send()).await?;
        answer.inspect(|_| answered::record(server)).map_err(|error| Failure::from_transport(&error, server))
    }

    /// Reads the whole body, and checks that it is complete.
    pub(crate) async fn body(&self, answer: Answer, bytes_max: usize) -> io::Result<Vec<u8>> {
        let Answer { mut response, .. } = answer;
        let url = response.url().clone();
        let expected = length_of(response.headers());
        let mut bytes = body::buffer(expected.unwrap_or_default());
        let mut transfer = Transfer::new(server_of(&url), self.stall_timeout);
        while let Some(chunk) = transfer.next(response.chunk()).await?.map_err(|error| failure::cut_body(&error))? {
            if chunk.len() > bytes_max - bytes.len() {
                let message = format!("the answer is longer than the {bytes_max} bytes that were asked for");
                return Err(io::Error::new(ErrorKind::InvalidData, message));
            }
            transfer.add(chunk.len());
            bytes.extend_from_slice(&chunk);
        }
        expected.map_or(Ok(()), |expected| body::check_complete(bytes.len() as u64, expected))?;
        Ok(bytes)
    }

    /// Reads a short text.
    pub(crate) async fn text(&self, url: Url) -> Result<(HeaderMap, Vec<u8>), Failure> {
        let answer = self.send(Method::GET, url, None).await?;
        let headers = answer.first.clone();
        Ok((headers, self.body(answer, MAX_TEXT_BYTES).await?))
    }

    /// Reads a file with its metadata.
    pub(crate) async fn get(&self, url: Url) -> Result<(Vec<u8>, Stat), Failure> {
        let answer = self.send(Method::GET, url, None).await?;
        let (first, last) = (answer.first.clone(), answer.response.headers().clone());
        let bytes = self.body(answer, usize::MAX).await?;
        let stat = stat_of(&first, &last, bytes.len() as u64);
        Ok((bytes, stat))
    }

    /// Reads the bytes of a range, fewer where the file ends. A file whose length or tag is not the known one is an error.
    pub(crate) async fn get_range(
        &self,
        url: Url,
        range: Range<u64>,
        known: Option<KnownObject>,
    ) -> Result<Vec<u8>, Failure> {
        let range = range.start..range.end.min(i64::MAX as u64);
        if range.is_empty() {
            return self.head(url).await.map(|_| Vec::new());
        }
        let answer = match self.send(Method::GET, url, Some(range.clone())).await {
            Err(failure) if failure.status == Some(416) => {
                let is_inside = known.is_some_and(|known| range.start < known.bytes);
                return if is_inside { Err(changed("it is shorter").into()) } else { Ok(Vec::new()) };
            }
            answer => answer?,
        };
        let found = answer.response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
        let found = found.and_then(ContentRange::parse);
        let found = found.filter(|found| answer.response.status().as_u16() == 206 && found.start == range.start);
        let Some(found) = found else {
            let message = "the server ignores byte ranges; download the file, or use a server that supports them";
            return Err(io::Error::new(ErrorKind::Unsupported, message).into());
        };
        if let (Some(bytes), Some(KnownObject { bytes: known, .. })) = (found.total, &known)
            && bytes != *known
        {
            return Err(changed(&format!("{bytes} bytes, {known} when its metadata were read")).into());
        }
        let tag = tag_of(&answer.first, answer.response.headers());
        if let (Some(tag), Some(known)) = (tag, known.and_then(|known| known.tag))
            && tag.trim_start_matches("W/").trim_matches('"') != known.trim_start_matches("W/").trim_matches('"')
        {
            return Err(changed("it has another tag than when its metadata were read").into());
        }
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        Ok(self.body(answer, length).await?)
    }

    /// Reads the metadata of a file.
    pub(crate) async fn head(&self, url: Url) -> Result<Stat, Failure> {
        let answer = match self.send(Method::HEAD, url.clone(), None).await {
            // An address may be signed for GET only. The body is not read.
            Err(failure) if matches!(failure.status, Some(403 | 405 | 501)) => {
                self.send(Method::GET, url, None).await?
            }
            answer => answer?,
        };
        let last = answer.response.headers();
        let length = length_of(last).ok_or_else(|| {
            io::Error::new(ErrorKind::Unsupported, "the server does not tell the length of the file; download it")
        })?;
        Ok(stat_of(&answer.first, last, length))
    }
}

/// Range of an answer.
struct ContentRange {
    start: u64,
    /// Length of the file, if the server tells it.
    total: Option<u64>,
}

impl ContentRange {
    /// Parses `bytes 0-9/20` or `bytes 0-9/*`.
    fn parse(text: &str) -> Option<Self> {
        let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
        Some(Self { start: range.split_once('-')?.0.trim().parse().ok()?, total: total.trim().parse().ok() })
    }
}

/// Returns the error of a file that changes while it is read.
fn changed(difference: &str) -> io::Error {
    let message = format!("the file has changed: {difference}; run the same command again when it no longer changes");
    io::Error::new(ErrorKind::InvalidData, message)
}

fn length_of(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns the server of a URL: `HOST` or `HOST:PORT`.
fn server_of(url: &Url) -> &str {
    &url[Position::BeforeHost..Position::AfterPort]
}

/// Returns the tag of a file: that of a server that redirects, if it has one. The target may give the same file another
/// one each time.
fn tag_of(first: &HeaderMap, last: &HeaderMap) -> Option<String> {
    let text = |headers: &HeaderMap, name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
    let tag = ["x-linked-etag", ETAG.as_str()].iter().find_map(|name| text(first, name));
    let tag = tag.or_else(|| text(last, ETAG.as_str()));
    tag.map(|tag| tag.trim_matches('"').to_owned()).filter(|tag| !tag.is_empty())
}

/// Returns the metadata of a file.
fn stat_of(first: &HeaderMap, last: &HeaderMap, bytes: u64) -> Stat {
    static WARNED: Once = Once::new();
    let time = || last.get(LAST_MODIFIED)?.to_str().ok().map(|time| format!("{time}, {bytes} bytes"));
    let version = tag_of(first, last).or_else(time).unwrap_or_else(|| {
        let message = "store: a web server sends neither `ETag` nor `Last-Modified`; a file that another one of the same \
                       length replaces is not noticed";
        WARNED.call_once(|| warn!("{message}"));
        format!("{bytes} bytes")
    });
    Stat { bytes, version: Version::new(version), modified: UNIX_EPOCH }
}
