//! The messages of OTLP, as far as they are sent and answered here.
//!
//! # What
//! Requests that carry metrics and log records with the resource that they are of, and what a collector answers.
//!
//! # Why
//! By hand: the crate with all of them needs OpenTelemetry's SDK, of which nothing would be used, and six crates more. The
//! numbers of a stable protocol do not change.
//!
//! # Definition
//! Fields of `opentelemetry.proto`, version 1, by their numbers:
//!
//! | message | fields |
//! |---|---|
//! | `AnyValue` | 1 string, 3 int, 4 double |
//! | `KeyValue` | 1 key, 2 value |
//! | `Resource` | 1 attributes |
//! | `InstrumentationScope` | 1 name, 2 version |
//! | `ExportMetricsServiceRequest` › `ResourceMetrics` | 1 resource, 2 › `ScopeMetrics`: 1 scope, 2 metrics |
//! | `Metric` | 1 name, 2 description, 3 unit, 5 gauge, 7 sum |
//! | `Gauge`, `Sum` | 1 points; `Sum`: 2 temporality (2: cumulative), 3 monotonic |
//! | `NumberDataPoint` | 2 start and 3 time, both in ns as fixed64, 4 double, 7 attributes |
//! | `ExportLogsServiceRequest` › `ResourceLogs` | 1 resource, 2 › `ScopeLogs`: 1 scope, 2 records |
//! | `LogRecord` | 1 time, 11 time of being seen, both in ns as fixed64, 2 severity, 3 its name, 5 body, 6 attributes, 12 event |
//! | `ExportMetricsServiceResponse`, `ExportLogsServiceResponse` | 1 › 1: how many were rejected |
//!
//! # Reference
//! github.com/open-telemetry/opentelemetry-proto, `opentelemetry/proto`, by the crate `opentelemetry-proto` 0.33; `make test-readers` has `PyPI`'s
//! `opentelemetry-proto` decode what is sent.

use prost::{Message, Oneof};

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: i32 = 2;

/// Both requests are a list of what one resource says, of which there is one.
#[derive(Clone, PartialEq, Message)]
pub(super) struct MetricsRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) of: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scopes: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LogsRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) of: Vec<ResourceLogs>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceLogs {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scopes: Vec<ScopeLogs>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeLogs {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) records: Vec<LogRecord>,
}

/// Who speaks.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
}

/// The code that makes the numbers.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Scope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 3, 4")]
    pub(super) value: Option<Value>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metric {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) description: String,
    #[prost(string, tag = "3")]
    pub(super) unit: String,
    #[prost(oneof = "Data", tags = "5, 7")]
    pub(super) data: Option<Data>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Data {
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    #[prost(message, tag = "7")]
    Sum(Sum),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Gauge {
    #[prost(message, repeated, tag = "1")]
    pub(super) points: Vec<Point>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Sum {
    #[prost(message, repeated, tag = "1")]
    pub(super) points: Vec<Point>,
    #[prost(int32, tag = "2")]
    pub(super) temporality: i32,
    #[prost(bool, tag = "3")]
    pub(super) is_monotonic: bool,
}

impl Sum {
    /// One that only grows, from the start that its points name.
    pub(super) fn growing(points: Vec<Point>) -> Self {
        Self { points, temporality: CUMULATIVE, is_monotonic: true }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Point {
    #[prost(message, repeated, tag = "7")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "2")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    pub(super) time_unix_nano: u64,
    // Also where it is 0: a point without a value is none.
    #[prost(double, optional, tag = "4")]
    pub(super) value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LogRecord {
    #[prost(fixed64, tag = "1")]
    pub(super) time_unix_nano: u64,
    #[prost(fixed64, tag = "11")]
    pub(super) observed_time_unix_nano: u64,
    #[prost(int32, tag = "2")]
    pub(super) severity_number: i32,
    #[prost(string, tag = "3")]
    pub(super) severity_text: String,
    #[prost(message, optional, tag = "5")]
    pub(super) body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(string, tag = "12")]
    pub(super) event_name: String,
}

/// What a collector answers to either request.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Response {
    #[prost(message, optional, tag = "1")]
    pub(super) partial: Option<Partial>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Partial {
    #[prost(int64, tag = "1")]
    pub(super) rejected: i64,
}

impl Scope {
    /// This program.
    pub(super) fn own() -> Self {
        Self { name: "cloze".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

impl KeyValue {
    pub(super) fn text(key: &str, value: impl Into<String>) -> Self {
        Self::of(key, Value::Text(value.into()))
    }

    /// A count. More than fits is as much as fits.
    pub(super) fn int(key: &str, value: u64) -> Self {
        Self::of(key, Value::Int(i64::try_from(value).unwrap_or(i64::MAX)))
    }

    pub(super) fn double(key: &str, value: f64) -> Self {
        Self::of(key, Value::Double(value))
    }

    fn of(key: &str, value: Value) -> Self {
        Self { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
    }
}

/// Nanoseconds of milliseconds since the epoch of Unix.
pub(super) fn nanoseconds(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}
