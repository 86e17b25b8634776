//! OpenTelemetry exporter: metrics and log records over OTLP/HTTP in protobuf. `run.otlp` enables it; the standard
//! environment variables name the collector.
//!
//! An observer updates the metrics and queues log records; it never waits. Two threads of the OpenTelemetry SDK collect,
//! batch, retry and send, one for each signal. A slow, full or unreachable collector costs no training time and ends no run;
//! each signal logs its first failure only.
//!
//! Reading order: `settings` reads the environment, `run_resource` identifies the process, `metrics` and `log_records`
//! convert events, `client` is the HTTP client, `delivery` counts log records that are lost, `exporter` assembles the SDK.

#[cfg(feature = "otlp")]
mod client;
#[cfg(feature = "otlp")]
mod delivery;
#[cfg(not(feature = "otlp"))]
mod disabled;
#[cfg(feature = "otlp")]
mod exporter;
#[cfg(feature = "otlp")]
mod log_records;
#[cfg(feature = "otlp")]
mod metrics;
mod run_resource;
#[cfg(feature = "otlp")]
mod settings;
#[cfg(all(test, feature = "otlp"))]
mod tests;

use schemas::Problem;

#[cfg(not(feature = "otlp"))]
pub use self::disabled::Otlp;
#[cfg(feature = "otlp")]
pub use self::exporter::Otlp;
pub use self::run_resource::RunResource;

/// Returns the problem of a configuration that enables the exporter in a program that was built without it.
pub fn problem(is_enabled: bool) -> Option<Problem> {
    let hint =
        "build it with `cargo build --release -p cloze -p cloze-train --features cloze-train/otlp`, or remove the key";
    let message = "this program was built without the feature `otlp`";
    (is_enabled && cfg!(not(feature = "otlp"))).then(|| Problem::new("run.otlp", message).hint(hint))
}
