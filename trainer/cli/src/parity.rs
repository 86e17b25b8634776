//! `cloze parity`: losses and gradients of given inputs.

use std::path::Path;

use cloze::cli::ParityDtype;
use telemetry::terminal::{line, note};
use trainer::parity;

/// Computes the cases of `input` and writes the results to `output`.
pub(crate) fn run(input: &Path, output: &Path, dtype: ParityDtype) -> anyhow::Result<()> {
    let dtype = match dtype {
        ParityDtype::F32 => parity::Dtype::F32,
        ParityDtype::F64 => parity::Dtype::F64,
    };
    let summary = parity::run(input, output, dtype)?;
    for (id, objective) in &summary.skipped {
        note(format_args!("skipped case `{id}`: unknown objective `{objective}`"));
    }
    for ignored in &summary.ignored {
        note(format_args!("ignored {ignored}: this objective does not read it"));
    }
    line(format_args!(
        "{}: {} cases computed, {} skipped",
        output.display(),
        summary.computed.len(),
        summary.skipped.len()
    ));
    Ok(())
}
