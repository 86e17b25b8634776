//! `cloze`: all verbs that need no libtorch. The others run in `cloze-train`.

use std::process::ExitCode;

use cloze::cli::Verb;
use cloze::{commands, program, train_program};

fn main() -> ExitCode {
    program::run(|_| false, dispatch)
}

fn dispatch(verb: Verb) -> anyhow::Result<ExitCode> {
    if train_program::is_needed(&verb) {
        return Err(train_program::execute());
    }
    commands::dispatch(verb)
}
