//! Tests with commands that hang, hosts that do not respond, many alerts, and secrets.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};

use schemas::{RowIndex, Step};
use serde_json::Value;

use super::*;
use crate::training::{LossSpikeReport, SpikeMetric, StopReason, StopReport, Warning};
use crate::{Clock, EventKind, Position};

const TOKEN: &str = "s3cr3t-t0ken";

fn event(what: EventKind) -> Event {
    Clock::still().event(Position { step: Some(Step(7)), ..Position::default() }, what)
}

fn stop() -> Event {
    let place = "runs/a".to_owned();
    let error = Some("the disk is gone".to_owned());
    event(EventKind::Stop(StopReport { why: StopReason::Failed, saved: true, kept: None, place, error, memory: None }))
}

fn loss_spike() -> Event {
    let spike_step = Step(7);
    let first_row = RowIndex(0);
    let figure = SpikeMetric::Loss;
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

/// Raises alerts from events. Returns the time until all are delivered.
fn tell(config: &AlertsConfig, events: &[Event]) -> Duration {
    let begun = Instant::now();
    let alerts = Alerts::start(config, "runs/a", Path::new(".")).expect("threads").expect("a destination");
    let mut reader = alerts.reader().expect("a destination");
    let observing = Instant::now();
    for event in events {
        reader.observe(event);
    }
    assert!(observing.elapsed() < Duration::from_secs(1), "an observer never blocks: {:?}", observing.elapsed());
    drop(reader);
    drop(alerts);
    begun.elapsed()
}

#[test]
fn a_command_receives_the_event_and_environment_variables() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let out = home.path().join("out");
    let script = format!(
        "echo noise; echo noise >&2; {{ cat; echo \"$CLOZE_ALERT_TOPIC|$CLOZE_ALERT_RUN|$CLOZE_ALERT_TEXT\"; }} >> {}",
        out.display()
    );
    tell(&by_command(&script), &[loss_spike(), stop()]);
    let text = std::fs::read_to_string(out).expect("it was run");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    let object: Value = serde_json::from_str(lines[0]).expect("JSON");
    assert_eq!((&object["topic"], &object["run"]), (&"loss_spike".into(), &"runs/a".into()));
    assert_eq!((&object["event"]["kind"], &object["event"]["sigmas"]), (&"loss_spike".into(), &50.0.into()));
    assert_eq!(lines[3], "stop|runs/a|runs/a: failed after step 7, which is saved: the disk is gone");
}

#[test]
fn a_command_that_hangs_is_killed_with_its_children() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let out = home.path().join("pid");
    // The command reads nothing and has a child that would outlive it.
    let script = format!("sleep 60 & echo $! > {}; wait", out.display());
    let took = tell(&AlertsConfig { timeout_seconds: 1, ..by_command(&script) }, &[stop()]);
    assert!((1.0..3.0).contains(&took.as_secs_f64()), "{took:?}");
    let child = std::fs::read_to_string(out).expect("it was run");
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
    // A killed process exits when it is scheduled next.
    let begun = Instant::now();
    while !(stat().is_empty() || stat().contains(") Z")) {
        assert!(begun.elapsed() < Duration::from_secs(20), "its child is alive: {}", stat());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_command_that_is_missing_or_fails_does_not_end_the_run() {
    let missing = AlertsConfig { command: vec!["there-is-no-such-program".to_owned()], ..by_command("") };
    assert!(tell(&missing, &[stop(), stop()]) < Duration::from_secs(5));
    let command = Command::from_config(&by_command("exit 3")).expect("a command");
    let (limiter, waiting) = RateLimiter::new(&missing, "runs/a");
    limiter.notify(AlertTopic::Stop, "x", None);
    let result = command.send(&waiting.queue.recv().expect("an alert"), Instant::now() + Duration::from_secs(5));
    assert_eq!(result, Err("`sh` failed with exit status: 3".to_owned()));
}

#[test]
fn alerts_within_the_interval_are_held_back_and_counted() {
    let config = AlertsConfig { min_interval_seconds: 3600, ..by_command("") };
    let (limiter, waiting) = RateLimiter::new(&config, "runs/a");
    for _ in 0..1000 {
        limiter.notify(AlertTopic::Warning, "again", None);
    }
    limiter.notify(AlertTopic::LossSpike, "another topic", None);
    limiter.notify(AlertTopic::Start, "not configured", None);
    let topics: Vec<AlertTopic> = waiting.queue.try_iter().map(|alert| alert.topic).collect();
    assert_eq!(topics, [AlertTopic::Warning, AlertTopic::LossSpike]);
    // The last alert of the end is always delivered, even if the queue is full.
    (0..100).for_each(|number| limiter.notify(AlertTopic::Stop, &format!("over {number}"), None));
    assert_eq!(waiting.queue.try_iter().count(), 32);
    drop(limiter);
    let last: Vec<String> = waiting.map(|alert| alert.text).collect();
    assert_eq!(last, ["runs/a: over 99"]);

    let often = AlertsConfig { min_interval_seconds: 0, ..by_command("") };
    let (limiter, waiting) = RateLimiter::new(&often, "runs/a");
    (0..40).for_each(|_| limiter.notify(AlertTopic::Warning, "again", None));
    assert_eq!(waiting.queue.try_iter().count(), 32);
    limiter.notify(AlertTopic::Warning, "again", None);
    let object: Value = serde_json::from_str(&waiting.queue.recv().expect("an alert").json).expect("JSON");
    assert_eq!(object["held_back"], 8);
}

/// Starts a host that answers each request with `status`, or never. Returns its address and the requests.
fn host(status: Option<u16>) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/hooks/{TOKEN}", listener.local_addr().expect("it is bound"));
    let (sender, sent) = sync_channel(16);
    runtime::spawn("host", move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut bytes = vec![0; 65_536];
            let mut length = 0;
            let mut text = String::new();
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

/// Returns a configuration whose webhook address is in a file.
fn by_webhook(home: &Path, address: &str) -> AlertsConfig {
    let file = home.join("address");
    store::Store::folder(home).expect("there").put("address", format!("{address}\n").as_bytes()).expect("written");
    AlertsConfig { webhook_file: file, min_free_disk_bytes: 0, timeout_seconds: 1, ..AlertsConfig::default() }
}

#[test]
fn a_webhook_receives_the_json_object_of_the_alert() {
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
fn errors_of_a_webhook_do_not_contain_its_address() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let why = |address: &str| {
        let config = by_webhook(home.path(), address);
        let (limiter, waiting) = RateLimiter::new(&config, "runs/a");
        limiter.notify(AlertTopic::Stop, "x", None);
        let webhook = Webhook::from_config(&config).expect("a webhook");
        let begun = Instant::now();
        let result = webhook.send(&waiting.queue.recv().expect("an alert"), Instant::now() + Duration::from_secs(1));
        assert!(begun.elapsed() < Duration::from_secs(3), "{address}: {:?}", begun.elapsed());
        let why = result.expect_err(address);
        assert!(!why.contains(TOKEN), "{why}");
        why
    };
    let ((broken, _one), (moved, _two), (silent, _three)) = (host(Some(500)), host(Some(302)), host(None));
    assert_eq!(
        [why(&broken), why(&moved)],
        ["the server answered with status 500", "the server answered with status 302"]
    );
    assert_eq!(why(&silent), "timeout: no response");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it is bound");
    assert_eq!(why(&format!("http://{free}/{TOKEN}")), "connection refused");
    assert!(why(&format!("https://{free}/{TOKEN}")).contains("connection refused"));
    let strange =
        [format!("http://:::/{TOKEN}"), format!("https://a b/{TOKEN}"), format!("ftp://a/{TOKEN}"), TOKEN.into()];
    for address in strange {
        why(&address);
    }
    let config = AlertsConfig { webhook_env: "CLOZE_TEST_NO_SUCH_VARIABLE".to_owned(), ..AlertsConfig::default() };
    let error = Webhook::from_config(&config).expect("a webhook").address().expect_err("it is not set");
    assert!(error.contains("`CLOZE_TEST_NO_SUCH_VARIABLE`"), "{error}");
}

#[test]
fn a_misplaced_secret_is_refused_and_not_repeated() {
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
fn low_disk_space_raises_an_alert() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (limiter, waiting) = RateLimiter::new(&by_command(""), "runs/a");
    let disk_check = disk::spawn(home.path(), u64::MAX, limiter.clone()).expect("a thread");
    let alert = waiting.queue.recv_timeout(Duration::from_secs(5)).expect("the first check is immediate");
    assert!(alert.topic == AlertTopic::Disk && alert.text.contains("bytes free"), "{alert:?}");
    drop(disk_check);
    let _none = disk::spawn(&home.path().join("nowhere"), u64::MAX, limiter).expect("a thread");
    assert!(waiting.queue.recv_timeout(Duration::from_millis(200)).is_err(), "unknown free space raises no alert");
}
