//! Start and end of a program: limits, arguments, logging, errors.

use std::any::Any;
use std::process::ExitCode;

use telemetry::{log, terminal};

use crate::cli::{Cli, Verb};
use crate::exit;

/// Parses the arguments of this process and runs `dispatch` on its verb. Panics for which `becomes_error` is true are
/// not logged: their thread turns them into an error.
pub fn run(
    becomes_error: fn(&(dyn Any + Send)) -> bool,
    dispatch: impl FnOnce(Verb) -> anyhow::Result<ExitCode>,
) -> ExitCode {
    use_all_files();
    let cli = Cli::parsed();
    cli.said.mode().set();
    log::install(profiler::trace::layer());
    std::panic::set_hook(Box::new(move |panic| {
        if becomes_error(panic.payload()) {
            return;
        }
        // Panics of workers come back as errors with their item; this line names the place in the program.
        tracing::error!(defect = %panic, "internal error");
    }));
    match dispatch(cli.verb) {
        Ok(code) => code,
        Err(error) => {
            terminal::note(format_args!("error: {error:#}"));
            exit::code(&error)
        }
    }
}

/// Raises the limit of open files to its maximum: shards, sockets and logs together need more than the 1,024 of a
/// shell.
fn use_all_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If the limit cannot be raised, it stays unchanged.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
