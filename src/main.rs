//! `cloze`: everything that needs no libtorch, and the way to `cloze-train` for the rest.

use std::process::ExitCode;

fn main() -> ExitCode {
    cloze::program::run(|_| false, cloze::commands::dispatch)
}
