mod collector;

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;

use self::collector::{
    OK, Post, Reply, attribute, collector, last_metrics, log_records, points, value, wait_for_metrics,
};
use super::exporter::{Otlp, SHUTDOWN_TIMEOUT};
use super::metrics::{Instrument, instruments};
use super::run_resource::RunResource;
use super::settings::Settings;
use crate::run_metrics::RunMetrics;
use crate::{Event, jsonl};

const SECRET: &str = "s3cr3t-t0ken";

/// Variables of an exporter that sends often.
const QUICK: [(&str, &str); 2] = [("OTEL_METRIC_EXPORT_INTERVAL", "20"), ("OTEL_BLRP_SCHEDULE_DELAY", "20")];

const REPORT: &str = r#""kind":"report","loss":3.5,"terms":{"mlm":3.0,"tc":0.5},"metrics":{"mlm.accuracy":0.25},"lr":0.0001,"grad_norm":0.75,"skipped":1,"batch_hash":"ab","tokens_per_s":745000.0,"steps_per_s":2.5,"mfu":0.5,"data_wait":0.125,"checkpoint_stall":0.25,"eta_s":7500.0,"phases":{"wall":8.5,"data":0.5,"step":1.5,"read":6.0,"validation":0.25,"checkpoint":0.125},"memory":{"allocated_peak_bytes":4096,"reserved_peak_bytes":8192,"total_bytes":16384},"host_bytes":1024"#;
const VALIDATION: &str = r#""kind":"validation","rows":64,"loss":5.25,"terms":{"mlm":5.0},"metrics":{"mlm.accuracy":0.125},"mlm":{"loss":5.5,"accuracy":0.0625,"ln_vocab":8.0,"unigram_cross_entropy":5.75},"seconds":0.75"#;
const WARNING: &str = r#""kind":"warning","topic":"device","message":"another device","hint":"`cpu` then""#;
const LOSS_SPIKE: &str = r#""kind":"loss_spike","spike_step":18,"first_row":144,"rows":8,"figure":"loss","value":9.5,"median":2.25,"sigmas":57.25"#;
const BAD_ROW: &str =
    r#""kind":"bad_row","row":150,"sample":"6:1424","shard":"a","group":2,"row_in_group":4,"documents":[],"why":"no""#;
const STARVED: &str = r#""kind":"starved","by":"prepare","seconds":4.25,"part":11,"parts":256"#;
const CHECKPOINT: &str = r#""kind":"checkpoint","place":"runs/a/checkpoints/20","seconds":1.5,"stall_s":0.5"#;
const START: &str = r#""kind":"start","random":true,"terms":{"mlm":8.0},"expected":{},"unexpected_losses":[]"#;
const RESUME: &str = r#""kind":"resume","place":"runs/a/checkpoints/4""#;
const STOP: &str = r#""kind":"stop","why":"failed","saved":true,"place":"runs/a","error":"the disk is gone""#;
const PROGRESS: &str = r#""kind":"prepare_progress","bytes":500,"bytes_kept":0,"bytes_total":1000,"parts":3,"parts_total":6,"text_bytes":700,"tokens":90,"text_bytes_per_s":7.0,"tokens_per_s":0.9,"eta_s":12.0"#;
const BEGUN: &str = r#""kind":"prepare_start","files":1,"bytes":1000,"parts":6,"workers":2,"text_bytes_max":64,"largest_compressed":null"#;

/// Parses an event at a step of eight rows of ten tokens.
fn event(step: u64, rest: &str) -> Event {
    let at = if rest.contains("prepare") && !rest.contains("starved") {
        String::new()
    } else {
        format!(r#""step":{step},"epoch":1.25,"rows_seen":{},"tokens_seen":{},"#, 8 * step, 80 * step)
    };
    let line = format!(r#"{{"version":2,"time":1700000000123,"elapsed_s":1.5,{at}{rest}}}"#);
    jsonl::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn everything() -> Vec<Event> {
    let run = [START, REPORT, VALIDATION, CHECKPOINT, WARNING, LOSS_SPIKE, BAD_ROW, STARVED, STOP];
    run.iter().map(|rest| event(20, rest)).collect()
}

fn settings(variables: &[(&str, &str)]) -> Option<Settings> {
    let variables: Vec<(String, String)> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Settings::from_environment(|wanted| {
        variables.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
    })
}

/// Starts an exporter that sends often.
fn start(variables: &[(&str, &str)]) -> Otlp {
    let settings = settings(&[variables, &QUICK].concat()).expect("not disabled");
    let name = "runs/a".to_owned();
    let identity = Some("1dent1ty".to_owned());
    Otlp::with_settings(settings, &RunResource { name, identity, steps: Some(40) })
}

/// Exports events and ends. Returns the time that the end took.
fn export(variables: &[(&str, &str)], events: &[Event]) -> Duration {
    let otlp = start(variables);
    let mut reader = otlp.reader();
    let begun = Instant::now();
    for event in events {
        reader.observe(event);
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "an observer never waits: {:?}", begun.elapsed());
    let end = Instant::now();
    drop((reader, otlp));
    end.elapsed()
}

/// Metric, attributes of a point, and its value.
struct Expected<'a>(&'a str, &'a [(&'a str, &'a str)], f64);

#[test]
fn events_of_a_run_reach_the_collector_by_name_and_attribute() {
    let (address, posts) = collector(&[OK], &[OK]);
    let headers = format!("Authorization=Bearer%20{SECRET}, x-tenant = a");
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", address.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", &headers),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=not%20this"),
        ("OTEL_SERVICE_NAME", "bert"),
    ];
    assert!(export(&variables, &everything()) < SHUTDOWN_TIMEOUT);
    let posts: Vec<Post> = posts.try_iter().collect();
    for post in &posts {
        for line in ["content-type: application/x-protobuf", &format!("authorization: bearer {SECRET}"), "x-tenant: a"]
        {
            assert!(post.head.contains(line), "{}", post.head);
        }
    }
    let last = last_metrics(&posts);
    let resource = &last.resource.as_ref().expect("a resource").attributes;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux");
    let expected = [
        ("service.name", "bert"),
        ("service.instance.id", "runs/a"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("cloze.run.identity", "1dent1ty"),
        ("deployment.environment.name", "test"),
        ("host.name", host.trim()),
        ("process.pid", &std::process::id().to_string()),
        ("telemetry.sdk.language", "rust"),
    ];
    for (key, value) in expected {
        assert_eq!(attribute(resource, key), value, "{key}");
    }
    let scope = &last.scope_metrics[0];
    assert_eq!(scope.scope.as_ref().map(|scope| scope.name.as_str()), Some("cloze"));
    let metrics = &scope.metrics;
    let expected: &[Expected<'_>] = &[
        Expected("cloze.loss", &[("split", "train")], 3.5),
        Expected("cloze.loss", &[("split", "valid")], 5.25),
        Expected("cloze.term.loss", &[("split", "train"), ("term", "tc")], 0.5),
        Expected("cloze.term.loss", &[("split", "valid"), ("term", "mlm")], 5.0),
        Expected("cloze.metric", &[("split", "train"), ("metric", "mlm.accuracy")], 0.25),
        Expected("cloze.phase.time", &[("phase", "read")], 6.0),
        Expected("cloze.rows", &[], 160.0),
        Expected("cloze.tokens.seen", &[], 1600.0),
        Expected("cloze.progress", &[], 0.5),
        Expected("cloze.loss_spikes", &[], 1.0),
        Expected("cloze.starved.time", &[], 4.25),
        Expected("cloze.memory.device", &[], 4096.0),
        Expected("cloze.validation.mlm.accuracy", &[], 0.0625),
        Expected("cloze.otlp.lost", &[], 0.0),
    ];
    for Expected(name, with, expected) in expected {
        assert_eq!(value(metrics, name, with).to_bits(), expected.to_bits(), "{name} {with:?}");
    }
    let records = log_records(&posts);
    let lines: Vec<String> = records
        .iter()
        .map(|record| {
            let body = record.body.clone().and_then(|body| body.value);
            let Some(Value::StringValue(body)) = body else { panic!("no body") };
            let [kind, step, row] = ["kind", "step", "row"].map(|key| attribute(&record.attributes, key));
            format!("{} {kind} {step} {row}: {body}", record.severity_text)
        })
        .collect();
    let expected = [
        "INFO start 20 160: step 20  started from random weights: mlm 8.0000",
        "INFO validation 20 160: step 20  valid loss 5.2500 (mlm 5.0000)  valid/mlm 5.5000 (ln V 8.00, unigram 5.75)",
        "INFO checkpoint 20 160: saved checkpoint runs/a/checkpoints/20",
        "WARN warning 20 160: warning: another device; `cpu` then",
        "WARN loss_spike 20 144: warning: loss spike at step 18: loss 9.5000 (median 2.2500, 57 sigma); rows 144 to 151",
        "WARN bad_row 20 150: warning: step 20  row 150 is excluded because it cannot be built (sample 6:1424 = a, row group 2, row 4): no",
        "WARN starved 20 160: step 20  starved by prepare: waited 4.2 s for part 12 of 256",
        "ERROR stop 20 160: failed: the disk is gone",
    ];
    assert_eq!(lines, expected, "a report is metrics only");
    let warning = &records[3];
    assert_eq!((warning.severity_number, warning.time_unix_nano), (13, 1_700_000_000_123_000_000));
    assert_eq!((warning.event_name.as_str(), &*attribute(&warning.attributes, "topic")), ("cloze.warning", "device"));
}

#[test]
fn sums_begin_with_each_process_and_never_decrease() {
    let value = |metrics: &RunMetrics, name: &str| metrics.values(name).next().map(|(_, value)| value);
    let update = |metrics: &mut RunMetrics, events: &[Event]| events.iter().for_each(|event| metrics.update(event));
    let mut first = RunMetrics::new(Some(40));
    update(&mut first, &[event(1, START), event(6, REPORT)]);
    assert_eq!(value(&first, "cloze.rows"), Some(48.0));
    assert_eq!(value(&first, "cloze.warnings"), Some(0.0), "a rate needs the 0");
    // The first process is killed after step 6; the second one resumes from the checkpoint of step 4.
    let mut second = RunMetrics::new(Some(40));
    update(&mut second, &[event(4, RESUME), event(10, REPORT)]);
    assert_eq!(value(&second, "cloze.rows"), Some(48.0));
    assert_eq!(value(&second, "cloze.rows.seen"), Some(80.0));
    // A rollback in the same process: repeated work counts again.
    update(&mut second, &[event(8, RESUME), event(12, REPORT)]);
    assert_eq!(value(&second, "cloze.rows"), Some(80.0));
    assert_eq!(value(&second, "cloze.phase.time"), Some(0.25), "the first is `checkpoint`, of two reports");
    // A value that is not a number leaves a sum as it is.
    let broken = CHECKPOINT.replace("\"seconds\":1.5", "\"seconds\":\"NaN\"");
    update(&mut second, &[event(12, &broken), event(12, CHECKPOINT)]);
    assert_eq!(value(&second, "cloze.checkpoint.write.time"), Some(1.5));
    // Each corpus counts from 0.
    let mut prepared = RunMetrics::new(None);
    update(&mut prepared, &[BEGUN, PROGRESS, PROGRESS, BEGUN, PROGRESS].map(|rest| event(0, rest)));
    assert_eq!(value(&prepared, "cloze.prepare.text"), Some(1400.0));
}

#[test]
fn every_instrument_is_exported_and_documented() {
    let (address, posts) = collector(&[OK], &[OK]);
    let mut events = everything();
    events.extend([event(0, BEGUN), event(0, PROGRESS)]);
    export(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &address)], &events);
    let posts: Vec<Post> = posts.try_iter().collect();
    let metrics = &last_metrics(&posts).scope_metrics[0].metrics;
    let exported: BTreeSet<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(exported, instruments().map(|instrument| instrument.name).collect(), "no others are exported");
    let page = include_str!("../../../../docs/metrics.md");
    for Instrument { name, kind, unit, description, .. } in instruments() {
        let metric = metrics.iter().find(|metric| metric.name == name).expect("it is exported");
        assert_eq!((metric.unit.as_str(), metric.description.as_str()), (unit, description), "{name}");
        let (exported, points) = points(metrics, name).expect("it is exported");
        assert_eq!(exported, kind, "{name}");
        for point in points {
            assert!(0 < point.start_time_unix_nano && point.start_time_unix_nano <= point.time_unix_nano, "{name}");
        }
        assert!(page.contains(&format!("`{name}")), "docs/metrics.md lacks {name}");
    }
}

#[test]
fn a_value_that_is_not_known_is_not_exported() {
    let (address, posts) = collector(&[OK], &[OK]);
    let otlp = start(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &address)]);
    let mut reader = otlp.reader();
    let has = |metrics: &[Metric], name: &str| points(metrics, name).is_some();
    wait_for_metrics(&posts, |metrics| !has(metrics, "cloze.rows") && !has(metrics, "cloze.eta"));
    reader.observe(&event(20, REPORT));
    wait_for_metrics(&posts, |metrics| has(metrics, "cloze.rows") && has(metrics, "cloze.eta"));
    reader.observe(&event(20, &REPORT.replace("\"eta_s\":7500.0", "\"eta_s\":null")));
    wait_for_metrics(&posts, |metrics| has(metrics, "cloze.rows") && !has(metrics, "cloze.eta"));
}

#[test]
fn a_busy_collector_is_asked_again_and_receives_everything_once() {
    // On a busy machine the time may not suffice, so there are several attempts.
    let attempt = || {
        let (address, posts) = collector(
            &[Reply::Status(503, ""), Reply::Status(429, ""), OK],
            &[Reply::Status(503, "retry-after: 1\r\n"), Reply::Status(502, ""), OK],
        );
        let took = export(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &address)], &[event(1, WARNING), event(2, LOSS_SPIKE)]);
        (took < SHUTDOWN_TIMEOUT).then(|| posts.try_iter().collect::<Vec<Post>>())
    };
    let posts = (0..5).find_map(|_| attempt()).expect("one of five is in time");
    let logs: Vec<&Post> = posts.iter().filter(|post| post.is_logs()).collect();
    let wait = logs[1].at - logs[0].at;
    assert!((Duration::from_secs(1)..SHUTDOWN_TIMEOUT).contains(&wait), "`Retry-After` is followed: {wait:?}");
    let metrics = last_metrics(&posts);
    let lost = value(&metrics.scope_metrics[0].metrics, "cloze.otlp.lost", &[]);
    assert_eq!(lost.to_bits(), 0.0_f64.to_bits());
    assert_eq!(value(&metrics.scope_metrics[0].metrics, "cloze.loss_spikes", &[]).to_bits(), 1.0_f64.to_bits());
}

#[test]
fn refused_and_rejected_records_are_lost_and_counted() {
    let refusing = collector(&[OK], &[Reply::Status(400, "")]);
    let rejecting = collector(&[OK], &[Reply::Rejects(i64::MAX)]);
    // The requested delay is longer than the timeout.
    let postponing = collector(&[OK], &[Reply::Status(503, "retry-after: 3600\r\n")]);
    for (address, posts) in [refusing, rejecting, postponing] {
        let otlp = start(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &address)]);
        otlp.reader().observe(&event(1, WARNING));
        let posts = wait_for_metrics(&posts, |metrics| value(metrics, "cloze.otlp.lost", &[]) > 0.0);
        let lost = value(&last_metrics(&posts).scope_metrics[0].metrics, "cloze.otlp.lost", &[]);
        assert_eq!(lost.to_bits(), 1.0_f64.to_bits());
        assert_eq!(posts.iter().filter(|post| post.is_logs()).count(), 1, "it is sent once");
    }
}

#[test]
fn records_beyond_the_queue_are_lost_and_counted() {
    let (address, posts) = collector(&[OK], &[Reply::Never]);
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", address.as_str()), ("OTEL_BLRP_MAX_QUEUE_SIZE", "10")];
    let otlp = start(&variables);
    let mut reader = otlp.reader();
    for step in 0..25 {
        reader.observe(&event(step, WARNING));
    }
    wait_for_metrics(&posts, |metrics| value(metrics, "cloze.otlp.lost", &[]).to_bits() == 15.0_f64.to_bits());
}

#[test]
fn a_collector_that_does_not_answer_delays_the_end_by_a_fixed_time() {
    let (silent, _posts) = collector(&[Reply::Never], &[Reply::Never]);
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it is bound");
    let events: Vec<Event> = (0..3000).map(|step| event(step, WARNING)).collect();
    for (address, timeout) in [(silent.as_str(), "100"), (&silent, "60000"), (&format!("http://{free}"), "1000")] {
        let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", address), ("OTEL_EXPORTER_OTLP_TIMEOUT", timeout)];
        let took = export(&variables, &events);
        assert!(took < SHUTDOWN_TIMEOUT + Duration::from_secs(2), "{timeout}: {took:?}");
    }
}

#[test]
fn settings_are_validated_and_no_secret_is_repeated() {
    let plain = settings(&[]).expect("not disabled");
    let uri = |settings: &Settings| {
        [&settings.metrics, &settings.logs].map(|target| target.as_ref().map(|target| target.uri.to_string()))
    };
    let default = ["metrics", "logs"].map(|signal| Some(format!("http://localhost:4318/v1/{signal}")));
    assert_eq!((uri(&plain), &plain.warnings), (default, &Vec::new()));
    assert_eq!(plain.logs.expect("a target").timeout, Duration::from_secs(10));
    assert_eq!((plain.metric_interval, plain.log_delay), (Duration::from_secs(60), Duration::from_secs(1)));
    assert_eq!((plain.log_queue_size, plain.log_batch_size), (2048, 512));
    assert!(settings(&[("OTEL_SDK_DISABLED", "True")]).is_none());
    assert!(settings(&[("OTEL_SDK_DISABLED", "no")]).is_some());
    let own = settings(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://a:1/base/"),
        ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://b/here"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "k=all"),
        ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "k=logs"),
        ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "250"),
        ("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "18446744073709551615"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "5000"),
    ]);
    let own = own.expect("not disabled");
    assert_eq!(uri(&own), ["https://a:1/base/v1/metrics", "http://b/here"].map(|uri| Some(uri.to_owned())));
    let metrics = own.metrics.expect("a target");
    let logs = own.logs.expect("a target");
    assert_eq!(
        (&metrics.headers["k"], &logs.headers["k"]),
        (&"all".parse().expect("a value"), &"logs".parse().expect("a value"))
    );
    assert_eq!((metrics.timeout, logs.timeout), (Duration::from_millis(250), Duration::from_secs(3600)));
    assert_eq!(own.metric_interval, Duration::from_secs(5));
    let wrong = settings(&[
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &format!("{SECRET}:4318")),
        ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", &format!("http://user:{SECRET}@a/{SECRET}")),
        ("OTEL_EXPORTER_OTLP_HEADERS", &format!("{SECRET},a b={SECRET},c={SECRET}%0A,ok={SECRET}")),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", SECRET),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_RESOURCE_ATTRIBUTES", SECRET),
        ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
        ("OTEL_BLRP_MAX_QUEUE_SIZE", "-1"),
    ]);
    let wrong = wrong.expect("not disabled");
    assert!(wrong.metrics.is_none(), "without an address nothing is sent");
    assert_eq!((wrong.metric_interval, wrong.log_queue_size), (Duration::from_secs(60), 2048));
    assert_eq!(wrong.warnings.len(), 8, "{:#?}", wrong.warnings);
    let shown = format!("{wrong:?} {wrong:#?}");
    assert!(!shown.contains(SECRET), "{shown}");
    let warnings = wrong.warnings.concat();
    for name in ["METRICS_ENDPOINT", "OTLP_HEADERS", "TIMEOUT", "PROTOCOL", "RESOURCE_ATTRIBUTES", "QUEUE_SIZE"] {
        assert!(warnings.contains(name), "{name}: {warnings}");
    }
}
