//! What a run says, for an OpenTelemetry collector: OTLP over HTTP, in protobuf. `run.otlp` asks for it, the environment
//! says where it goes.
//!
//! Beside everything: a reader puts events into a bounded queue, and a thread of its own makes metrics and log records of
//! them and posts these. A collector that is slow, away or full costs the work nothing and ends nothing; it is said once.
//!
//! In the order of reading: `settings` is the environment, `resource` who speaks, `figures` and `records` what events
//! become, `wire` the messages, `post_office` one way to the collector, `beside` the thread.

#[cfg(not(feature = "otlp"))]
mod absent;
#[cfg(feature = "otlp")]
mod beside;
#[cfg(feature = "otlp")]
mod figures;
#[cfg(feature = "otlp")]
mod post_office;
#[cfg(feature = "otlp")]
mod records;
#[cfg(feature = "otlp")]
mod resource;
#[cfg(feature = "otlp")]
mod settings;
mod speaker;
#[cfg(all(test, feature = "otlp"))]
mod tests;
#[cfg(feature = "otlp")]
mod wire;

use schemas::Problem;

#[cfg(not(feature = "otlp"))]
pub use self::absent::Otlp;
#[cfg(feature = "otlp")]
pub use self::beside::Otlp;
pub use self::speaker::Speaker;

/// What is wrong with asking for it: a program that was built without it cannot.
pub fn problem(is_wanted: bool) -> Option<Problem> {
    let hint = "build it with `cargo build --release --features otlp`, or leave the key out";
    let message = "this program was built without the feature `otlp`";
    (is_wanted && cfg!(not(feature = "otlp"))).then(|| Problem::new("run.otlp", message).hint(hint))
}
