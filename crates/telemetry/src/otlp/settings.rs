//! Where to send it, and as whom: OpenTelemetry's own environment variables.
//!
//! # Definition
//! | variable | means | if unset |
//! |---|---|---|
//! | `OTEL_SDK_DISABLED` | `true`: nothing is sent | |
//! | `OTEL_EXPORTER_OTLP_ENDPOINT` | the collector; `/v1/metrics` and `/v1/logs` are put behind it | `http://localhost:4318` |
//! | `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT`, `…_LOGS_ENDPOINT` | the whole address for one of the two | |
//! | `OTEL_EXPORTER_OTLP_HEADERS`, `…_METRICS_HEADERS`, `…_LOGS_HEADERS` | `name=value,…`, values percent-encoded: secrets | |
//! | `OTEL_EXPORTER_OTLP_TIMEOUT`, `…_METRICS_TIMEOUT`, `…_LOGS_TIMEOUT` | milliseconds for a post and its answer | 10000 |
//! | `OTEL_EXPORTER_OTLP_PROTOCOL`, … | anything but `http/protobuf` is told and not followed | |
//! | `OTEL_SERVICE_NAME` | `service.name` | `cloze` |
//! | `OTEL_RESOURCE_ATTRIBUTES` | `name=value,…`, values percent-encoded; they go before our own | |
//!
//! An empty variable is an unset one. What cannot be read is told, by the variable's name and never by its value, and left
//! out.
//!
//! # Reference
//! opentelemetry.io, specification: "OpenTelemetry Protocol Exporter", "Environment Variable Specification".

use std::fmt;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, Uri};

/// Who asks for more waits as long: a clock cannot be added to without end.
const TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Metrics,
    Logs,
}

impl Signal {
    /// For people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Logs => "log records",
        }
    }

    fn variable(self, rest: &str) -> String {
        let name = match self {
            Self::Metrics => "METRICS",
            Self::Logs => "LOGS",
        };
        format!("OTEL_EXPORTER_OTLP_{name}_{rest}")
    }

    fn path(self) -> &'static str {
        match self {
            Self::Metrics => "v1/metrics",
            Self::Logs => "v1/logs",
        }
    }
}

/// All that the environment says.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) metrics: Option<Target>,
    pub(super) logs: Option<Target>,
    /// Attributes of the resource, the later before the earlier.
    pub(super) attributes: Vec<(String, String)>,
    /// What could not be read, a sentence each.
    pub(super) remarks: Vec<String>,
}

/// Where one signal goes. Address and headers may hold secrets: nothing shows them.
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
    /// Of an environment; none where it forbids all of it.
    pub(super) fn of(environment: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let mut read = Read { environment: &environment, remarks: Vec::new() };
        if read.value("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return None;
        }
        let [metrics, logs] = [Signal::Metrics, Signal::Logs].map(|signal| read.target(signal));
        let mut attributes = read.pairs("OTEL_RESOURCE_ATTRIBUTES");
        attributes.extend(read.value("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name)));
        Some(Self { metrics, logs, attributes, remarks: read.remarks })
    }
}

struct Read<'a> {
    environment: &'a dyn Fn(&str) -> Option<String>,
    remarks: Vec<String>,
}

impl Read<'_> {
    fn value(&self, name: &str) -> Option<String> {
        let value = (self.environment)(name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// That of the signal, else that of all.
    fn of_signal(&self, signal: Signal, rest: &str) -> Option<(String, String)> {
        let names = [signal.variable(rest), format!("OTEL_EXPORTER_OTLP_{rest}")];
        names.into_iter().find_map(|name| self.value(&name).map(|value| (name, value)))
    }

    fn target(&mut self, signal: Signal) -> Option<Target> {
        if let Some((name, protocol)) = self.of_signal(signal, "PROTOCOL")
            && protocol != "http/protobuf"
        {
            self.remark(format!("`{name}`: this program speaks `http/protobuf` and nothing else"));
        }
        let uri = self.uri(signal)?;
        let headers = self.headers(signal);
        let timeout = self.of_signal(signal, "TIMEOUT").and_then(|(name, value)| {
            let ms = value.parse().ok().filter(|ms| *ms > 0);
            if ms.is_none() {
                self.remark(format!("`{name}` is no number of milliseconds above 0; 10000 serves"));
            }
            ms
        });
        let timeout = Duration::from_millis(timeout.unwrap_or(10_000)).min(TIMEOUT_MAX);
        Some(Target { uri, headers, timeout })
    }

    /// None where what stands there is no address.
    fn uri(&mut self, signal: Signal) -> Option<Uri> {
        let own = signal.variable("ENDPOINT");
        let (name, address) = self.value(&own).map_or_else(
            || {
                let name = "OTEL_EXPORTER_OTLP_ENDPOINT";
                let base = self.value(name).unwrap_or_else(|| "http://localhost:4318".to_owned());
                (name.to_owned(), format!("{}/{}", base.trim_end_matches('/'), signal.path()))
            },
            |address| (own.clone(), address),
        );
        let uri = address.parse::<Uri>().ok();
        let uri = uri.filter(|uri| uri.host().is_some() && matches!(uri.scheme_str(), Some("http" | "https")));
        if uri.is_none() {
            let name_of = signal.name();
            self.remark(format!("`{name}` is no address (`http://host:4318`, `https://…`); no {name_of} are sent"));
        }
        uri
    }

    fn headers(&mut self, signal: Signal) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let Some((name, _)) = self.of_signal(signal, "HEADERS") else { return headers };
        for (key, value) in self.pairs(&name) {
            match (HeaderName::try_from(&key), HeaderValue::try_from(&value)) {
                (Ok(key), Ok(mut value)) => {
                    value.set_sensitive(true);
                    headers.append(key, value);
                }
                _ => self.remark(format!("`{name}`: an entry is no header and is left out")),
            }
        }
        headers
    }

    /// `name=value,…`, values percent-encoded.
    fn pairs(&mut self, name: &str) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        let text = self.value(name).unwrap_or_default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            match pair(entry) {
                Some(pair) => pairs.push(pair),
                None => self.remark(format!("`{name}`: an entry is no `name=value` and is left out")),
            }
        }
        pairs
    }

    /// Once, also where both signals read the same variable.
    fn remark(&mut self, remark: String) {
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }
}

fn pair(entry: &str) -> Option<(String, String)> {
    let (key, value) = entry.split_once('=')?;
    let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
    let key = key.trim();
    (!key.is_empty()).then(|| (key.to_owned(), value.into_owned()))
}
