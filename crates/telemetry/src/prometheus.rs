//! Text of a Prometheus scrape: base units, suffixes and types by its conventions.
//!
//! A registry is made for each scrape from the present values, so a worker that ended or a term that is no longer reported
//! goes. Label values are names of workers, queues, terms and metrics: as many as the configuration has.

use std::collections::BTreeMap;

use prometheus::core::Collector;
use prometheus::{CounterVec, GaugeVec, Opts, Registry, TextEncoder};

use crate::report_metrics::REPORT_METRICS;
use crate::run_metrics::{INSTRUMENTS, InstrumentKind, RunMetrics};

/// Content type of the text.
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// Metric with its values by label values.
#[derive(Clone, Debug)]
pub struct MetricFamily {
    /// Name.
    pub name: &'static str,
    /// Help text.
    pub help: &'static str,
    /// Kind.
    pub kind: InstrumentKind,
    /// Names of the labels.
    pub labels: Vec<&'static str>,
    /// Values of the labels, in their order, and the value.
    pub values: Vec<(Vec<String>, f64)>,
}

impl MetricFamily {
    /// Gauge without labels.
    #[must_use]
    pub fn gauge(name: &'static str, help: &'static str, value: f64) -> Self {
        Self { name, help, kind: InstrumentKind::Gauge, labels: Vec::new(), values: vec![(Vec::new(), value)] }
    }
}

/// Returns the text of the metrics that events have, and of the others.
#[must_use]
pub fn text(metrics: &RunMetrics, others: impl IntoIterator<Item = MetricFamily>) -> String {
    let registry = Registry::new();
    for family in families(metrics).into_iter().chain(others) {
        registry.register(collector(&family)).expect("each name occurs once");
    }
    TextEncoder::new().encode_to_string(&registry.gather()).unwrap_or_else(|error| format!("# {error}\n"))
}

/// Returns the metrics that events have.
fn families(metrics: &RunMetrics) -> Vec<MetricFamily> {
    let of_reports = REPORT_METRICS.iter().filter_map(|metric| {
        let (_, value) = metrics.values(metric.tensorboard).next()?;
        Some(MetricFamily::gauge(metric.prometheus?, metric.description, value))
    });
    let of_run = INSTRUMENTS.iter().flat_map(|instrument| {
        instrument.prometheus.iter().filter_map(|prometheus| {
            let is_wanted =
                |key: &str, value: &str| key != "split" || prometheus.split.is_none_or(|split| split == value);
            let found = metrics.values(instrument.name);
            let found = found.filter(|(labels, _)| labels.iter().all(|(key, value)| is_wanted(key, value)));
            let mut values = BTreeMap::new();
            let mut names = Vec::new();
            for (labels, value) in found {
                let labels = labels.iter().filter(|(key, _)| *key != "split");
                let (keys, of): (Vec<_>, Vec<_>) = labels.map(|(key, value)| (*key, value.clone())).unzip();
                names = keys;
                values.insert(of, value);
            }
            (!values.is_empty()).then(|| MetricFamily {
                name: prometheus.name,
                help: instrument.description,
                kind: instrument.kind,
                labels: names,
                values: values.into_iter().collect(),
            })
        })
    });
    of_reports.chain(of_run).collect()
}

fn collector(family: &MetricFamily) -> Box<dyn Collector> {
    let options = Opts::new(family.name, family.help);
    match family.kind {
        InstrumentKind::Gauge => {
            let gauges = GaugeVec::new(options, &family.labels).expect("a valid name");
            set(family, |labels, value| gauges.with_label_values(labels).set(value));
            Box::new(gauges)
        }
        InstrumentKind::Counter => {
            let counters = CounterVec::new(options, &family.labels).expect("a valid name");
            set(family, |labels, value| counters.with_label_values(labels).inc_by(value.max(0.0)));
            Box::new(counters)
        }
    }
}

fn set(family: &MetricFamily, mut set: impl FnMut(&[&str], f64)) {
    for (labels, value) in &family.values {
        set(&labels.iter().map(String::as_str).collect::<Vec<_>>(), *value);
    }
}
