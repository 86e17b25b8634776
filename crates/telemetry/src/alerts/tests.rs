//! Commands that hang, hosts that listen or do not, storms, and secrets.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};

use schemas::{RowIndex, Step};
use serde_json::Value;

use super::*;
use crate::training::{LossSpikeReport, SpikeMetric, StopReport, Warning, Why};
use crate::{Clock, EventKind, Position};

const TOKEN: &str = "s3cr3t-t0ken";

fn event(what: EventKind) -> Event {
    Clock::still().event(Position { step: Some(Step(7)), ..Position::default() }, what)
}

fn stop() -> Event {
    let (place, error) = ("runs/a".to_owned(), Some("the disk is gone".to_owned()));
    event(EventKind::Stop(StopReport { why: Why::Failed, saved: true, kept: None, place, error, memory: None }))
}

fn leap() -> Event {
    let (spike_step, first_row, figure) = (Step(7), RowIndex(0), SpikeMetric::Loss);
    event(EventKind::LossSpike(LossSpikeReport {
        spike_step,
        first_row,
        rows: 8,
        figure,
        value: 9.5,
        median: 2.0,
        sigmas: 50.0,
    }))
}

fn warning() -> Event {
    event(EventKind::Warning(Warning { topic: "device".to_owned(), message: "another device".to_owned(), hint: None }))
}

fn by_command(script: &str) -> AlertsConfig {
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    AlertsConfig { command, min_free_disk_bytes: 0, ..AlertsConfig::default() }
}

/// Tells these events, and returns when that is over.
fn tell(config: &AlertsConfig, events: &[Event]) -> Duration {
    let begun = Instant::now();
    let alerts = Alerts::start(config, "runs/a", Path::new(".")).expect("threads").expect("somebody is told");
    let mut reader = alerts.reader().expect("somebody is told");
    let told = Instant::now();
    for event in events {
        reader.observe(event);
    }
    assert!(told.elapsed() < Duration::from_secs(1), "never in the way: {:?}", told.elapsed());
    drop(reader);
    drop(alerts);
    begun.elapsed()
}

#[test]
fn a_command_is_given_the_event_and_a_few_words() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let out = home.path().join("out");
    let script = format!(
        "echo noise; echo noise >&2; {{ cat; echo \"$CLOZE_ALERT_TOPIC|$CLOZE_ALERT_RUN|$CLOZE_ALERT_TEXT\"; }} >> {}",
        out.display()
    );
    tell(&by_command(&script), &[leap(), stop()]);
    let text = std::fs::read_to_string(out).expect("it was run");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    let object: Value = serde_json::from_str(lines[0]).expect("JSON");
    assert_eq!((&object["topic"], &object["run"]), (&"loss_spike".into(), &"runs/a".into()));
    assert_eq!((&object["event"]["kind"], &object["event"]["sigmas"]), (&"loss_spike".into(), &50.0.into()));
    assert_eq!(lines[3], "stop|runs/a|runs/a: failed after step 7, which is saved: the disk is gone");
}

#[test]
fn a_command_that_hangs_is_killed_with_what_it_started() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let out = home.path().join("pid");
    // It reads nothing, and has a child that would outlive it.
    let script = format!("sleep 60 & echo $! > {}; wait", out.display());
    let took = tell(&AlertsConfig { timeout_seconds: 1, ..by_command(&script) }, &[stop()]);
    assert!((1.0..3.0).contains(&took.as_secs_f64()), "{took:?}");
    let child = std::fs::read_to_string(out).expect("it was run");
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
    // Whoever is killed is gone when it runs the next time.
    let begun = Instant::now();
    while !(stat().is_empty() || stat().contains(") Z")) {
        assert!(begun.elapsed() < Duration::from_secs(20), "its child lives: {}", stat());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_command_that_is_not_there_or_fails_is_no_reason_to_end() {
    let missing = AlertsConfig { command: vec!["there-is-no-such-program".to_owned()], ..by_command("") };
    assert!(tell(&missing, &[stop(), stop()]) < Duration::from_secs(5));
    let command = Command::of(&by_command("exit 3")).expect("a command");
    let (desk, waiting) = RateLimiter::of(&missing, "runs/a");
    desk.tell(Topic::Stop, "x", None);
    let told = command.tell(&waiting.queue.recv().expect("told"), Instant::now() + Duration::from_secs(5));
    assert_eq!(told, Err("`sh` ended with exit status: 3".to_owned()));
}

#[test]
fn of_a_storm_one_is_told_and_the_rest_counted() {
    let config = AlertsConfig { min_interval_seconds: 3600, ..by_command("") };
    let (desk, waiting) = RateLimiter::of(&config, "runs/a");
    for _ in 0..1000 {
        desk.tell(Topic::Warning, "again", None);
    }
    desk.tell(Topic::LossSpike, "another topic", None);
    desk.tell(Topic::Start, "nobody asked", None);
    let told: Vec<Topic> = waiting.queue.try_iter().map(|alert| alert.topic).collect();
    assert_eq!(told, [Topic::Warning, Topic::LossSpike]);
    // Of ends the last is always told, whatever there is room for.
    (0..100).for_each(|number| desk.tell(Topic::Stop, &format!("over {number}"), None));
    assert_eq!(waiting.queue.try_iter().count(), 32);
    drop(desk);
    let last: Vec<String> = waiting.map(|alert| alert.text).collect();
    assert_eq!(last, ["runs/a: over 99"]);

    let often = AlertsConfig { min_interval_seconds: 0, ..by_command("") };
    let (desk, waiting) = RateLimiter::of(&often, "runs/a");
    (0..40).for_each(|_| desk.tell(Topic::Warning, "again", None));
    assert_eq!(waiting.queue.try_iter().count(), 32);
    desk.tell(Topic::Warning, "again", None);
    let object: Value = serde_json::from_str(&waiting.queue.recv().expect("told").json).expect("JSON");
    assert_eq!(object["held_back"], 8);
}

/// A host that answers each post with that status, or never; what it was sent.
fn host(status: Option<u16>) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/hooks/{TOKEN}", listener.local_addr().expect("it is bound"));
    let (sender, sent) = sync_channel(16);
    runtime::spawn("host", move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut bytes = vec![0; 65_536];
            let (mut length, mut text) = (0, String::new());
            while !text.ends_with('}') {
                length += stream.read(&mut bytes[length..]).expect("a request");
                text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            }
            let _ = sender.send(text);
            match status {
                Some(status) => {
                    let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nlocation: /moved\r\n\r\n");
                    let _ = stream.write_all(answer.as_bytes());
                }
                None => held.push(stream),
            }
        }
    })
    .expect("a thread");
    (address, sent)
}

/// Named by a file.
fn by_webhook(home: &Path, address: &str) -> AlertsConfig {
    let file = home.join("address");
    store::Store::folder(home).expect("there").put("address", format!("{address}\n").as_bytes()).expect("written");
    AlertsConfig { webhook_file: file, min_free_disk_bytes: 0, timeout_seconds: 1, ..AlertsConfig::default() }
}

#[test]
fn a_webhook_is_posted_what_a_command_would_read() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (address, sent) = host(Some(204));
    tell(&by_webhook(home.path(), &address), &[warning(), stop()]);
    let [first, second] = [0, 1].map(|_| sent.recv().expect("posted"));
    assert!(first.starts_with(&format!("POST /hooks/{TOKEN} HTTP/1.1\r\n")), "{first}");
    assert!(first.to_lowercase().contains("content-type: application/json"), "{first}");
    let body =
        |text: &str| serde_json::from_str::<Value>(text.split_once("\r\n\r\n").expect("a body").1).expect("JSON");
    assert_eq!(body(&first)["text"], "runs/a: warning: another device");
    assert_eq!(body(&second)["event"]["error"], "the disk is gone");
}

#[test]
fn what_goes_wrong_with_a_webhook_is_said_without_its_address() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let why = |address: &str| {
        let config = by_webhook(home.path(), address);
        let (desk, waiting) = RateLimiter::of(&config, "runs/a");
        desk.tell(Topic::Stop, "x", None);
        let webhook = Webhook::of(&config).expect("a webhook");
        let begun = Instant::now();
        let told = webhook.tell(&waiting.queue.recv().expect("told"), Instant::now() + Duration::from_secs(1));
        assert!(begun.elapsed() < Duration::from_secs(3), "{address}: {:?}", begun.elapsed());
        let why = told.expect_err(address);
        assert!(!why.contains(TOKEN), "{why}");
        why
    };
    let ((broken, _one), (moved, _two), (silent, _three)) = (host(Some(500)), host(Some(302)), host(None));
    assert_eq!([why(&broken), why(&moved)], ["it answered 500", "it answered 302"]);
    assert_eq!(why(&silent), "there was no answer in time");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it is bound");
    assert_eq!(why(&format!("http://{free}/{TOKEN}")), "connection refused");
    assert!(why(&format!("https://{free}/{TOKEN}")).contains("connection refused"));
    let strange =
        [format!("http://:::/{TOKEN}"), format!("https://a b/{TOKEN}"), format!("ftp://a/{TOKEN}"), TOKEN.into()];
    for address in strange {
        why(&address);
    }
    let config = AlertsConfig { webhook_env: "CLOZE_TEST_NO_SUCH_VARIABLE".to_owned(), ..AlertsConfig::default() };
    let error = Webhook::of(&config).expect("a webhook").address().expect_err("it is not set");
    assert!(error.contains("`CLOZE_TEST_NO_SUCH_VARIABLE`"), "{error}");
}

#[test]
fn a_secret_in_a_wrong_place_is_refused_without_being_repeated() {
    let address = format!("https://hooks.example.org/{TOKEN}");
    let wrong = AlertsConfig {
        command: vec![String::new()],
        webhook_file: PathBuf::from(&address),
        webhook_env: address,
        timeout_seconds: 0,
        ..AlertsConfig::default()
    };
    let problems: Vec<String> = wrong.problems().iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 5, "{problems:?}");
    assert!(!problems.concat().contains(TOKEN), "{problems:?}");
    assert_eq!(AlertsConfig::default().problems(), []);
    assert!(Alerts::start(&AlertsConfig::default(), "runs/a", Path::new(".")).expect("nothing to start").is_none());
}

#[test]
fn a_disk_that_is_nearly_full_is_told() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (desk, waiting) = RateLimiter::of(&by_command(""), "runs/a");
    let looks = disk::look(home.path(), u64::MAX, desk.clone()).expect("a thread");
    let alert = waiting.queue.recv_timeout(Duration::from_secs(5)).expect("it looks at once");
    assert!(alert.topic == Topic::Disk && alert.text.contains("bytes are free"), "{alert:?}");
    drop(looks);
    let _none = disk::look(&home.path().join("nowhere"), u64::MAX, desk).expect("a thread");
    assert!(waiting.queue.recv_timeout(Duration::from_millis(200)).is_err(), "nobody knows");
}
