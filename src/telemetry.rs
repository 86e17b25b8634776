//! Where `tracing` events go. Libraries emit them; only this file knows subscribers.
//!
//! People read stderr; `CLOZE_LOG_FORMAT=json` makes it one JSON object a line for machines. `RUST_LOG` filters as usual.

use std::io;
use std::io::Write;

use tracing_subscriber::EnvFilter;

use crate::terminal::Paint;

/// Installs the subscriber, once per process.
pub(crate) fn install() {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("warn,cloze=info,pipeline=info,trainer=info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| Unfailing);
    if std::env::var("CLOZE_LOG_FORMAT").is_ok_and(|format| format == "json") {
        builder.json().init();
    } else {
        builder.with_target(false).without_time().with_ansi(Paint::stderr().is_on()).compact().init();
    }
}

/// stderr, which may be gone or full: then nobody reads, and nothing else is the matter. (The subscriber would print to
/// stderr that it cannot print to stderr, and panic.)
struct Unfailing;

impl Write for Unfailing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().lock().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
