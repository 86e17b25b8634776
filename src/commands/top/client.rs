//! Source of a run's state: its server or its folder.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use serde_json::Value;
use server::{Kind, ListenAddress};
use store::Store;

use crate::exit::Usage;
use crate::run::monitoring::{ADDRESS, about};

/// Timeout of a server. A key press waits for it.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum length of an answer. A history has at most two megabytes.
const ANSWER_MAX: usize = 64 << 20;

/// Source of the answers.
pub(super) enum Source {
    Served(ListenAddress),
    Folder(Store, Box<server::RunInfo>),
}

impl Source {
    /// Finds the run in a folder or at an address.
    pub(super) fn find(target: &str) -> anyhow::Result<Self> {
        let folder = Path::new(target);
        if !folder.is_dir() {
            let nothing = |why: &str| Usage(format!("{target}: not a run folder, and {why}"));
            let address = ListenAddress::parse(target).map_err(|why| nothing(&why))?;
            return match &address {
                ListenAddress::Socket(path) if !path.exists() => Err(nothing("no socket either").into()),
                _ => Ok(Self::Served(address)),
            };
        }
        let store = Store::existing(folder)?;
        if let Some(address) = served(&store) {
            return Ok(Self::Served(address));
        }
        if !folder.join("config.toml").is_file() {
            return Err(Usage(format!("{target}: no run is here (no `config.toml`)")).into());
        }
        Ok(Self::Folder(store, Box::new(about(Kind::Train, folder))))
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Served(address) => address.to_string(),
            Self::Folder(store, _) => store.place(""),
        }
    }

    /// Full history of the run.
    pub(super) fn history(&self) -> anyhow::Result<Value> {
        match self {
            Self::Served(address) => get(address, "/history"),
            Self::Folder(store, about) => Ok(serde_json::from_str(&server::report::history_of(about, store))?),
        }
    }

    /// Status of all actors, if a server answers.
    pub(super) fn status(&self) -> Option<Value> {
        match self {
            Self::Served(address) => get(address, "/status").ok(),
            Self::Folder(..) => None,
        }
    }

    /// Sends an action and returns its outcome in words.
    pub(super) fn request(&self, action: &str) -> String {
        let Self::Served(address) = self else {
            return "this run has no server; actions are not available".to_owned();
        };
        let token = std::env::var(telemetry::secret::SERVER_TOKEN).unwrap_or_default();
        let token =
            if token.is_empty() { String::new() } else { format!("Authorization: Bearer {}\r\n", token.trim()) };
        let answer = exchange(address, &format!("POST /{action}"), &format!("{token}Content-Length: 0\r\n"));
        match answer.and_then(|answer| parse_answer(&answer)) {
            Ok(Value::Object(answer)) if answer.contains_key("done") => {
                answer["done"].as_str().unwrap_or("done").to_owned()
            }
            Ok(_) => "the answer is invalid".to_owned(),
            Err(error) => format!("{error:#}"),
        }
    }
}

/// Address of the server of a run, if the server has the recorded instance. Without this check, another run with the
/// same address could be shown, stopped or sent a token.
fn served(run: &Store) -> Option<ListenAddress> {
    let (bytes, _) = run.get_with_stat(ADDRESS).ok()??;
    let written: Value = serde_json::from_slice(&bytes).ok()?;
    let address = ListenAddress::parse(written["address"].as_str()?).ok()?;
    let status = get(&address, "/status").ok()?;
    (written["instance"].is_string() && status["instance"] == written["instance"]).then_some(address)
}

fn get(address: &ListenAddress, path: &str) -> anyhow::Result<Value> {
    exchange(address, &format!("GET {path}"), "").and_then(|answer| parse_answer(&answer))
}

/// JSON of a successful answer. Otherwise the reason in the answer.
fn parse_answer(answer: &str) -> anyhow::Result<Value> {
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is truncated")?;
    let code = head.split(' ').nth(1).unwrap_or_default();
    if code == "200" {
        // `/livez` is not JSON.
        return Ok(serde_json::from_str(body).unwrap_or(Value::Null));
    }
    let why = serde_json::from_str::<Value>(body).ok().and_then(|body| body["error"].as_str().map(str::to_owned));
    Err(anyhow!("{code}: {}", why.unwrap_or_else(|| "no reason given".to_owned())))
}

/// One HTTP/1.0 request. The answer ends with the connection.
fn exchange(address: &ListenAddress, line: &str, more: &str) -> anyhow::Result<String> {
    match address {
        ListenAddress::Tcp(to) => {
            let stream = TcpStream::connect_timeout(to, TIMEOUT).with_context(|| address.to_string())?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            send_request(stream, TcpStream::set_read_timeout, &to.to_string(), (line, more))
        }
        ListenAddress::Socket(path) => {
            let stream = UnixStream::connect(path).with_context(|| address.to_string())?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            send_request(stream, UnixStream::set_read_timeout, "localhost", (line, more))
        }
    }
}

fn send_request<S: Read + Write>(
    mut stream: S,
    read_within: fn(&S, Option<Duration>) -> io::Result<()>,
    host: &str,
    (line, more): (&str, &str),
) -> anyhow::Result<String> {
    let begun = Instant::now();
    // One write. The answer of a server that refuses early is read nevertheless.
    let sent = stream.write_all(format!("{line} HTTP/1.0\r\nHost: {host}\r\n{more}\r\n").as_bytes());
    let mut answer = Vec::new();
    let mut buffer = [0; 1 << 13];
    while answer.len() < ANSWER_MAX {
        // The timeout applies to the whole answer, so that a server that sends one byte per second cannot block.
        let left = TIMEOUT.saturating_sub(begun.elapsed());
        if left.is_zero() {
            bail!("no answer within {} s", TIMEOUT.as_secs());
        }
        read_within(&stream, Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
            Err(_) if !answer.is_empty() && sent.is_err() => break,
            Err(error) => return Err(sent.err().unwrap_or(error).into()),
        }
    }
    if answer.is_empty() {
        bail!("empty answer");
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
