//! Instruments of the OpenTelemetry SDK, which read the metrics of the process when the SDK exports them.
//!
//! The instruments are those of [`crate::run_metrics`] and [`REPORT_METRICS`], the time since the process began, and the
//! number of log records that did not reach the collector. A value that is not finite is not exported.

use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Meter};

use super::delivery::DeliveryCounts;
use crate::report_metrics::REPORT_METRICS;
use crate::run_metrics::{INSTRUMENTS, InstrumentKind, RunMetrics};
use crate::{Clock, Event};

const UPTIME: &str = "cloze.uptime";
const LOST: &str = "cloze.otlp.lost";

/// Instrument of OpenTelemetry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instrument {
    pub(super) name: &'static str,
    pub(super) kind: InstrumentKind,
    pub(super) unit: &'static str,
    pub(super) description: &'static str,
    /// Name of its values in [`RunMetrics`].
    key: &'static str,
}

/// Returns all instruments.
pub(super) fn instruments() -> impl Iterator<Item = Instrument> {
    let of_process = [
        (UPTIME, InstrumentKind::Gauge, "s", "Time since the process began to report."),
        (LOST, InstrumentKind::Counter, "{record}", "Log records that did not reach the collector."),
    ];
    let of_process =
        of_process.map(|(name, kind, unit, description)| Instrument { name, kind, unit, description, key: name });
    let of_run = INSTRUMENTS.iter().filter_map(|it| {
        Some(Instrument { name: it.name, kind: it.kind, unit: it.unit?, description: it.description, key: it.name })
    });
    let of_reports = REPORT_METRICS.iter().filter_map(|metric| {
        let otlp = metric.otlp?;
        let description = metric.description;
        let key = metric.tensorboard;
        Some(Instrument { name: otlp.name, kind: InstrumentKind::Gauge, unit: otlp.unit, description, key })
    });
    of_process.into_iter().chain(of_run).chain(of_reports)
}

/// Creates all instruments. Their callbacks read `state`.
pub(super) fn register(meter: &Meter, state: &Arc<MetricState>) {
    for Instrument { name, kind, unit, description, key } in instruments() {
        let state = Arc::clone(state);
        let callback = move |instrument: &dyn AsyncInstrument<f64>| state.observe(key, instrument);
        // The SDK keeps the callback, whatever happens to the instrument.
        match kind {
            InstrumentKind::Gauge => {
                let builder = meter.f64_observable_gauge(name).with_unit(unit).with_description(description);
                let _ = builder.with_callback(callback).build();
            }
            InstrumentKind::Counter => {
                let builder = meter.f64_observable_counter(name).with_unit(unit).with_description(description);
                let _ = builder.with_callback(callback).build();
            }
        }
    }
}

/// Metrics that an observer updates and the SDK reads.
#[derive(Debug)]
pub(super) struct MetricState {
    metrics: Mutex<RunMetrics>,
    clock: Clock,
    counts: Arc<DeliveryCounts>,
}

impl MetricState {
    /// Creates the state of a process that begins with `clock`.
    pub(super) fn new(planned_steps: Option<u64>, clock: Clock, counts: Arc<DeliveryCounts>) -> Self {
        Self { metrics: Mutex::new(RunMetrics::new(planned_steps)), clock, counts }
    }

    pub(super) fn update(&self, event: &Event) {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner).update(event);
    }

    /// Reports the known values of an instrument.
    fn observe(&self, key: &str, instrument: &dyn AsyncInstrument<f64>) {
        match key {
            UPTIME => instrument.observe(self.clock.elapsed_s(), &[]),
            LOST => instrument.observe(self.counts.lost() as f64, &[]),
            _ => {
                let metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
                for (labels, value) in metrics.values(key) {
                    let attributes: Vec<_> =
                        labels.iter().map(|(key, value)| KeyValue::new(*key, value.clone())).collect();
                    instrument.observe(value, &attributes);
                }
            }
        }
    }
}
