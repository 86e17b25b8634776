//! Start and end of a program: limits, arguments, logging, errors.

use std::any::Any;
use std::fs::File;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use telemetry::{log, terminal};

use crate::cli::{Cli, Verb};
use crate::exit::{self, Usage};

/// Number of files that a command must be able to open at the same time.
const MIN_OPEN_FILES: usize = 24;

/// Parses the arguments of this process and runs `dispatch` on its verb. Panics for which `becomes_error` is true are
/// not logged: their thread turns them into an error.
pub fn run(
    becomes_error: fn(&(dyn Any + Send)) -> bool,
    dispatch: impl FnOnce(Verb) -> anyhow::Result<ExitCode>,
) -> ExitCode {
    use_all_files();
    let cli = Cli::parsed();
    if let Err(error) = check_open_files() {
        terminal::note(format_args!("error: {error:#}"));
        return exit::code(&error);
    }
    cli.said.mode().set();
    let has_terminal = std::io::stdout().is_terminal() || std::io::stderr().is_terminal();
    if has_terminal && let Ok((columns, _)) = ratatui::crossterm::terminal::size() {
        terminal::set_width(columns);
    }
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

/// Fails if the limit of open files is too low for any command: tokio would panic.
fn check_open_files() -> anyhow::Result<()> {
    let opened: std::io::Result<Vec<File>> = (0..MIN_OPEN_FILES).map(|_| File::open("/dev/null")).collect();
    match opened {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
            let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
            let message = format!(
                "the limit of open files is {limit}, which is too low; raise it to 1024 or more (`ulimit -n 1024`, or \
                 `LimitNOFILE` of systemd)"
            );
            Err(Usage(message).into())
        }
        _ => Ok(()),
    }
}
