//! Tests with many clients, slow clients and clients that exhaust the limits.

use super::*;

#[test]
fn a_thousand_idle_connections_and_slow_ones_block_others_only_briefly() {
    let home = serving();
    let silent: Vec<_> = (0..1000).filter_map(|_| TcpStream::connect(home.at).ok()).collect();
    assert!(silent.len() > CONNECTIONS as usize);
    // Idle connections are closed after a timeout.
    let begun = Instant::now();
    while code(&ask(home.at, "GET /livez", "")) != 200 {
        assert!(begun.elapsed() < Duration::from_secs(60), "no other client is answered");
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(silent);
    // A body that never arrives occupies one slot until the timeout, and does not affect other clients.
    let mut slow = TcpStream::connect(home.at).expect("the server listens");
    write!(
        slow,
        "POST /note HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 5\r\n\r\nab",
        home.at
    )
    .expect("asked");
    assert_eq!(code(&ask(home.at, "GET /livez", "")), 200);
    // Listeners above the limit get status 503; the existing ones stay connected.
    let listening: Vec<_> = (0..LISTENERS)
        .map(|_| {
            let mut stream = TcpStream::connect(home.at).expect("the server listens");
            write!(stream, "GET /events HTTP/1.1\r\nHost: {}\r\n\r\n", home.at).expect("asked");
            let mut first = [0; 12];
            stream.read_exact(&mut first).expect("answered");
            stream
        })
        .collect();
    assert_eq!(code(&ask(home.at, "GET /events", "")), 503);
    drop(listening);
}

#[test]
fn a_probe_is_answered_if_every_slot_is_taken() {
    let home = serving();
    let half = |_| {
        let mut stream = TcpStream::connect(home.at).expect("the server listens");
        write!(stream, "GET /status HTTP/1.1\r\nHost: ").expect("begun");
        stream
    };
    let taken: Vec<TcpStream> = (0..CONNECTIONS).map(half).collect();
    for number in 0..20 {
        assert_eq!(code(&ask(home.at, "GET /livez", "")), 200, "probe {number}");
    }
    drop(taken);
}

#[test]
fn actions_do_not_wait_for_slow_requests() {
    let home = serving();
    let gate = home.played.gate.lock().expect("no panic under the lock");
    std::thread::scope(|scope| {
        let at = home.at;
        let slow = scope.spawn(move || ask(at, "GET /history?run=long", ""));
        std::thread::sleep(Duration::from_millis(300));
        let begun = Instant::now();
        let stop = ask(at, "POST /stop", &format!("Authorization: Bearer {TOKEN}\r\nContent-Length: 0\r\n"));
        assert_eq!(code(&stop), 200, "{stop}");
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        let second = ask(at, "GET /config", "");
        assert!(code(&second) == 503 && second.to_ascii_lowercase().contains("retry-after: "), "{second}");
        assert_eq!(code(&ask(at, "GET /livez", "")), 200);
        drop(gate);
        assert_eq!(code(&slow.join().expect("answered")), 404);
    });
    assert_eq!(code(&ask(home.at, "GET /config", "")), 200);
}

/// Returns every series of every counter.
fn totals(metrics: &str) -> Vec<(String, f64)> {
    let lines = metrics.lines().filter(|line| !line.starts_with('#') && line.contains("_total"));
    lines
        .map(|line| line.rsplit_once(' ').expect("a value"))
        .map(|(name, value)| (name.to_owned(), value.parse().expect("a number")))
        .collect()
}

#[test]
fn no_counter_decreases_after_validations_and_resumes() {
    let home = serving();
    let mut observer = home.seen.observer();
    let mut before: Vec<(String, f64)> = Vec::new();
    let at = Position { step: Some(Step(10)), rows_seen: Some(80), tokens_seen: Some(900), ..Position::default() };
    let resume = Clock::system().event(at, EventKind::Resume(ResumeReport { place: "runs/a".to_owned() }));
    // The run validates, continues, and resumes from an earlier step.
    for (event, is_validating) in [
        (report(10, 1.0), false),
        (report(20, 1.0), true),
        (report(30, 1.0), false),
        (resume, false),
        (report(15, 1.0), true),
        (report(20, 1.0), false),
    ] {
        home.played.is_validating.store(is_validating, Ordering::Relaxed);
        observer.observe(&event);
        let metrics = ask(home.at, "GET /metrics", "");
        let now = totals(&metrics);
        for (name, value) in &now {
            let last = before.iter().find(|(known, _)| known == name).map_or(0.0, |(_, last)| *last);
            assert!(*value >= last, "{name} decreased from {last} to {value}");
        }
        before = now;
    }
    let tokens = before.iter().find(|(name, _)| name == "cloze_tokens_total").expect("counted").1;
    assert!((tokens - (2700.0 + 900.0)).abs() < 1e-9, "30 steps, and 10 repeated: {tokens}");
    let metrics = ask(home.at, "GET /metrics", "");
    assert!(metrics.contains("cloze_tokens_seen 1800"), "{metrics}");
}

#[test]
fn streamed_points_equal_the_points_of_the_history() {
    let home = serving();
    home.seen.with_extra_figures(|| vec![("queue/fill", 0.25)]);
    let mut observer = home.seen.observer();
    let begun = home.seen.live.last();
    (1..=3).for_each(|step| observer.observe(&report(step, f64::from(u32::try_from(step).expect("small")))));
    let ReadResult::Messages(messages) = home.seen.live.since(&begun) else { panic!("no event is dropped") };
    let history: Value = serde_json::from_slice(&home.seen.history()).expect("JSON");
    for (row, message) in messages.iter().enumerate() {
        let event: Value = serde_json::from_str(&message.line).expect("JSON");
        let point = &event["point"];
        assert_eq!(point["of"], "reports");
        for axis in ["step", "tokens", "rows", "hours", "epoch", "time"] {
            assert_eq!(point[axis], history["reports"][axis][row], "{axis}");
        }
        let series = history["reports"]["series"].as_object().expect("figures");
        assert_eq!(point["values"].as_object().expect("figures").len(), series.len());
        for (name, columns) in series {
            let [mean, min, max] = ["mean", "min", "max"].map(|part| columns[part][row].clone());
            assert_eq!(point["values"][name], json!([mean, min, max]), "{name}");
        }
        assert_eq!(point["values"]["queue/fill"][0], 0.25);
    }
}

#[test]
fn every_metric_is_documented() {
    let documents =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md")).expect("a page");
    let source = include_str!("../metrics.rs");
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let names =
        source.split("\"cloze_").skip(1).map(|rest| rest.split(|letter| !is_letter(letter)).next().unwrap_or_default());
    let of_reports =
        telemetry::report_metrics::REPORT_METRICS.iter().filter_map(|metric| metric.prometheus.map(str::to_owned));
    let missing: Vec<String> = names
        .map(|name| format!("cloze_{name}"))
        .chain(of_reports)
        .filter(|name| !documents.contains(&format!("`{name}")))
        .collect();
    assert!(missing.is_empty(), "docs/metrics.md has a table of metrics; it lacks {missing:?}");
}
