//! `cloze tune` with timed training steps.

mod micro_batch;

use cloze::cli::{ConfigArgs, TuneArgs};
use cloze::commands::tune;

/// Times micro-batch sizes, then tunes the loader, and writes the gains to the configuration file.
pub(crate) fn run(args: &ConfigArgs, options: &TuneArgs) -> anyhow::Result<()> {
    tune::run(args, options, micro_batch::tune)
}
