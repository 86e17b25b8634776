//! Where `tracing` events go. Libraries emit them; only this file knows subscribers.
//!
//! People read stderr; `--log json` makes it one JSON object a line for machines. `-v` and `-q` say how much of it there is,
//! `RUST_LOG` filters as usual and wins, and a service is told by SIGHUP to filter otherwise.

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

/// What is said, unless `RUST_LOG` says it better.
fn usual(loudness: Verbosity) -> &'static str {
    match loudness {
        Verbosity::Quiet => "error",
        Verbosity::Usual => "warn,cloze=info,pipeline=info,trainer=info",
        Verbosity::More => "warn,cloze=debug,pipeline=debug,trainer=debug,store=debug",
        Verbosity::Most => "debug,cloze=trace,pipeline=trace,trainer=trace,store=trace",
    }
}

/// Installs the subscriber, once per process, for the [`OutputMode`] that is set. Next to what is logged, whatever its filter is,
/// traces hear what is theirs.
pub fn install(traces: impl Layer<Registry> + Send + Sync) {
    let listeners = Registry::default().with(traces);
    let (filter, handle) = reload::Layer::new(first());
    keep(handle);
    let filter = filter.and(for_logs());
    let lines = fmt::layer().with_writer(|| Unfailing);
    if OutputMode::get().form == OutputFormat::Json {
        listeners.with(lines.json().with_filter(filter)).init();
    } else {
        let lines = lines.with_target(false).without_time().with_ansi(Paint::stderr().is_on()).compact();
        listeners.with(lines.with_filter(filter)).init();
    }
}

/// Traces' spans are no matter of logs, whatever is asked for. It has to say that it lets everything else pass: without a
/// hint every place that could say something would have to be asked.
fn for_logs() -> FilterFn {
    let is_for_logs: fn(&Metadata<'_>) -> bool = |metadata| metadata.target() != SPANS;
    FilterFn::new(is_for_logs).with_max_level_hint(LevelFilter::TRACE)
}

/// As the environment says, or the command line.
fn first() -> EnvFilter {
    EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual(OutputMode::get().loudness)))
}

/// Puts another filter in the place of the one that there is.
type Reload = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

static RELOAD: OnceLock<Reload> = OnceLock::new();

fn keep<S: 'static>(handle: reload::Handle<EnvFilter, S>) {
    let _ = RELOAD.set(Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string())));
}

/// Filters by `level` from now on, or as the environment says. Returns what is said now.
pub fn reload(level: Option<&str>) -> Result<String, String> {
    let filter = match level {
        Some(level) => EnvFilter::try_new(level).map_err(|error| error.to_string())?,
        None => first(),
    };
    let text = filter.to_string();
    RELOAD.get().ok_or_else(|| "nobody listens".to_owned())?(filter)?;
    Ok(text)
}

/// stderr, which may be gone or full: then nobody reads, and nothing else is the matter. (The subscriber would print to
/// stderr that it cannot print to stderr, and panic.)
struct Unfailing;

impl Write for Unfailing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        terminal::err(format_args!("{}", String::from_utf8_lossy(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
