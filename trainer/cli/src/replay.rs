//! `cloze replay`: repeats a step of a run bit by bit, or without some of its rows.

use std::path::Path;

use pipeline::load::ExcludedRows;
use serde_json::json;
use telemetry::terminal::{line, note};
use trainer::training::Observed;

use super::replay_session::{Logged, ReplaySession, parse_rows};

/// Options of `cloze replay`.
pub(crate) struct Options<'a> {
    /// Step, counted from 1.
    pub(crate) step: u64,
    /// Rows to replace by padding.
    pub(crate) without: Option<&'a str>,
    pub(crate) json: bool,
    pub(crate) set: &'a [String],
}

/// Whether a repeated step equals the log of the run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    Differs,
    Unknown,
}

impl Comparison {
    fn from_difference(differs: Option<bool>) -> Self {
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

/// Repeats the step. Returns an error if its numbers differ from the log.
pub(crate) fn run(run: &Path, options: &Options<'_>) -> anyhow::Result<()> {
    let mut session = ReplaySession::prepare(run, options.step, options.set)?;
    let logged = Logged::read(&session.store, options.step)?;
    let without = options.without.map(|rows| parse_rows(rows, &session.rows())).transpose()?;
    let from = session.replay.from().map(str::to_owned);
    let rows = session.rows();
    let lr = session.replay.lr();
    let is_skipped = session.replay.skipped().is_some();
    // Starts from the same weights, and is undone.
    let mut other = None;
    if let Some(without) = without {
        other = Some(session.replay.attempt(&session.batches(without)?)?);
    }
    let steps = session.steps;
    let batches = session.batches(ExcludedRows::default())?;
    session.step(&batches)?;
    let seen = session.replay.observed()?;
    let until = logged.hash.as_ref().map(|(step, _)| *step);
    let hash = until.map(|until| session.hash_after(until)).transpose()?;
    let differs = logged.differs(seen.loss, seen.norm);
    let figures = Comparison::from_difference(differs.map(|differs| !is_skipped && differs));
    let row_comparison = Comparison::from_difference(logged.hash.as_ref().map(|(_, then)| Some(then) != hash.as_ref()));
    if options.json {
        let figures_of = |seen: &Observed| json!({ "loss": seen.loss, "grad_norm": seen.norm });
        line(json!({
            "step": options.step, "from": from, "steps_again": steps, "first_row": rows.start, "rows": rows.end - rows.start,
            "lr": lr, "passed_over": is_skipped, "seen": figures_of(&seen),
            "log": logged.figures.map(|(loss, grad_norm)| json!({ "loss": loss, "grad_norm": grad_norm })),
            "figures": figures.word(), "batch_hash": session.replay.batch_hash().to_hex(), "hashes": row_comparison.word(),
            "without": other.as_ref().map(figures_of),
        }));
    } else {
        let begun = from.unwrap_or_else(|| "the beginning".to_owned());
        line(format_args!("step {}: repeated {steps} steps from {begun}", options.step));
        line(format_args!("  rows {} to {}  lr {lr:.1e}", rows.start, rows.end - 1));
        if is_skipped {
            line("  skipped: its rows were consumed without training");
        } else {
            line(format_args!("  loss {:.6}  norm {:.6}", seen.loss, seen.norm));
        }
        match (figures, logged.figures) {
            (Comparison::Equal, Some((loss, norm))) if !is_skipped && logged.ranks > 1 => line(format_args!(
                "  logged: loss {loss:.6}  norm {norm:.6}, equal within rounding: {} ranks add in another order than this process",
                logged.ranks
            )),
            (Comparison::Equal, _) if !is_skipped => line("  equal to the log, bit by bit"),
            (Comparison::Differs, Some((loss, norm))) => line(format_args!("  logged: loss {loss:.6}  norm {norm:.6}")),
            _ => {}
        }
        match (row_comparison, until) {
            (Comparison::Equal, Some(until)) => {
                line(format_args!("  the rows up to step {until} equal those of the log (hash of the stream)"));
            }
            (Comparison::Differs, Some(until)) => {
                line(format_args!("  the rows up to step {until} DIFFER from those of the log"));
            }
            _ => line("  the log has no report of this step"),
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
    if Comparison::Differs == figures || Comparison::Differs == row_comparison {
        note(
            "hint: results are equal bit by bit for equal threads, libtorch and device, on a GPU only with \
             `train.deterministic`; rows are always equal, unless the prepared folder has changed",
        );
        anyhow::bail!("step {} differs from the log", options.step);
    }
    Ok(())
}
