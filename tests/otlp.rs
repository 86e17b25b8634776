//! `run.otlp` with a program that has the feature, and with one that lacks it.

use testkit::Home;

#[cfg(not(feature = "otlp"))]
#[test]
fn without_the_feature_the_key_is_a_mistake_that_names_it() {
    let home = Home::with_corpus(20);
    home.run_ok(&["tokenizer", "train"]);
    let refused = home.run(&["prepare", "--set", "run.otlp=true"]);
    assert_eq!(refused.code, Some(2), "{refused}");
    for word in
        ["[run], `otlp`", "feature `otlp`", "cargo build --release -p cloze -p cloze-train --features cloze-train/otlp"]
    {
        assert!(refused.stderr.contains(word), "{refused}");
    }
    home.run_ok(&["prepare", "--set", "run.otlp=false"]);
}

#[cfg(feature = "otlp")]
mod with_the_feature {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc::{Receiver, sync_channel};
    use std::time::Duration;

    use testkit::Outcome;

    use super::Home;

    const SECRET: &str = "s3cr3t-t0ken";

    /// Collector that accepts everything. Each connection is one request.
    fn collector() -> (String, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("it is bound"));
        let (sender, heard) = sync_channel(1000);
        runtime::spawn("collector", move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let wait = stream.set_read_timeout(Some(Duration::from_millis(300)));
                let mut text = String::new();
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    text.push_str(&String::from_utf8_lossy(&buffer[..length]));
                }
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                let _ = sender.send(text);
                wait.expect("a time-out");
            }
        })
        .expect("a thread");
        (address, heard)
    }

    fn prepare(home: &Home, variables: &[(&str, &str)]) -> Outcome {
        let mut command = home.command(&["prepare", "--set", "run.otlp=true"]);
        let outcome = Outcome::new(command.envs(variables.iter().copied()).output().expect("it starts"));
        assert_eq!(outcome.code, Some(0), "{outcome}");
        outcome
    }

    #[test]
    fn collector_receives_a_preparation_and_only_it_the_secret() {
        let home = Home::with_corpus(20);
        home.run_ok(&["tokenizer", "train"]);
        let (address, heard) = collector();
        let headers = format!("api-key={SECRET}");
        let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", address.as_str()), ("OTEL_EXPORTER_OTLP_HEADERS", &headers)];
        let outcome = prepare(&home, &variables);
        let heard: Vec<String> = heard.try_iter().collect();
        let has = |words: &[&str]| heard.iter().any(|post| words.iter().all(|word| post.contains(word)));
        let key = format!("api-key: {SECRET}");
        assert!(has(&["POST /v1/metrics", &key, "cloze.prepare.tokens", "service.instance.id"]), "{heard:?}");
        assert!(has(&["POST /v1/logs", &key, "cloze.prepare_end", "INFO"]), "{heard:?}");
        assert!(!outcome.stdout.contains(SECRET) && !outcome.stderr.contains(SECRET), "{outcome}");
    }

    #[test]
    fn missing_collector_is_reported_once_and_does_not_stop_the_run() {
        let home = Home::with_corpus(20);
        home.run_ok(&["tokenizer", "train"]);
        let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it is bound");
        let address = format!("http://user:{SECRET}@{free}");
        let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", address.as_str())];
        let outcome = prepare(&home, &variables);
        let reports = |what: &str| outcome.stderr.matches(&format!("{what} do not reach the OpenTelemetry")).count();
        assert_eq!((reports("metrics"), reports("log records")), (1, 1), "{outcome}");
        assert!(!outcome.stderr.contains(SECRET) && outcome.stderr.contains("connection refused"), "{outcome}");
        let off = prepare(&home, &[variables[0], ("OTEL_SDK_DISABLED", "true")]);
        assert!(!off.stderr.contains("OpenTelemetry collector:"), "{off}");
    }
}
