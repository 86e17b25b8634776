//! Where a run is looked at: its server, or its folder.

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

/// How long a server may take: it is asked while somebody waits for a key to be felt.
const PATIENCE: Duration = Duration::from_secs(3);

/// The longest answer that is read: a history is two megabytes at the most.
const ANSWER_MAX: usize = 64 << 20;

/// Who answers.
pub(super) enum Source {
    Served(ListenAddress),
    Folder(Store, Box<server::About>),
}

impl Source {
    /// The run of that folder, or at that address.
    pub(super) fn find(target: &str) -> anyhow::Result<Self> {
        let folder = Path::new(target);
        if !folder.is_dir() {
            let nothing = |why: &str| Usage(format!("{target}: no folder of a run is here, and {why}"));
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

    /// All that was said.
    pub(super) fn history(&self) -> anyhow::Result<Value> {
        match self {
            Self::Served(address) => get(address, "/history"),
            Self::Folder(store, about) => Ok(serde_json::from_str(&server::report::history_of(about, store))?),
        }
    }

    /// What all do now, where somebody answers.
    pub(super) fn status(&self) -> Option<Value> {
        match self {
            Self::Served(address) => get(address, "/status").ok(),
            Self::Folder(..) => None,
        }
    }

    /// Asks for something; what came of it in words.
    pub(super) fn ask(&self, action: &str) -> String {
        let Self::Served(address) = self else {
            return "nobody serves this run; nothing can be asked of it".to_owned();
        };
        let token = std::env::var(telemetry::secret::SERVER_TOKEN).unwrap_or_default();
        let token =
            if token.is_empty() { String::new() } else { format!("Authorization: Bearer {}\r\n", token.trim()) };
        let answer = exchange(address, &format!("POST /{action}"), &format!("{token}Content-Length: 0\r\n"));
        match answer.and_then(|answer| said(&answer)) {
            Ok(Value::Object(answer)) if answer.contains_key("done") => {
                answer["done"].as_str().unwrap_or("done").to_owned()
            }
            Ok(_) => "it answers what nobody understands".to_owned(),
            Err(error) => format!("{error:#}"),
        }
    }
}

/// Where a run is served, if who answers there is who wrote it down: it may have ended, and another may have its address
/// by now, which is not to be shown, stopped, or told a token in its place.
fn served(run: &Store) -> Option<ListenAddress> {
    let (bytes, _) = run.read_with_stat(ADDRESS).ok()??;
    let written: Value = serde_json::from_slice(&bytes).ok()?;
    let address = ListenAddress::parse(written["address"].as_str()?).ok()?;
    let status = get(&address, "/status").ok()?;
    (written["instance"].is_string() && status["instance"] == written["instance"]).then_some(address)
}

fn get(address: &ListenAddress, path: &str) -> anyhow::Result<Value> {
    exchange(address, &format!("GET {path}"), "").and_then(|answer| said(&answer))
}

/// The JSON of an answer that is one; else what it says of itself.
fn said(answer: &str) -> anyhow::Result<Value> {
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is cut")?;
    let code = head.split(' ').nth(1).unwrap_or_default();
    if code == "200" {
        // `/livez` is no JSON.
        return Ok(serde_json::from_str(body).unwrap_or(Value::Null));
    }
    let why = serde_json::from_str::<Value>(body).ok().and_then(|body| body["error"].as_str().map(str::to_owned));
    Err(anyhow!("{code}: {}", why.unwrap_or_else(|| "no reason is given".to_owned())))
}

/// One request by HTTP/1.0, whose answer ends with the connection.
fn exchange(address: &ListenAddress, line: &str, more: &str) -> anyhow::Result<String> {
    match address {
        ListenAddress::Tcp(to) => {
            let stream = TcpStream::connect_timeout(to, PATIENCE).with_context(|| address.to_string())?;
            stream.set_write_timeout(Some(PATIENCE))?;
            spoken(stream, TcpStream::set_read_timeout, &to.to_string(), (line, more))
        }
        ListenAddress::Socket(path) => {
            let stream = UnixStream::connect(path).with_context(|| address.to_string())?;
            stream.set_write_timeout(Some(PATIENCE))?;
            spoken(stream, UnixStream::set_read_timeout, "localhost", (line, more))
        }
    }
}

fn spoken<S: Read + Write>(
    mut stream: S,
    read_within: fn(&S, Option<Duration>) -> io::Result<()>,
    host: &str,
    (line, more): (&str, &str),
) -> anyhow::Result<String> {
    let begun = Instant::now();
    // In one piece, and whoever refuses it early is heard nevertheless.
    let sent = stream.write_all(format!("{line} HTTP/1.0\r\nHost: {host}\r\n{more}\r\n").as_bytes());
    let (mut answer, mut buffer) = (Vec::new(), [0; 1 << 13]);
    while answer.len() < ANSWER_MAX {
        // Of all of it together: one that says a byte a second is nobody's server.
        let left = PATIENCE.saturating_sub(begun.elapsed());
        if left.is_zero() {
            bail!("it takes longer than {} s", PATIENCE.as_secs());
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
        bail!("it answers nothing");
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
