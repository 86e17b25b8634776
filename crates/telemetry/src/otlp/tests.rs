use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use prost::Message as _;

use super::beside::{Otlp, PATIENCE};
use super::figures::{Figures, Form, table};
use super::post_office::Pace;
use super::settings::Settings;
use super::speaker::Speaker;
use super::wire::{Data, KeyValue, LogRecord, LogsRequest, Metric, MetricsRequest, Partial, Point, Response, Value};
use crate::{Clock, Event, jsonl};

const SECRET: &str = "s3cr3t-t0ken";

/// Soon, and often.
const QUICK: Pace =
    Pace { every: Duration::from_millis(20), first: Duration::from_millis(20), longest: Duration::from_millis(300) };

const REPORT: &str = r#""kind":"report","loss":3.5,"terms":{"mlm":3.0,"tc":0.5},"metrics":{"mlm.accuracy":0.25},"lr":0.0001,"grad_norm":0.75,"skipped":1,"batch_hash":"ab","tokens_per_s":745000.0,"steps_per_s":2.5,"mfu":0.5,"wait":0.125,"stall":0.25,"eta_s":7500.0,"phases":{"wall":8.5,"data":0.5,"step":1.5,"read":6.0,"validation":0.25,"checkpoint":0.125},"memory":{"allocated_peak_bytes":4096,"reserved_peak_bytes":8192,"total_bytes":16384},"host_bytes":1024"#;
const VALIDATION: &str = r#""kind":"validation","rows":64,"loss":5.25,"terms":{"mlm":5.0},"metrics":{"mlm.accuracy":0.125},"mlm":{"loss":5.5,"accuracy":0.0625,"ln_vocab":8.0,"unigram_entropy":5.75},"seconds":0.75"#;
const WARNING: &str = r#""kind":"warning","topic":"device","message":"another device","hint":"`cpu` then""#;
const LEAP: &str =
    r#""kind":"leap","leapt":18,"first_row":144,"rows":8,"figure":"loss","value":9.5,"median":2.25,"sigmas":57.25"#;
const LEFT_OUT: &str =
    r#""kind":"left_out","row":150,"sample":"6:1424","shard":"a","group":2,"row_in_group":4,"documents":[],"why":"no""#;
const STARVED: &str = r#""kind":"starved","by":"prepare","seconds":4.25,"part":11,"parts":256"#;
const CHECKPOINT: &str = r#""kind":"checkpoint","place":"runs/a/checkpoints/20","seconds":1.5,"stall_s":0.5"#;
const START: &str = r#""kind":"start","random":true,"terms":{"mlm":8.0},"expected":{},"surprises":[]"#;
const RESUME: &str = r#""kind":"resume","place":"runs/a/checkpoints/4""#;
const STOP: &str = r#""kind":"stop","why":"failed","saved":true,"place":"runs/a","error":"the disk is gone""#;
const PROGRESS: &str = r#""kind":"prepare_progress","bytes":500,"bytes_kept":0,"bytes_total":1000,"parts":3,"parts_total":6,"text_bytes":700,"tokens":90,"text_bytes_per_s":7.0,"tokens_per_s":0.9,"eta_s":12.0"#;
const BEGUN: &str = r#""kind":"prepare_start","files":1,"bytes":1000,"parts":6,"lanes":2,"text_bytes_max":64,"largest_compressed":null"#;

/// At a step of eight rows of ten tokens.
fn event(step: u64, rest: &str) -> Event {
    let at = if rest.contains("prepare") && !rest.contains("starved") {
        String::new()
    } else {
        format!(r#""step":{step},"epoch":1.25,"rows_seen":{},"tokens_seen":{},"#, 8 * step, 80 * step)
    };
    let line = format!(r#"{{"version":1,"time":1700000000123,"elapsed_s":1.5,{at}{rest}}}"#);
    jsonl::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn everything() -> Vec<Event> {
    let run = [START, REPORT, VALIDATION, CHECKPOINT, WARNING, LEAP, LEFT_OUT, STARVED, STOP];
    run.iter().map(|rest| event(20, rest)).collect()
}

fn speaker() -> Speaker {
    Speaker { name: "runs/a".to_owned(), identity: Some("1dent1ty".to_owned()), steps: Some(40) }
}

fn settings(variables: &[(&str, &str)]) -> Option<Settings> {
    let variables: Vec<(String, String)> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Settings::of(|wanted| variables.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone()))
}

/// What a collector answers.
#[derive(Clone, Copy)]
enum Reply {
    Status(u16, &'static str),
    /// It took all but so many.
    Rejects(i64),
    Never,
}

const OK: Reply = Reply::Status(200, "");

/// A post.
struct Heard {
    at: Instant,
    head: String,
    body: Vec<u8>,
}

impl Heard {
    fn is_of(&self, signal: &str) -> bool {
        self.head.starts_with(&format!("post /v1/{signal} "))
    }
}

/// A collector that answers the posts to one path in turn, the last reply for ever.
fn collector(metrics: &'static [Reply], logs: &'static [Reply]) -> (String, Receiver<Heard>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("it is bound"));
    let (sender, heard) = sync_channel(10_000);
    let counts = Arc::new(Mutex::new([0, 0]));
    let reply = move |is_logs: bool| {
        let replies = if is_logs { logs } else { metrics };
        let mut counts = counts.lock().expect("nobody panics with it");
        let count = &mut counts[usize::from(is_logs)];
        *count += 1;
        *replies.get(*count - 1).or(replies.last()).expect("a reply")
    };
    let reply = Arc::new(reply);
    runtime::spawn("collector", move || {
        for stream in listener.incoming() {
            let (stream, sender, reply) = (stream.expect("a connection"), sender.clone(), Arc::clone(&reply));
            runtime::spawn("connection", move || serve(stream, &sender, &*reply)).expect("a thread");
        }
    })
    .expect("a thread");
    (address, heard)
}

fn serve(mut stream: TcpStream, sender: &SyncSender<Heard>, reply: &dyn Fn(bool) -> Reply) {
    let mut bytes = Vec::new();
    loop {
        let head_end = loop {
            if let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
                break end + 4;
            }
            if !more(&mut stream, &mut bytes) {
                return;
            }
        };
        let head = String::from_utf8_lossy(&bytes[..head_end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        let end = head_end + length.expect("a length");
        while bytes.len() < end {
            assert!(more(&mut stream, &mut bytes), "half a body");
        }
        let (is_logs, body) = (head.starts_with("post /v1/logs "), bytes[head_end..end].to_vec());
        bytes.drain(..end);
        let _ = sender.send(Heard { at: Instant::now(), head, body });
        let answer = match reply(is_logs) {
            Reply::Status(status, more) => {
                format!("HTTP/1.1 {status} X\r\n{more}content-length: 0\r\n\r\n").into_bytes()
            }
            Reply::Rejects(rejected) => {
                let body = Response { partial: Some(Partial { rejected }) }.encode_to_vec();
                [format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes(), body].concat()
            }
            // Until the other side gives up.
            Reply::Never => continue,
        };
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

fn more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4096];
    let length = stream.read(&mut buffer).unwrap_or(0);
    bytes.extend(&buffer[..length]);
    length > 0
}

/// A metric, attributes of a point, and its value.
type Expected<'a> = (&'a str, &'a [(&'a str, &'a str)], f64);

/// Each of them changes a figure.
fn hear(figures: &mut Figures, events: &[Event]) {
    for event in events {
        assert!(figures.hear(event), "{event:?}");
    }
}

/// Tells events as the watchers would, and ends. How long the end took.
fn tell(variables: &[(&str, &str)], pace: Pace, events: &[Event]) -> Duration {
    let settings = settings(variables).expect("it is allowed");
    let otlp = Otlp::with(settings, &speaker(), pace, Clock::system()).expect("a thread");
    let mut reader = otlp.reader();
    let begun = Instant::now();
    for event in events {
        reader.observe(event);
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "never in the way: {:?}", begun.elapsed());
    let ends = Instant::now();
    drop((reader, otlp));
    ends.elapsed()
}

fn last_metrics(heard: &[Heard]) -> MetricsRequest {
    let last = heard.iter().rfind(|post| post.is_of("metrics")).expect("metrics");
    MetricsRequest::decode(last.body.as_slice()).expect("protobuf")
}

fn records(heard: &[Heard]) -> Vec<LogRecord> {
    let posts = heard.iter().filter(|post| post.is_of("logs"));
    let requests = posts.map(|post| LogsRequest::decode(post.body.as_slice()).expect("protobuf"));
    requests.flat_map(|request| request.of[0].scopes[0].records.clone()).collect()
}

fn said(attributes: &[KeyValue], key: &str) -> String {
    let value = attributes.iter().find(|attribute| attribute.key == key).and_then(|it| it.value.clone()?.value);
    match value {
        Some(Value::Text(text)) => text,
        Some(Value::Int(number)) => number.to_string(),
        Some(Value::Double(number)) => number.to_string(),
        None => "none".to_owned(),
    }
}

/// The points of a metric, with its form.
fn points(metrics: &[Metric], name: &str) -> (Form, Vec<Point>) {
    let metric = metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("no `{name}`"));
    match metric.data.clone().expect("data") {
        Data::Gauge(gauge) => (Form::Gauge, gauge.points),
        Data::Sum(sum) => {
            assert!(sum.is_monotonic && sum.temporality == 2, "{name}");
            (Form::Sum, sum.points)
        }
    }
}

/// The value of the point with that attribute, or of the only one.
fn value(metrics: &[Metric], name: &str, with: &[(&str, &str)]) -> f64 {
    let (_, points) = points(metrics, name);
    let point = points.iter().find(|point| with.iter().all(|(key, value)| said(&point.attributes, key) == *value));
    point.and_then(|point| point.value).unwrap_or_else(|| panic!("no `{name}` with {with:?}"))
}

#[test]
fn what_a_run_says_reaches_the_collector_by_name_and_attribute() {
    let (address, heard) = collector(&[OK], &[OK]);
    let headers = format!("Authorization=Bearer%20{SECRET}, x-tenant = a");
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", address.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", &headers),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=not%20this"),
        ("OTEL_SERVICE_NAME", "bert"),
    ];
    assert!(tell(&variables, QUICK, &everything()) < PATIENCE);
    let heard: Vec<Heard> = heard.try_iter().collect();
    for post in &heard {
        for line in ["content-type: application/x-protobuf", &format!("authorization: bearer {SECRET}"), "x-tenant: a"]
        {
            assert!(post.head.contains(line), "{}", post.head);
        }
    }
    let request = last_metrics(&heard);
    let of = &request.of[0];
    let resource = &of.resource.as_ref().expect("a resource").attributes;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux");
    let expected = [
        ("service.name", "bert"),
        ("service.instance.id", "runs/a"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("cloze.run.identity", "1dent1ty"),
        ("deployment.environment.name", "test"),
        ("host.name", host.trim()),
        ("process.pid", &std::process::id().to_string()),
    ];
    for (key, value) in expected {
        assert_eq!(said(resource, key), value, "{key}");
    }
    let metrics = &of.scopes[0].metrics;
    let expected: &[Expected<'_>] = &[
        ("cloze.loss", &[("split", "train")], 3.5),
        ("cloze.loss", &[("split", "valid")], 5.25),
        ("cloze.term.loss", &[("split", "train"), ("term", "tc")], 0.5),
        ("cloze.term.loss", &[("split", "valid"), ("term", "mlm")], 5.0),
        ("cloze.metric", &[("split", "train"), ("metric", "mlm.accuracy")], 0.25),
        ("cloze.phase.time", &[("phase", "read")], 6.0),
        ("cloze.rows", &[], 160.0),
        ("cloze.tokens.seen", &[], 1600.0),
        ("cloze.progress", &[], 0.5),
        ("cloze.leaps", &[], 1.0),
        ("cloze.starved.time", &[], 4.25),
        ("cloze.memory.device", &[], 4096.0),
        ("cloze.validation.mlm.accuracy", &[], 0.0625),
        ("cloze.otlp.lost", &[], 0.0),
    ];
    for (name, with, expected) in expected {
        assert_eq!(value(metrics, name, with).to_bits(), expected.to_bits(), "{name} {with:?}");
    }
    let unit = |name: &str| metrics.iter().find(|metric| metric.name == name).map(|metric| metric.unit.as_str());
    assert_eq!(["cloze.tokens", "cloze.eta", "cloze.mfu"].map(unit), [Some("{token}"), Some("s"), Some("1")]);
    let records = records(&heard);
    let lines: Vec<String> = records
        .iter()
        .map(|record| {
            let Some(Value::Text(body)) = record.body.clone().and_then(|body| body.value) else { panic!("no body") };
            let attribute = |key| said(&record.attributes, key);
            format!("{} {} {} {}: {body}", record.severity_text, attribute("kind"), attribute("step"), attribute("row"))
        })
        .collect();
    let expected = [
        "INFO start 20 160: step 20  began at random with mlm 8.0000",
        "INFO validation 20 160: step 20  valid loss 5.2500 (mlm 5.0000)  valid/mlm 5.5000 (ln V 8.00, unigram 5.75)",
        "INFO checkpoint 20 160: saved checkpoint runs/a/checkpoints/20",
        "WARN warning 20 160: warning: another device; `cpu` then",
        "WARN leap 20 144: warning: step 18 leapt: loss 9.5000, 2.2500 is usual, 57 sigmas; rows 144 to 151",
        "WARN left_out 20 150: warning: step 20  row 150 is left out, it cannot be made (sample 6:1424 = a, row group 2, row 4): no",
        "WARN starved 20 160: step 20  starved by prepare: 4.2 s until part 12 of 256 was there",
        "ERROR stop 20 160: failed: the disk is gone",
    ];
    assert_eq!(lines, expected, "a report is metrics alone");
    assert_eq!((records[3].severity_number, records[3].time_unix_nano), (13, 1_700_000_000_123_000_000));
    assert_eq!(
        (records[3].event_name.as_str(), said(&records[3].attributes, "topic")),
        ("cloze.warning", "device".into())
    );
}

#[test]
fn sums_begin_anew_with_each_process_and_never_go_back() {
    let of = |figures: &Figures, now: u64, name: &str| {
        let (form, points) = points(&figures.metrics(now), name);
        let point = points[0].clone();
        assert_eq!(form, Form::Sum, "{name}");
        (point.start_time_unix_nano, point.time_unix_nano, point.value)
    };
    let mut first = Figures::new(1000, Some(40));
    hear(&mut first, &[event(1, START), event(6, REPORT)]);
    assert_eq!(of(&first, 2000, "cloze.rows"), (1_000_000_000, 2_000_000_000, Some(48.0)));
    assert_eq!(of(&first, 2000, "cloze.warnings").2, Some(0.0), "a rate needs the 0");
    // It was killed after step 6, and goes on from the checkpoint of step 4.
    let mut second = Figures::new(5000, Some(40));
    hear(&mut second, &[event(4, RESUME), event(10, REPORT)]);
    assert_eq!(of(&second, 6000, "cloze.rows"), (5_000_000_000, 6_000_000_000, Some(48.0)));
    assert_eq!(value(&second.metrics(6000), "cloze.rows.seen", &[]).to_bits(), 80.0_f64.to_bits());
    // In the same process it goes back, as a guard does: what is done again is work too.
    hear(&mut second, &[event(8, RESUME), event(12, REPORT)]);
    assert_eq!(of(&second, 7000, "cloze.rows"), (5_000_000_000, 7_000_000_000, Some(80.0)));
    assert_eq!(of(&second, 7000, "cloze.phase.time").2, Some(0.25), "the first is `checkpoint`, of two reports");
    // A clock that is set back ends no sum before its start.
    assert_eq!(of(&second, 10, "cloze.rows").1, 5_000_000_000);
    // What is no number ends no sum.
    let broken = CHECKPOINT.replace("\"seconds\":1.5", "\"seconds\":\"NaN\"");
    hear(&mut second, &[event(12, &broken), event(12, CHECKPOINT)]);
    assert_eq!(of(&second, 7000, "cloze.checkpoint.write.time").2, Some(1.5));
    // One corpus after another, each counted from nothing.
    let mut prepared = Figures::new(0, None);
    hear(&mut prepared, &[BEGUN, PROGRESS, PROGRESS, BEGUN, PROGRESS].map(|rest| event(0, rest)));
    assert_eq!(of(&prepared, 1, "cloze.prepare.text").2, Some(1400.0));
}

#[test]
fn the_table_has_what_is_said_and_the_page_has_the_table() {
    let mut figures = Figures::new(0, Some(40));
    for event in everything().iter().chain(&[event(0, BEGUN), event(0, PROGRESS)]) {
        figures.hear(event);
    }
    figures.lost(0);
    let metrics = figures.metrics(1);
    let said: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
    let table: Vec<&str> = table().map(|(name, ..)| name).collect();
    assert_eq!(said, table, "each is said, and no other is");
    let page = include_str!("../../../../docs/seen.md");
    let missing: Vec<&&str> = table.iter().filter(|name| !page.contains(&format!("`{name}"))).collect();
    assert!(missing.is_empty(), "docs/seen.md lacks {missing:?}");
}

#[test]
fn who_is_busy_is_asked_again_and_counts_once() {
    // A machine that is so busy itself that patience does not suffice is given another chance.
    let asked = || {
        let (address, heard) = collector(
            &[Reply::Status(503, ""), Reply::Status(429, ""), OK],
            &[Reply::Status(503, "retry-after: 3600\r\n"), Reply::Status(502, ""), OK],
        );
        let took = tell(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &address)], QUICK, &[event(1, WARNING), event(2, LEAP)]);
        (took < PATIENCE).then(|| heard.try_iter().collect::<Vec<Heard>>())
    };
    let heard = (0..5).find_map(|_| asked()).expect("one of five is in time");
    let logs: Vec<&Heard> = heard.iter().filter(|post| post.is_of("logs")).collect();
    let wait = logs[1].at - logs[0].at;
    assert!((QUICK.longest..PATIENCE).contains(&wait), "an hour is too long: {wait:?}");
    let last = LogsRequest::decode(logs.last().expect("posts").body.as_slice()).expect("protobuf");
    assert!(!last.of[0].scopes[0].records.is_empty() && logs.len() >= 3);
    assert_eq!(value(&last_metrics(&heard).of[0].scopes[0].metrics, "cloze.leaps", &[]).to_bits(), 1.0_f64.to_bits());
}

#[test]
fn what_is_refused_or_rejected_is_dropped_and_counted() {
    let (refusing, one) = collector(&[OK], &[Reply::Status(400, "")]);
    let (rejecting, two) = collector(&[OK], &[Reply::Rejects(i64::MAX)]);
    for (address, heard) in [(refusing, one), (rejecting, two)] {
        let settings = settings(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &address)]).expect("allowed");
        let otlp = Otlp::with(settings, &speaker(), QUICK, Clock::system()).expect("a thread");
        let mut reader = otlp.reader();
        reader.observe(&event(1, WARNING));
        let mut posts: Vec<Heard> = Vec::new();
        while posts.iter().filter(|post| post.is_of("logs")).count() < 1 {
            posts.push(heard.recv_timeout(Duration::from_secs(20)).expect("posts"));
        }
        drop((reader, otlp));
        posts.extend(heard.try_iter());
        assert_eq!(posts.iter().filter(|post| post.is_of("logs")).count(), 1, "an answer is an answer");
        let lost = value(&last_metrics(&posts).of[0].scopes[0].metrics, "cloze.otlp.lost", &[]);
        assert_eq!(lost.to_bits(), 1.0_f64.to_bits());
    }
}

#[test]
fn who_never_answers_or_is_not_there_costs_no_more_than_patience() {
    let (silent, _heard) = collector(&[Reply::Never], &[Reply::Never]);
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it is bound");
    let events: Vec<Event> = (0..3000).map(|step| event(step, WARNING)).collect();
    for (address, timeout) in [(silent.as_str(), "100"), (&silent, "60000"), (&format!("http://{free}"), "1000")] {
        let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", address), ("OTEL_EXPORTER_OTLP_TIMEOUT", timeout)];
        let took = tell(&variables, QUICK, &events);
        assert!(took < PATIENCE + Duration::from_secs(2), "{timeout}: {took:?}");
    }
}

#[test]
fn the_environment_says_where_and_no_secret_is_repeated() {
    let plain = settings(&[]).expect("allowed");
    let uri = |settings: &Settings| {
        [&settings.metrics, &settings.logs].map(|target| target.as_ref().map(|target| target.uri.to_string()))
    };
    let usual = ["metrics", "logs"].map(|signal| Some(format!("http://localhost:4318/v1/{signal}")));
    assert_eq!((uri(&plain), plain.remarks), (usual, Vec::new()));
    assert_eq!(plain.logs.expect("a target").timeout, Duration::from_secs(10));
    assert!(settings(&[("OTEL_SDK_DISABLED", "True")]).is_none());
    assert!(settings(&[("OTEL_SDK_DISABLED", "no")]).is_some());
    let own = settings(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://a:1/base/"),
        ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://b/here"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "k=all"),
        ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "k=logs"),
        ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "250"),
        ("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "18446744073709551615"),
    ]);
    let own = own.expect("allowed");
    assert_eq!(uri(&own), ["https://a:1/base/v1/metrics", "http://b/here"].map(|uri| Some(uri.to_owned())));
    let (metrics, logs) = (own.metrics.expect("a target"), own.logs.expect("a target"));
    assert_eq!(
        (&metrics.headers["k"], &logs.headers["k"]),
        (&"all".parse().expect("a value"), &"logs".parse().expect("a value"))
    );
    assert_eq!((metrics.timeout, logs.timeout), (Duration::from_millis(250), Duration::from_secs(3600)));
    let wrong = settings(&[
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &format!("{SECRET}:4318")),
        ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", &format!("http://user:{SECRET}@a/{SECRET}")),
        ("OTEL_EXPORTER_OTLP_HEADERS", &format!("{SECRET},a b={SECRET},c={SECRET}%0A,ok={SECRET}")),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", SECRET),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_RESOURCE_ATTRIBUTES", SECRET),
    ]);
    let wrong = wrong.expect("allowed");
    assert!(wrong.metrics.is_none(), "no address, no post");
    assert_eq!(wrong.remarks.len(), 6, "{:#?}", wrong.remarks);
    let shown = format!("{wrong:?} {wrong:#?}");
    assert!(!shown.contains(SECRET), "{shown}");
    let remarks = wrong.remarks.concat();
    for name in ["METRICS_ENDPOINT", "OTLP_HEADERS", "TIMEOUT", "PROTOCOL", "RESOURCE_ATTRIBUTES"] {
        assert!(remarks.contains(name), "{name}: {remarks}");
    }
}
