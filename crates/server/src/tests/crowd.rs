//! Many clients, and those that take what they can.

use super::*;

#[test]
fn a_thousand_connections_and_slow_ones_keep_nobody_else_out_for_long() {
    let home = serving();
    let silent: Vec<_> = (0..1000).filter_map(|_| TcpStream::connect(home.at).ok()).collect();
    assert!(silent.len() > CONNECTIONS as usize);
    // They say nothing, and are sent away after a while.
    let begun = Instant::now();
    while code(&ask(home.at, "GET /livez", "")) != 200 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody else is let in");
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(silent);
    // A body that never comes costs its sender a place for a while, and nobody else anything.
    let mut slow = TcpStream::connect(home.at).expect("somebody listens");
    write!(
        slow,
        "POST /note HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 5\r\n\r\nab",
        home.at
    )
    .expect("asked");
    assert_eq!(code(&ask(home.at, "GET /livez", "")), 200);
    // More listeners than there may be are told so, and those that there are stay.
    let listening: Vec<_> = (0..LISTENERS)
        .map(|_| {
            let mut stream = TcpStream::connect(home.at).expect("somebody listens");
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
fn a_probe_is_let_in_where_every_place_is_taken() {
    let home = serving();
    let half = |_| {
        let mut stream = TcpStream::connect(home.at).expect("somebody listens");
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
fn what_is_asked_of_a_run_waits_for_nobody_who_looks() {
    let home = serving();
    let gate = home.played.gate.lock().expect("nobody panics");
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

/// Every series of a counter.
fn totals(metrics: &str) -> Vec<(String, f64)> {
    let lines = metrics.lines().filter(|line| !line.starts_with('#') && line.contains("_total"));
    lines
        .map(|line| line.rsplit_once(' ').expect("a value"))
        .map(|(name, value)| (name.to_owned(), value.parse().expect("a number")))
        .collect()
}

#[test]
fn no_counter_falls_whatever_a_run_does() {
    let home = serving();
    let mut ear = home.seen.observer();
    let mut before: Vec<(String, f64)> = Vec::new();
    let at = Position { step: Some(Step(10)), rows_seen: Some(80), tokens_seen: Some(900), ..Position::default() };
    let resume = Clock::system().event(at, EventKind::Resume(ResumeReport { place: "runs/a".to_owned() }));
    // It validates, continues, and goes back.
    for (event, is_validating) in [
        (report(10, 1.0), false),
        (report(20, 1.0), true),
        (report(30, 1.0), false),
        (resume, false),
        (report(15, 1.0), true),
        (report(20, 1.0), false),
    ] {
        home.played.is_validating.store(is_validating, Ordering::Relaxed);
        ear.observe(&event);
        let metrics = ask(home.at, "GET /metrics", "");
        let now = totals(&metrics);
        for (name, value) in &now {
            let last = before.iter().find(|(known, _)| known == name).map_or(0.0, |(_, last)| *last);
            assert!(*value >= last, "{name} fell from {last} to {value}");
        }
        before = now;
    }
    let tokens = before.iter().find(|(name, _)| name == "cloze_tokens_total").expect("counted").1;
    assert!((tokens - (2700.0 + 900.0)).abs() < 1e-9, "30 steps, and 10 done again: {tokens}");
    let metrics = ask(home.at, "GET /metrics", "");
    assert!(metrics.contains("cloze_tokens_seen 1800"), "{metrics}");
}

#[test]
fn what_listeners_append_is_what_the_history_has() {
    let home = serving();
    home.seen.beside(|| vec![("queue/fill", 0.25)]);
    let mut ear = home.seen.observer();
    let begun = home.seen.live.last();
    (1..=3).for_each(|step| ear.observe(&report(step, f64::from(u32::try_from(step).expect("small")))));
    let Since::Messages(messages) = home.seen.live.since(&begun) else { panic!("nothing is lost") };
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
        for (name, of) in series {
            let [mean, min, max] = ["mean", "min", "max"].map(|part| of[part][row].clone());
            assert_eq!(point["values"][name], json!([mean, min, max]), "{name}");
        }
        assert_eq!(point["values"]["queue/fill"][0], 0.25);
    }
}

#[test]
fn every_metric_is_in_the_documents() {
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
