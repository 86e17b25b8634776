//! `cloze replay`: a step of a run once more, to the bit, or without some of its rows.

use std::path::Path;

use pipeline::load::LeftOut;
use serde_json::json;
use telemetry::terminal::{line, note};
use trainer::training::Observed;

use super::replay_session::{Logged, ReplaySession, parse_rows};

/// What is asked.
pub(crate) struct Options<'a> {
    /// The step, counted from 1.
    pub(crate) step: u64,
    /// Rows that are to be padding.
    pub(crate) without: Option<&'a str>,
    pub(crate) json: bool,
    pub(crate) set: &'a [String],
}

/// Whether a step came out as the run has it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Equal,
    Differs,
    Unknown,
}

impl Found {
    fn of(differs: Option<bool>) -> Self {
        match differs {
            None => Self::Unknown,
            Some(true) => Self::Differs,
            Some(false) => Self::Equal,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Differs => "different",
            Self::Unknown => "unknown",
        }
    }
}

/// Does the step once more. An error where its numbers are not those of the log.
pub(crate) fn run(run: &Path, options: &Options<'_>) -> anyhow::Result<()> {
    let mut again = ReplaySession::before(run, options.step, options.set)?;
    let logged = Logged::of(&again.store, options.step)?;
    let without = options.without.map(|rows| parse_rows(rows, &again.rows())).transpose()?;
    let (from, rows, lr) = (again.replay.from().map(str::to_owned), again.rows(), again.replay.lr());
    let passed_over = again.replay.skipped().is_some();
    // From the same weights, and taken back.
    let mut other = None;
    if let Some(without) = without {
        other = Some(again.replay.attempt(&again.batches(without)?)?);
    }
    let (steps, batches) = (again.steps, again.batches(LeftOut::default())?);
    again.step(&batches)?;
    let seen = again.replay.observed()?;
    let until = logged.hash.as_ref().map(|(step, _)| *step);
    let hash = until.map(|until| again.hash_after(until)).transpose()?;
    let figures = Found::of(logged.figures.map(|(loss, norm)| {
        !passed_over && (loss.to_bits(), norm.to_bits()) != (seen.loss.to_bits(), seen.norm.to_bits())
    }));
    let rows_seen = Found::of(logged.hash.as_ref().map(|(_, then)| Some(then) != hash.as_ref()));
    if options.json {
        let figures_of = |seen: &Observed| json!({ "loss": seen.loss, "grad_norm": seen.norm });
        line(json!({
            "step": options.step, "from": from, "steps_again": steps, "first_row": rows.start, "rows": rows.end - rows.start,
            "lr": lr, "passed_over": passed_over, "seen": figures_of(&seen),
            "log": logged.figures.map(|(loss, grad_norm)| json!({ "loss": loss, "grad_norm": grad_norm })),
            "figures": figures.word(), "batch_hash": again.replay.batch_hash().to_hex(), "hashes": rows_seen.word(),
            "without": other.as_ref().map(figures_of),
        }));
    } else {
        let begun = from.unwrap_or_else(|| "the beginning".to_owned());
        line(format_args!("step {}: {steps} steps once more from {begun}", options.step));
        line(format_args!("  rows {} to {}  lr {lr:.1e}", rows.start, rows.end - 1));
        if passed_over {
            line("  it is skipped: its rows were consumed and taught nothing");
        } else {
            line(format_args!("  loss {:.6}  norm {:.6}", seen.loss, seen.norm));
        }
        match (figures, logged.figures) {
            (Found::Equal, _) if !passed_over => line("  the log has the same, to the bit"),
            (Found::Differs, Some((loss, norm))) => line(format_args!("  the log has loss {loss:.6}  norm {norm:.6}")),
            _ => {}
        }
        match (rows_seen, until) {
            (Found::Equal, Some(until)) => {
                line(format_args!("  the rows up to step {until} are those of the log (hash of the stream)"));
            }
            (Found::Differs, Some(until)) => {
                line(format_args!("  the rows up to step {until} are NOT those of the log"));
            }
            _ => line("  the log has no report of it"),
        }
        if let Some(other) = &other {
            let by = |now: f64, then: f64| format!("{:+.6}", now - then);
            line(format_args!(
                "without {}: loss {:.6} ({})  norm {:.6} ({})",
                options.without.unwrap_or_default(),
                other.loss,
                by(other.loss, seen.loss),
                other.norm,
                by(other.norm, seen.norm)
            ));
        }
    }
    if Found::Differs == figures || Found::Differs == rows_seen {
        note(
            "hint: bits are equal for equal threads, libtorch and device, on a GPU with `train.deterministic`; rows are equal \
             always, unless the prepared folder is another",
        );
        anyhow::bail!("step {} did not come out as it did", options.step);
    }
    Ok(())
}
