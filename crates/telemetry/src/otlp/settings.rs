//! Settings from the environment variables of OpenTelemetry. `docs/metrics.md` has the table.
//!
//! They are validated here and given to the SDK, which would ignore an invalid value silently or repeat it in a message. An
//! empty variable counts as unset. A warning names the variable, never its value, and the default is used.
//!
//! Reference: opentelemetry.io, specification, "OpenTelemetry Protocol Exporter" and "Environment Variable Specification".

use std::fmt;
use std::time::Duration;

use opentelemetry_otlp::OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT as TIMEOUT_DEFAULT;
use opentelemetry_sdk::logs::{
    OTEL_BLRP_MAX_EXPORT_BATCH_SIZE, OTEL_BLRP_MAX_EXPORT_BATCH_SIZE_DEFAULT, OTEL_BLRP_MAX_QUEUE_SIZE,
    OTEL_BLRP_MAX_QUEUE_SIZE_DEFAULT, OTEL_BLRP_SCHEDULE_DELAY, OTEL_BLRP_SCHEDULE_DELAY_DEFAULT,
};
use opentelemetry_sdk::metrics::{OTEL_METRIC_EXPORT_INTERVAL, OTEL_METRIC_EXPORT_INTERVAL_DEFAULT};
use percent_encoding::percent_decode_str;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, Uri};

/// Upper limit of every duration and count: an hour in milliseconds. A later instant may not be representable, and a longer
/// queue would not fit in memory.
const MAX_NUMBER: u64 = 3_600_000;

/// Kind of data that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Metrics,
    Logs,
}

impl Signal {
    /// Name in messages.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Logs => "log records",
        }
    }

    fn variable(self, suffix: &str) -> String {
        let name = match self {
            Self::Metrics => "METRICS",
            Self::Logs => "LOGS",
        };
        format!("OTEL_EXPORTER_OTLP_{name}_{suffix}")
    }

    fn path(self) -> &'static str {
        match self {
            Self::Metrics => "v1/metrics",
            Self::Logs => "v1/logs",
        }
    }
}

/// Validated settings.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) metrics: Option<Target>,
    pub(super) logs: Option<Target>,
    /// Attributes of the resource. A later one replaces an earlier one of the same name.
    pub(super) attributes: Vec<(String, String)>,
    /// Time between two exports of metrics.
    pub(super) metric_interval: Duration,
    /// Time between two exports of log records.
    pub(super) log_delay: Duration,
    pub(super) log_queue_size: usize,
    pub(super) log_batch_size: usize,
    /// Warnings about ignored variables, one sentence each.
    pub(super) warnings: Vec<String>,
}

/// Destination of one signal. Address and headers may hold secrets: `Debug` does not show them.
pub(super) struct Target {
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) timeout: Duration,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Settings {
    /// Reads an environment. Returns none if it disables the SDK.
    pub(super) fn from_environment(lookup: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let mut environment = Environment { lookup: &lookup, warnings: Vec::new() };
        if environment.value("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return None;
        }
        let [metrics, logs] = [Signal::Metrics, Signal::Logs].map(|signal| environment.target(signal));
        let mut attributes = environment.pairs("OTEL_RESOURCE_ATTRIBUTES");
        attributes.extend(environment.value("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name)));
        Some(Self {
            metrics,
            logs,
            attributes,
            metric_interval: environment.duration(OTEL_METRIC_EXPORT_INTERVAL, OTEL_METRIC_EXPORT_INTERVAL_DEFAULT),
            log_delay: environment.duration(OTEL_BLRP_SCHEDULE_DELAY, OTEL_BLRP_SCHEDULE_DELAY_DEFAULT),
            log_queue_size: environment.count(OTEL_BLRP_MAX_QUEUE_SIZE, OTEL_BLRP_MAX_QUEUE_SIZE_DEFAULT),
            log_batch_size: environment.count(OTEL_BLRP_MAX_EXPORT_BATCH_SIZE, OTEL_BLRP_MAX_EXPORT_BATCH_SIZE_DEFAULT),
            warnings: environment.warnings,
        })
    }
}

struct Environment<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    warnings: Vec<String>,
}

impl Environment<'_> {
    fn value(&self, name: &str) -> Option<String> {
        let value = (self.lookup)(name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// Returns the name of the variable that applies to a signal: its own if set, else that of all signals.
    fn signal_variable(&self, signal: Signal, suffix: &str) -> String {
        let own = signal.variable(suffix);
        if self.value(&own).is_some() { own } else { format!("OTEL_EXPORTER_OTLP_{suffix}") }
    }

    fn target(&mut self, signal: Signal) -> Option<Target> {
        let protocol = self.signal_variable(signal, "PROTOCOL");
        if self.value(&protocol).is_some_and(|value| value != "http/protobuf") {
            self.warn(format!("`{protocol}`: only `http/protobuf` is supported"));
        }
        let uri = self.uri(signal)?;
        let headers = self.headers(signal);
        let timeout = self.duration(&self.signal_variable(signal, "TIMEOUT"), TIMEOUT_DEFAULT);
        Some(Target { uri, headers, timeout })
    }

    /// Returns none if the value is not an address.
    fn uri(&mut self, signal: Signal) -> Option<Uri> {
        let variable = self.signal_variable(signal, "ENDPOINT");
        let is_complete = variable == signal.variable("ENDPOINT");
        let mut address = self.value(&variable).unwrap_or_else(|| "http://localhost:4318".to_owned());
        if !is_complete {
            address = format!("{}/{}", address.trim_end_matches('/'), signal.path());
        }
        let uri = address.parse::<Uri>().ok();
        let uri = uri.filter(|uri| uri.host().is_some() && matches!(uri.scheme_str(), Some("http" | "https")));
        if uri.is_none() {
            let label = signal.label();
            self.warn(format!("`{variable}` is not an address (`http://host:4318`, `https://…`); no {label} are sent"));
        }
        uri
    }

    fn headers(&mut self, signal: Signal) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let variable = self.signal_variable(signal, "HEADERS");
        for (key, value) in self.pairs(&variable) {
            match (HeaderName::try_from(&key), HeaderValue::try_from(&value)) {
                (Ok(key), Ok(mut value)) => {
                    value.set_sensitive(true);
                    headers.append(key, value);
                }
                _ => self.warn(format!("`{variable}`: ignoring an entry that is not a valid header")),
            }
        }
        headers
    }

    /// Parses `name=value,…` with percent-encoded values.
    fn pairs(&mut self, variable: &str) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        let text = self.value(variable).unwrap_or_default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            match pair(entry) {
                Some(pair) => pairs.push(pair),
                None => self.warn(format!("`{variable}`: ignoring an entry that is not `name=value`")),
            }
        }
        pairs
    }

    /// Parses milliseconds.
    fn duration(&mut self, variable: &str, default: Duration) -> Duration {
        let ms = self.number(variable, "number of milliseconds", default.as_millis());
        ms.map_or(default, Duration::from_millis)
    }

    fn count(&mut self, variable: &str, default: usize) -> usize {
        let count = self.number(variable, "number", default as u128);
        count.and_then(|count| usize::try_from(count).ok()).unwrap_or(default)
    }

    fn number(&mut self, variable: &str, noun: &str, default: u128) -> Option<u64> {
        let value = self.value(variable)?;
        let number = value.parse::<u64>().ok().filter(|number| *number > 0);
        if number.is_none() {
            self.warn(format!("`{variable}` is not a {noun} above 0; using the default, {default}"));
        }
        number.map(|number| number.min(MAX_NUMBER))
    }

    /// Adds a warning once, also if both signals read the same variable.
    fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

fn pair(entry: &str) -> Option<(String, String)> {
    let (key, value) = entry.split_once('=')?;
    let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
    let key = key.trim();
    (!key.is_empty()).then(|| (key.to_owned(), value.into_owned()))
}
