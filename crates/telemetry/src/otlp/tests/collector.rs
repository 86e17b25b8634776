//! Collector that answers from a list, and readers of what it received.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric, NumberDataPoint, ResourceMetrics};
use prost::Message as _;

use crate::run_metrics::InstrumentKind;

/// Answer of the collector.
#[derive(Clone, Copy)]
pub(super) enum Reply {
    /// Status and more header lines.
    Status(u16, &'static str),
    /// Success that rejects some of the records.
    Rejects(i64),
    /// No answer.
    Never,
}

pub(super) const OK: Reply = Reply::Status(200, "");

/// Request that the collector received.
pub(super) struct Post {
    pub(super) at: Instant,
    pub(super) head: String,
    body: Vec<u8>,
}

impl Post {
    pub(super) fn is_logs(&self) -> bool {
        self.head.starts_with("post /v1/logs ")
    }

    fn is_metrics(&self) -> bool {
        self.head.starts_with("post /v1/metrics ")
    }

    /// Decodes the metrics; none if these are log records.
    pub(super) fn metrics(&self) -> Option<ResourceMetrics> {
        let request = || ExportMetricsServiceRequest::decode(self.body.as_slice()).expect("protobuf");
        self.is_metrics().then(|| request().resource_metrics.remove(0))
    }
}

/// Starts a collector. It answers the requests of a signal in turn; the last reply is repeated.
pub(super) fn collector(metrics: &'static [Reply], logs: &'static [Reply]) -> (String, Receiver<Post>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("it is bound"));
    let (sender, posts) = sync_channel(10_000);
    let counts = Arc::new(Mutex::new([0, 0]));
    let reply = move |is_logs: bool| {
        let replies = if is_logs { logs } else { metrics };
        let mut counts = counts.lock().expect("no panic");
        let count = &mut counts[usize::from(is_logs)];
        *count += 1;
        *replies.get(*count - 1).or(replies.last()).expect("a reply")
    };
    let reply = Arc::new(reply);
    runtime::spawn("collector", move || {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            let sender = sender.clone();
            let reply = Arc::clone(&reply);
            runtime::spawn("connection", move || serve(stream, &sender, &*reply)).expect("a thread");
        }
    })
    .expect("a thread");
    (address, posts)
}

fn serve(mut stream: TcpStream, sender: &SyncSender<Post>, reply: &dyn Fn(bool) -> Reply) {
    let mut bytes = Vec::new();
    loop {
        let head_end = loop {
            if let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
                break end + 4;
            }
            if !read_more(&mut stream, &mut bytes) {
                return;
            }
        };
        let head = String::from_utf8_lossy(&bytes[..head_end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        let end = head_end + length.expect("a length");
        while bytes.len() < end {
            assert!(read_more(&mut stream, &mut bytes), "half a body");
        }
        let body = bytes[head_end..end].to_vec();
        bytes.drain(..end);
        let post = Post { at: Instant::now(), head, body };
        let reply = reply(post.is_logs());
        let _ = sender.send(post);
        let answer = match reply {
            Reply::Status(status, lines) => {
                format!("HTTP/1.1 {status} X\r\n{lines}content-length: 0\r\n\r\n").into_bytes()
            }
            Reply::Rejects(rejected_log_records) => {
                let partial = ExportLogsPartialSuccess { rejected_log_records, error_message: String::new() };
                let body = ExportLogsServiceResponse { partial_success: Some(partial) }.encode_to_vec();
                [format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes(), body].concat()
            }
            // The client gives up.
            Reply::Never => continue,
        };
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4096];
    let length = stream.read(&mut buffer).unwrap_or(0);
    bytes.extend(&buffer[..length]);
    length > 0
}

/// Waits for metrics that satisfy a condition.
pub(super) fn wait_for_metrics(posts: &Receiver<Post>, is_met: impl Fn(&[Metric]) -> bool) -> Vec<Post> {
    let mut received: Vec<Post> = Vec::new();
    let begun = Instant::now();
    loop {
        received.push(posts.recv_timeout(Duration::from_secs(20)).expect("posts"));
        let metrics = received.last().and_then(Post::metrics);
        if metrics.is_some_and(|metrics| is_met(&metrics.scope_metrics[0].metrics)) {
            return received;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it is not met in time");
    }
}

/// Returns the newest metrics.
pub(super) fn last_metrics(posts: &[Post]) -> ResourceMetrics {
    posts.iter().rev().find_map(Post::metrics).expect("metrics")
}

/// Returns all log records.
pub(super) fn log_records(posts: &[Post]) -> Vec<LogRecord> {
    let posts = posts.iter().filter(|post| post.is_logs());
    let requests = posts.map(|post| ExportLogsServiceRequest::decode(post.body.as_slice()).expect("protobuf"));
    let scopes = requests.flat_map(|request| request.resource_logs).flat_map(|logs| logs.scope_logs);
    scopes.flat_map(|scope| scope.log_records).collect()
}

/// Returns the value of an attribute as text.
pub(super) fn attribute(attributes: &[KeyValue], key: &str) -> String {
    let value = attributes.iter().find(|attribute| attribute.key == key).and_then(|it| it.value.clone()?.value);
    match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(other) => panic!("{key}: {other:?}"),
        None => "none".to_owned(),
    }
}

/// Returns the points of a metric; none if the metric is absent.
pub(super) fn points(metrics: &[Metric], name: &str) -> Option<(InstrumentKind, Vec<NumberDataPoint>)> {
    let metric = metrics.iter().find(|metric| metric.name == name)?;
    match metric.data.clone().expect("data") {
        Data::Gauge(gauge) => Some((InstrumentKind::Gauge, gauge.data_points)),
        Data::Sum(sum) => {
            assert!(sum.is_monotonic, "{name}");
            assert_eq!(sum.aggregation_temporality(), AggregationTemporality::Cumulative, "{name}");
            Some((InstrumentKind::Counter, sum.data_points))
        }
        other => panic!("{name}: {other:?}"),
    }
}

/// Returns the value of the point with these attributes.
pub(super) fn value(metrics: &[Metric], name: &str, with: &[(&str, &str)]) -> f64 {
    let (_, points) = points(metrics, name).unwrap_or_else(|| panic!("no `{name}`"));
    let point = points.iter().find(|point| with.iter().all(|(key, text)| attribute(&point.attributes, key) == *text));
    match point.and_then(|point| point.value) {
        Some(Number::AsDouble(value)) => value,
        other => panic!("`{name}` with {with:?}: {other:?}"),
    }
}
