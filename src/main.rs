//! The command line of `cloze`: wiring only.
//!
//! A [`Config`](config::Config) is parsed, a [`Plan`](plan::Plan) is made of it and of the prepared data, and only a
//! plan starts anything. The work is done by `pipeline` (text to batches) and `trainer` (batches to checkpoints), which
//! do not know each other; [`control`] is where signals and background writers meet them.

mod alerts;
mod chaos;
mod cli;
mod commands;
mod config;
#[cfg(feature = "train")]
mod control;
mod corpus_page;
mod data;
mod exit;
mod gauged;
mod generations;
mod html;
mod keys;
mod left_out;
mod logging;
mod looked;
mod notify;
mod otlp;
mod plan;
mod post;
mod profile;
mod profile_page;
#[cfg(feature = "train")]
mod run_folder;
mod seen;
#[cfg(feature = "train")]
mod summary;
#[cfg(feature = "train")]
mod tensorboard;
mod terminal;
mod trace;
mod watchers;

use std::process::ExitCode;

/// Shards, sockets and logs together want more than the 1,024 files that a shell gives, and the system allows more.
fn use_all_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where it may not be, it stays as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

fn main() -> ExitCode {
    use_all_files();
    let cli = cli::Cli::parsed();
    cli.said.manner().set();
    logging::install();
    std::panic::set_hook(Box::new(|panic| {
        // Of this the thread makes an error that says more.
        #[cfg(feature = "train")]
        if trainer::device::is_caught(panic.payload()) {
            return;
        }
        // Actors' panics come back as errors with their item; this line says where in the program it was.
        tracing::error!(defect = %panic, "internal error");
    }));
    match commands::dispatch(cli.verb) {
        Ok(code) => code,
        Err(error) => {
            terminal::note(format_args!("error: {error:#}"));
            exit::code(&error)
        }
    }
}
