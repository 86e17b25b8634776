//! Providers of the OpenTelemetry SDK, and the observer that feeds them.
//!
//! - Metrics: the SDK calls back for the values every `OTEL_METRIC_EXPORT_INTERVAL`, and once more at the end.
//! - Log records: the SDK queues, batches and sends them by `OTEL_BLRP_…`.
//! - A request is repeated until `OTEL_EXPORTER_OTLP_TIMEOUT` has passed. Then a batch of log records is lost; metrics are
//!   cumulative, so the next request includes what this one had.
//! - At the end both signals are flushed at once, for at most [`SHUTDOWN_TIMEOUT`].

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use opentelemetry::InstrumentationScope;
use opentelemetry::logs::LoggerProvider as _;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_otlp::{LogExporter, MetricExporter, Protocol, RetryPolicy, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::logs::{BatchConfigBuilder, BatchLogProcessor, SdkLoggerProvider};
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider, Temporality};

use super::client::Client;
use super::delivery::{CountingExporter, DeliveryCounts, LogQueue};
use super::log_records;
use super::metrics::{MetricState, register};
use super::run_resource::RunResource;
use super::settings::{Settings, Signal, Target};
use crate::{Clock, Event, Observer};

/// Longest time that the end of a run waits for the collector.
pub(super) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Exporter of metrics and log records. Dropping it flushes both.
pub struct Otlp {
    metrics: Arc<MetricState>,
    meters: Option<SdkMeterProvider>,
    loggers: Option<SdkLoggerProvider>,
    logs: Option<LogQueue>,
    clock: Clock,
}

impl Otlp {
    /// Starts to export to the collector that the environment names. Returns none if it is not enabled, by the
    /// configuration or by `OTEL_SDK_DISABLED`.
    pub fn start(is_enabled: bool, resource: &RunResource) -> Option<Self> {
        if !is_enabled {
            return None;
        }
        let Some(settings) = Settings::from_environment(|name| std::env::var(name).ok()) else {
            tracing::info!("otlp: exporter disabled, because `OTEL_SDK_DISABLED` is set");
            return None;
        };
        for warning in &settings.warnings {
            tracing::warn!("otlp: {warning}");
        }
        // The SDK panics where its threads cannot be started.
        let exporter = runtime::catch_panic(|| Self::with_settings(settings, resource));
        exporter
            .inspect_err(|error| tracing::warn!(error, "otlp: exporter disabled, because it cannot be started"))
            .ok()
    }

    /// Starts with the settings of the caller.
    pub(super) fn with_settings(settings: Settings, resource: &RunResource) -> Self {
        let clock = Clock::system();
        let counts = Arc::new(DeliveryCounts::new(settings.log_queue_size));
        let metrics = Arc::new(MetricState::new(resource.steps, clock.clone(), Arc::clone(&counts)));
        let batch_config = BatchConfigBuilder::default()
            .with_max_queue_size(settings.log_queue_size)
            .with_max_export_batch_size(settings.log_batch_size)
            .with_scheduled_delay(settings.log_delay)
            .build();
        let resource = resource.to_sdk(&settings.attributes);
        let scope = InstrumentationScope::builder("cloze").with_version(env!("CARGO_PKG_VERSION")).build();

        let meters = settings.metrics.and_then(|target| metric_exporter(target, &counts)).map(|exporter| {
            let reader = PeriodicReader::builder(exporter).with_interval(settings.metric_interval).build();
            SdkMeterProvider::builder().with_resource(resource.clone()).with_reader(reader).build()
        });
        if let Some(meters) = &meters {
            register(&meters.meter_with_scope(scope.clone()), &metrics);
        }
        let loggers = settings.logs.and_then(|target| log_exporter(target, &counts)).map(|exporter| {
            let processor = BatchLogProcessor::builder(exporter).with_batch_config(batch_config).build();
            SdkLoggerProvider::builder().with_resource(resource).with_log_processor(processor).build()
        });
        let logs = loggers.as_ref().map(|loggers| LogQueue { logger: loggers.logger_with_scope(scope), counts });
        Self { metrics, meters, loggers, logs, clock }
    }

    /// Returns the observer that feeds it.
    pub fn reader(&self) -> Box<dyn Observer> {
        Box::new(Reader { metrics: Arc::clone(&self.metrics), logs: self.logs.clone() })
    }

    /// Adds a log record of a failure that no event reports.
    pub fn failed(&self, error: &dyn std::fmt::Display) {
        if let Some(logs) = &self.logs {
            logs.push(log_records::from_failure(&logs.logger, self.clock.time(), &format!("{error:#}")));
        }
    }
}

impl Drop for Otlp {
    fn drop(&mut self) {
        let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
        let (done, metrics_done) = sync_channel(1);
        let meters = self.meters.take();
        // Its errors are those that the client has logged.
        let _ = runtime::spawn("otlp-shutdown", move || {
            let _ = meters.map(|meters| meters.shutdown());
            let _ = done.send(());
        });
        if let Some(loggers) = &self.loggers {
            let _ = loggers.shutdown_with_timeout(SHUTDOWN_TIMEOUT);
        }
        let _ = metrics_done.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        if Instant::now() >= deadline {
            tracing::warn!(
                "otlp: the last metrics or log records did not reach the collector in {} s",
                SHUTDOWN_TIMEOUT.as_secs()
            );
        }
        let lost = self.logs.as_ref().map_or(0, |logs| logs.counts.lost() + logs.counts.pending());
        if lost > 0 {
            tracing::warn!(lost, "otlp: log records did not reach the collector; the run log has all events");
        }
    }
}

/// Observer that updates the metrics and queues log records.
struct Reader {
    metrics: Arc<MetricState>,
    logs: Option<LogQueue>,
}

impl Observer for Reader {
    fn observe(&mut self, event: &Event) {
        self.metrics.update(event);
        if let Some(logs) = &self.logs
            && let Some(record) = log_records::from_event(&logs.logger, event)
        {
            logs.push(record);
        }
    }
}

fn metric_exporter(target: Target, counts: &Arc<DeliveryCounts>) -> Option<MetricExporter> {
    let builder = MetricExporter::builder().with_temporality(Temporality::Cumulative).with_http();
    built(Signal::Metrics, configured(builder, Signal::Metrics, target, counts).build())
}

fn log_exporter(target: Target, counts: &Arc<DeliveryCounts>) -> Option<CountingExporter<LogExporter>> {
    let builder = LogExporter::builder().with_http();
    let exporter = built(Signal::Logs, configured(builder, Signal::Logs, target, counts).build())?;
    Some(CountingExporter { exporter, counts: Arc::clone(counts) })
}

/// Configures an exporter by the settings only: the builder would read the environment again, without validation.
fn configured<B: WithExportConfig + WithHttpConfig>(
    builder: B,
    signal: Signal,
    target: Target,
    counts: &Arc<DeliveryCounts>,
) -> B {
    builder
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(target.uri.to_string())
        .with_timeout(target.timeout)
        .with_retry_policy(RetryPolicy::recommended().with_max_retries(usize::MAX))
        .with_http_client(Client::new(signal, target, Arc::clone(counts)))
}

/// Returns the exporter, or logs that there is none. The error may repeat the address, which may hold a secret.
fn built<E, X>(signal: Signal, exporter: Result<E, X>) -> Option<E> {
    if exporter.is_err() {
        tracing::warn!("otlp: no {} are sent: the exporter refuses the settings", signal.label());
    }
    exporter.ok()
}
