//! Subscriber of `tracing` events. Libraries emit events; only this file knows subscribers.
//!
//! Log lines go to stderr, as text or with `--log json` as one JSON object per line. `-v` and `-q` set the level.
//! `RUST_LOG` overrides them. SIGHUP makes a service read its filter again.

use std::io;
use std::io::Write;
use std::sync::OnceLock;

use runtime::spans::SPANS;
use tracing::Metadata;
use tracing_subscriber::filter::{FilterExt as _, FilterFn, LevelFilter};
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use crate::terminal::{self, OutputFormat, OutputMode, Paint, Verbosity};

/// Returns the default filter, which `RUST_LOG` overrides.
fn usual(verbosity: Verbosity) -> &'static str {
    match verbosity {
        Verbosity::Quiet => "error",
        Verbosity::Usual => "warn,cloze=info,pipeline=info,trainer=info",
        Verbosity::More => "warn,cloze=debug,pipeline=debug,trainer=debug,store=debug",
        Verbosity::Most => "debug,cloze=trace,pipeline=trace,trainer=trace,store=trace",
    }
}

/// Installs the subscriber of the current [`OutputMode`]. To be called once per process. The layer `traces` receives its
/// spans independently of the log filter.
pub fn install(traces: impl Layer<Registry> + Send + Sync) {
    let listeners = Registry::default().with(traces);
    let (filter, handle) = reload::Layer::new(first());
    set_filter_handle(handle);
    let filter = filter.and(for_logs());
    let lines = fmt::layer().with_writer(|| NonFailingWriter);
    if OutputMode::get().form == OutputFormat::Json {
        listeners.with(lines.json().with_filter(filter)).init();
    } else {
        let lines = lines.with_target(false).without_time().with_ansi(Paint::stderr().is_on()).compact();
        listeners.with(lines.with_filter(filter)).init();
    }
}

/// Returns the filter that excludes the spans of traces from logs. The level hint is necessary: without it, `tracing`
/// would evaluate the filter at every call site.
fn for_logs() -> FilterFn {
    let is_for_logs: fn(&Metadata<'_>) -> bool = |metadata| metadata.target() != SPANS;
    FilterFn::new(is_for_logs).with_max_level_hint(LevelFilter::TRACE)
}

/// Returns the filter of `RUST_LOG`, or else of the command line.
fn first() -> EnvFilter {
    EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual(OutputMode::get().verbosity)))
}

/// Function that replaces the current filter.
type Reload = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

static RELOAD: OnceLock<Reload> = OnceLock::new();

fn set_filter_handle<S: 'static>(handle: reload::Handle<EnvFilter, S>) {
    let _ = RELOAD.set(Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string())));
}

/// Replaces the filter by `level`, or by that of the environment. Returns the new filter.
///
/// # Errors
/// If `level` is no valid filter, or no subscriber is installed.
pub fn reload(level: Option<&str>) -> Result<String, String> {
    let filter = match level {
        Some(level) => EnvFilter::try_new(level).map_err(|error| error.to_string())?,
        None => first(),
    };
    let text = filter.to_string();
    RELOAD.get().ok_or_else(|| "no log subscriber is installed".to_owned())?(filter)?;
    Ok(text)
}

/// Writer to stderr that ignores errors, because stderr may be closed or full. Otherwise the subscriber would print the
/// error to stderr and panic.
struct NonFailingWriter;

impl Write for NonFailingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        terminal::err(format_args!("{}", String::from_utf8_lossy(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
