//! `cloze tune` with a step that is timed.

mod micro_batch;

use cloze::cli::{ConfigArgs, TuneArgs};
use cloze::commands::tune;

/// Times candidates of a micro-batch, then tunes what feeds them, and writes what gains into the file.
pub(crate) fn run(args: &ConfigArgs, options: &TuneArgs) -> anyhow::Result<()> {
    tune::run(args, options, micro_batch::tune)
}
