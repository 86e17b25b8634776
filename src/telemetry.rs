//! Where `tracing` events go. Libraries emit them; only this file knows subscribers.
//!
//! People read stderr; `CLOZE_LOG_FORMAT=json` makes it one JSON object a line for machines. `RUST_LOG` filters as usual.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Installs the subscriber, once per process.
pub(crate) fn install() {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("warn,cloze=info,pipeline=info,trainer=info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if std::env::var("CLOZE_LOG_FORMAT").is_ok_and(|format| format == "json") {
        builder.json().init();
    } else {
        builder.with_target(false).without_time().with_ansi(std::io::stderr().is_terminal()).compact().init();
    }
}
