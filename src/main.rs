//! `cloze`: everything that needs no libtorch, and the way to `cloze-train` for the rest.

use std::process::ExitCode;

use cloze::cli::Verb;
use cloze::{commands, program, second_program};

fn main() -> ExitCode {
    program::run(|_| false, dispatch)
}

fn dispatch(verb: Verb) -> anyhow::Result<ExitCode> {
    if second_program::is_needed(&verb) {
        return Err(second_program::execute());
    }
    commands::dispatch(verb)
}
