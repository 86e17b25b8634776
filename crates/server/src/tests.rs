//! Tests of the server with real sockets and hostile requests.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use schemas::Step;
use serde_json::{Value, json};
use store::{FaultConfig, Store};
use telemetry::training::{Figures, RankReport, ResumeReport, Speed, StepReport};
use telemetry::{Clock, Event, EventKind, Position};

use crate::backend::{ActorStatus, ApiError};
use crate::broadcast::ReadResult;
use crate::limits::{CONNECTIONS, LISTENERS};
use crate::{Action, Backend, Health, Kind, ListenAddress, RunInfo, RunState, ServeConfig, Server, Status};

mod crowd;
mod socket;

const TOKEN: &str = "a-token-of-the-tests";
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\u{1b}[2J";

/// Backend with fixed answers that records actions.
#[derive(Default)]
struct Played {
    asked: Mutex<Vec<Action>>,
    /// A test holds this lock to block the reading of another run's history.
    gate: Mutex<()>,
    is_validating: AtomicBool,
}

impl Backend for Played {
    fn status(&self) -> Status {
        let actor = ActorStatus {
            name: "worker-0".to_owned(),
            doing: "busy",
            busy_s: 2.0,
            wall_s: 2.0,
            capacity: 2,
            ..ActorStatus::default()
        };
        Status {
            kind: "train",
            phase: "step".to_owned(),
            validation: if self.is_validating.load(Ordering::Relaxed) {
                vec![ActorStatus { name: "valid-0".to_owned(), ..actor.clone() }]
            } else {
                Vec::new()
            },
            actors: vec![actor],
            actions: self.actions(),
            ..Status::default()
        }
    }

    fn health(&self) -> Health {
        Health { live: Ok(()), ready: Err("no step is done yet".to_owned()), started: Ok(()) }
    }

    fn config(&self) -> Result<Value, ApiError> {
        Ok(json!({ "keys": [], "toml": "" }))
    }

    fn rows(&self, count: usize) -> Result<Value, ApiError> {
        Ok(json!({ "rows": vec![HOSTILE; count] }))
    }

    fn runs(&self) -> Value {
        json!({ "runs": [] })
    }

    fn history_of(&self, run: &str) -> Result<String, ApiError> {
        drop(self.gate.lock());
        Err(ApiError::Unknown(format!("no run `{run}` is next to this one")))
    }

    fn actions(&self) -> &'static [&'static str] {
        &["checkpoint", "stop", "note"]
    }

    fn execute(&self, action: Action) -> Result<String, ApiError> {
        self.asked.lock().expect("no panic under the lock").push(action);
        Ok("it will be done".to_owned())
    }
}

struct Home {
    at: SocketAddr,
    seen: Arc<RunState>,
    played: Arc<Played>,
    _server: Server,
    _token: tempfile::NamedTempFile,
}

fn about() -> RunInfo {
    RunInfo { kind: Kind::Train, name: HOSTILE.to_owned(), place: "runs/a".to_owned(), program: "cloze 1".to_owned() }
}

fn serving() -> Home {
    let mut token = tempfile::NamedTempFile::new().expect("a temporary file");
    writeln!(token, "{TOKEN}").expect("written");
    let config =
        ServeConfig { address: "127.0.0.1:0".to_owned(), token_file: token.path().into(), allowed_hosts: Vec::new() };
    let seen = RunState::new(about());
    let played = Arc::<Played>::default();
    let (sender, heard) = sync_channel(1);
    let on_bound = move |address: &ListenAddress| sender.send(address.clone()).expect("heard");
    let server =
        Server::start(&config, &seen, Arc::clone(&played) as _, on_bound).expect("started").expect("an address");
    let ListenAddress::Tcp(at) = heard.recv_timeout(Duration::from_secs(10)).expect("bound") else {
        panic!("TCP was asked for")
    };
    Home { at, seen, played, _server: server, _token: token }
}

/// Sends a request and reads the response until the server closes the connection.
fn exchange(at: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(at).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    // If the server refuses early, the connection may be closed.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn ask(at: SocketAddr, line: &str, more: &str) -> String {
    exchange(at, format!("{line} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n{more}\r\n").as_bytes())
}

fn code(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

fn report(step: u64, loss: f64) -> Event {
    let figures = Figures {
        loss,
        terms: [("mlm".to_owned(), loss)].into(),
        metrics: [("mlm.accuracy".to_owned(), 0.5)].into(),
        lr: 1e-4,
        grad_norm: 1.0,
        skipped: 0,
    };
    let speed = Speed {
        tokens_per_s: 1e5,
        steps_per_s: None,
        mfu: None,
        data_wait: 0.1,
        checkpoint_stall: 0.0,
        eta_s: Some(60.0),
    };
    let report = json!({ "batch_hash": "ab" });
    let mut fields = serde_json::to_value(figures).expect("plain");
    for more in [serde_json::to_value(speed).expect("plain"), report] {
        fields.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    }
    let report: StepReport = serde_json::from_value(fields).expect("a report");
    let at =
        Position { step: Some(Step(step)), epoch: Some(0.5), rows_seen: Some(8 * step), tokens_seen: Some(90 * step) };
    Clock::system().event(at, EventKind::Report(report))
}

#[test]
fn every_route_is_answered() {
    let home = serving();
    home.seen.observer().observe(&report(10, 2.5));
    for path in ["/", "/history", "/status", "/config", "/runs", "/rows?count=2", "/metrics", "/livez", "/startupz"] {
        assert_eq!(code(&ask(home.at, &format!("GET {path}"), "")), 200, "{path}");
    }
    let ready = ask(home.at, "GET /readyz", "");
    assert_eq!((code(&ready), body(&ready)), (503, "no step is done yet\n"));
    let history: Value = serde_json::from_str(body(&ask(home.at, "GET /history", ""))).expect("JSON");
    assert_eq!(history["reports"]["series"]["loss"]["mean"], json!([2.5]));
    assert_eq!(history["name"], HOSTILE);
    let metrics = ask(home.at, "GET /metrics", "");
    for line in [
        "cloze_loss 2.5",
        "cloze_term_loss{term=\"mlm\"} 2.5",
        "cloze_actor_seconds_total{actor=\"worker-0\",doing=\"busy\"} 2",
        "cloze_tokens_total 900",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let page = ask(home.at, "GET /", "");
    assert!(
        page.to_ascii_lowercase().contains("content-security-policy: default-src 'none'; script-src 'sha256-"),
        "{page}"
    );
}

#[test]
fn hostile_requests_are_refused_and_the_next_is_answered() {
    let home = serving();
    let at = home.at;
    let host = format!("Host: {at}\r\nConnection: close\r\n");
    let cases: [(String, u16); 25] = [
        ("GET /../../etc/passwd HTTP/1.1\r\n".to_owned() + &host + "\r\n", 404),
        ("GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n".to_owned() + &host + "\r\n", 404),
        ("GET //etc/passwd HTTP/1.1\r\n".to_owned() + &host + "\r\n", 404),
        ("GET /history?run=../../secret HTTP/1.1\r\n".to_owned() + &host + "\r\n", 404),
        ("GET /status HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n".to_owned(), 403),
        ("GET /status HTTP/1.1\r\n".to_owned() + &host + "Origin: http://evil.example\r\n\r\n", 403),
        ("GET /status HTTP/1.1\r\nConnection: close\r\n\r\n".to_owned(), 403),
        (format!("GET http://evil.example/status HTTP/1.1\r\n{host}\r\n"), 403),
        (format!("GET http://localhost@evil.example:80/status HTTP/1.1\r\n{host}\r\n"), 403),
        (format!("GET http://{at}/status HTTP/1.1\r\n{host}\r\n"), 200),
        ("POST /stop HTTP/1.1\r\n".to_owned() + &host + "Content-Length: 0\r\n\r\n", 401),
        (
            "POST /stop HTTP/1.1\r\n".to_owned() + &host + "Authorization: Bearer wrong\r\nContent-Length: 0\r\n\r\n",
            401,
        ),
        ("DELETE / HTTP/1.1\r\n".to_owned() + &host + "\r\n", 405),
        ("OPTIONS /stop HTTP/1.1\r\n".to_owned() + &host + "Origin: http://evil.example\r\n\r\n", 403),
        (format!("GET /status HTTP/1.1\r\n{host}Host: evil.example\r\n\r\n"), 400),
        (format!("GET /status HTTP/1.1\r\n{host}Origin: http://{at}\r\nOrigin: http://evil.example\r\n\r\n"), 400),
        (format!("GET /rows?count=-1 HTTP/1.1\r\n{host}\r\n"), 400),
        (format!("GET /events?after=1&after=2 HTTP/1.1\r\n{host}\r\n"), 400),
        (format!("POST /log-level HTTP/1.1\r\n{host}Content-Length: 4\r\n\r\nwarn"), 404),
        ("GET /stop HTTP/1.1\r\n".to_owned() + &host + "\r\n", 405),
        (
            format!("POST /note HTTP/1.1\r\n{host}Authorization: Bearer {TOKEN}\r\nContent-Length: 99999\r\n\r\n")
                + &"x".repeat(99_999),
            413,
        ),
        (
            format!(
                "POST /note HTTP/1.1\r\n{host}Authorization: Bearer {TOKEN}\r\nContent-Length: 2\r\n\r\n\u{1b}\u{1b}"
            ),
            200,
        ),
        (
            format!("POST /log-level HTTP/1.1\r\n{host}Authorization: Bearer {TOKEN}\r\nContent-Length: 4\r\n\r\nwarn"),
            404,
        ),
        (format!("GET / HTTP/1.1\r\n{host}X: {}\r\n\r\n", "x".repeat(64 << 10)), 431),
        ("nonsense\r\n\r\n".to_owned(), 400),
    ];
    for (request, expected) in cases {
        let answer = exchange(at, request.as_bytes());
        let shown: String = request.chars().take(80).collect();
        assert_eq!(code(&answer), expected, "{shown:?}: {answer}");
        assert!(!answer.contains(TOKEN), "{shown:?}");
        assert_eq!(code(&ask(at, "GET /status", "")), 200, "after {shown:?}");
    }
    assert_eq!(*home.played.asked.lock().expect("no panic under the lock"), [Action::Note("\u{1b}\u{1b}".to_owned())]);
}

#[test]
fn refusals_of_layers_have_a_text_and_headers() {
    let home = serving();
    let head =
        format!("POST /note HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\n", home.at);
    let announced = format!("{head}Content-Length: 4097\r\n\r\n");
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n1001\r\n{}\r\n0\r\n\r\n", "x".repeat(4097));
    // The rest of the body never arrives.
    let silent = format!("{head}Content-Length: 5\r\n\r\nab");
    for (request, expected, text) in [
        (announced, 413, "the request body is larger than 4096 bytes"),
        (chunked, 413, "the request body is larger than 4096 bytes"),
        (silent, 408, "the request body did not arrive in time"),
    ] {
        let answer = exchange(home.at, request.as_bytes());
        assert_eq!(
            (code(&answer), body(&answer)),
            (expected, json!({ "error": text }).to_string().as_str()),
            "{answer}"
        );
        let answer = answer.to_ascii_lowercase();
        for header in [
            "cache-control: no-store",
            "content-security-policy: default-src 'none'; frame-ancestors 'none'",
            "cross-origin-resource-policy: same-origin",
            "referrer-policy: no-referrer",
            "x-content-type-options: nosniff",
        ] {
            assert!(answer.contains(&format!("\n{header}\r")), "{header}: {answer}");
        }
    }
}

#[test]
fn a_stop_with_the_token_reaches_the_backend() {
    let home = serving();
    let answer = ask(home.at, "POST /stop", &format!("Authorization: Bearer {TOKEN}\r\nContent-Length: 0\r\n"));
    assert_eq!((code(&answer), body(&answer)), (200, "{\"done\":\"it will be done\"}"));
    assert_eq!(*home.played.asked.lock().expect("no panic under the lock"), [Action::Stop]);
}

/// Reads `events` events and returns their `id` and `event` lines.
fn listen(at: SocketAddr, after: &str, events: usize) -> Vec<String> {
    let mut stream = TcpStream::connect(at).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    let place = if after.is_empty() { String::new() } else { format!("Last-Event-ID: {after}\r\n") };
    write!(stream, "GET /events HTTP/1.1\r\nHost: {at}\r\n{place}\r\n").expect("asked");
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while text.matches("\n\n").count() < events {
        let read = stream.read(&mut buffer).expect("in time");
        assert!(read > 0, "the stream ended: {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    text.lines().filter(|line| line.starts_with("id: ") || line.starts_with("event: ")).map(str::to_owned).collect()
}

#[test]
fn an_event_stream_continues_at_the_last_position() {
    let home = serving();
    let mut observer = home.seen.observer();
    let begun = home.seen.live.last().to_string();
    (1..=3).for_each(|step| observer.observe(&report(step, 1.0)));
    let ids = listen(home.at, &begun, 3);
    assert_eq!(ids.len(), 3, "{ids:?}");
    let second = ids[1].trim_start_matches("id: ");
    assert_eq!(listen(home.at, second, 1), ids[2..]);
    // A position of another process: the client reloads.
    assert!(listen(home.at, "f00f-7", 1).contains(&"event: reset".to_owned()));
    assert!(listen(home.at, "nonsense", 1).contains(&"event: reset".to_owned()));
}

#[test]
fn events_before_a_resume_are_shown_and_discarded_ones_are_not() {
    let store = Store::in_memory(FaultConfig::none());
    let mut log = store::Log::open(&store, telemetry::jsonl::LOG).expect("a log");
    let mut push = |event: &Event| log.push(&telemetry::jsonl::line(event)).expect("kept");
    push(&report(10, 3.0));
    push(&report(20, 2.0));
    let at = Position { step: Some(Step(20)), ..Position::default() };
    let resume = Clock::system().event(at, EventKind::Resume(ResumeReport { place: "runs/a".to_owned() }));
    push(&resume);
    push(&report(30, 1.0));
    log.flush().expect("kept");
    let seen = RunState::new(about());
    seen.goes_on_in(&store);
    let mut observer = seen.observer();
    let before = seen.live.last();
    observer.observe(&report(40, 9.0));
    observer.observe(&resume);
    observer.observe(&report(30, 1.0));
    let history: Value = serde_json::from_slice(&seen.history()).expect("JSON");
    assert_eq!(history["reports"]["step"], json!([10, 20, 30]));
    assert_ne!(history["boot"], json!(&*before.boot), "listeners reload");
}

#[test]
fn the_history_has_the_ranks_of_the_newest_report() {
    let seen = RunState::new(about());
    let mut observer = seen.observer();
    let ranks = || serde_json::from_slice::<Value>(&seen.history()).expect("JSON")["ranks"].clone();
    observer.observe(&report(10, 3.0));
    assert!(ranks().is_null(), "a single process");
    for (step, rank_wait) in [(20, 0.25), (30, 0.5)] {
        let mut event = report(step, 2.0);
        let EventKind::Report(report) = &mut event.what else { unreachable!("a report") };
        report.ranks = vec![RankReport {
            rank: 0,
            host: HOSTILE.to_owned(),
            step_s: 0.125,
            data_wait: 0.0,
            checkpoint_stall: 0.0,
            rank_wait,
            host_bytes: Some(4096),
        }];
        observer.observe(&event);
        assert_eq!((&ranks()[0]["rank_wait"], &ranks()[0]["host"]), (&json!(rank_wait), &json!(HOSTILE)));
    }
}
