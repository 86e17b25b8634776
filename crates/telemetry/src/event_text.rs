//! Events for people: plain lines, as few as can be.

mod preparation;

use std::collections::BTreeMap;

pub(crate) use preparation::beside_bar;
use schemas::ordinal::Step;

use crate::event::{Event, EventKind, Position};

use crate::quantities::{self};
use crate::training::{
    AuditReport, BadRowReport, CheckpointReport, DatasetVersionReport, DevicePeak, Figures, LossSpikeReport,
    SkipReport, SpikeMetric, StartReport, StarvedReport, StepReport, StopReport, ValidReport, Warning, Why,
};

/// From this share of the time on it is worth a word that steps wait for checkpoints.
const STALL: f64 = 0.01;
/// The same of one checkpoint, in seconds.
const STALL_S: f64 = 1.0;

/// What people see of an event, without the newline that ends it; a preparation begins and ends with several lines.
/// Nothing for events that only programs care about.
#[must_use]
pub fn line(event: &Event) -> Option<String> {
    sentence(event).map(|sentence| format!("{}{sentence}", prefix(event)))
}

/// The most characters of a [`summary`].
const SUMMARY_MAX: usize = 2000;

/// What happened, without the position and the severity, which a list of events shows in columns of their own; several
/// sentences are joined by semicolons, and what the terminal leaves to other lines is added. At most 2,000 characters. None
/// for kinds that are not told one by one and for those that this program does not know.
#[must_use]
pub fn summary(event: &Event) -> Option<String> {
    let sentence = sentence(event).map(|sentence| sentence.replace('\n', "; "));
    let summary = match &event.what {
        EventKind::Report(_) | EventKind::Validation(_) | EventKind::PrepareProgress(_) => None,
        EventKind::Stop(report) => Some(stop_summary(&event.at, report, sentence)),
        EventKind::Resume(report) => sentence.map(|sentence| format!("{sentence}, from {}", report.place)),
        EventKind::Checkpoint(report) => {
            sentence.map(|sentence| format!("{sentence}; written in {}", quantities::time(report.seconds)))
        }
        EventKind::BadRow(report) => {
            sentence.map(|sentence| format!("{sentence}; documents {}", report.documents.join(", ")))
        }
        _ => sentence,
    };
    summary.map(|summary| match summary.char_indices().nth(SUMMARY_MAX) {
        Some((end, _)) => format!("{}…", &summary[..end]),
        None => summary,
    })
}

/// The end of a run with the signal or the error that caused it.
fn stop_summary(at: &Position, report: &StopReport, sentence: Option<String>) -> String {
    let cause = match (report.why, &report.error) {
        (_, Some(error)) => Some(error.as_str()),
        (Why::Interrupt, None) => Some("SIGINT"),
        (Why::Terminate, None) => Some("SIGTERM"),
        (Why::Hangup, None) => Some("SIGHUP"),
        (Why::Requeue, None) => Some("SIGUSR1"),
        (Why::Finished | Why::Guard | Why::Failed | Why::Other, None) => None,
    };
    let sentence = sentence.unwrap_or_else(|| match at.step {
        Some(step) if report.saved && step > Step::default() => format!("failed after step {step}, which is saved"),
        _ => "failed".to_owned(),
    });
    cause.map_or_else(|| sentence.clone(), |cause| format!("{sentence}: {cause}"))
}

/// Position and severity in front of the sentence of a line.
fn prefix(event: &Event) -> String {
    let position = format!("{}  ", steps(&event.at));
    match &event.what {
        EventKind::Start(_)
        | EventKind::Report(_)
        | EventKind::Validation(_)
        | EventKind::Change(_)
        | EventKind::DatasetVersion(_)
        | EventKind::Starved(_) => position,
        EventKind::Note(_) => format!("{position}note: "),
        EventKind::BadRow(_) => format!("warning: {position}"),
        EventKind::Warning(_) | EventKind::LossSpike(_) => "warning: ".to_owned(),
        _ => String::new(),
    }
}

fn sentence(event: &Event) -> Option<String> {
    let at = &event.at;
    Some(match &event.what {
        EventKind::Start(report) => start(report),
        EventKind::Report(report) => step(report),
        EventKind::Validation(report) => validation(report),
        EventKind::Checkpoint(report) => checkpoint(report),
        EventKind::Change(report) => report.message.clone(),
        // One note is one line: control characters and line feeds of its text must not write others.
        EventKind::Note(note) => schemas::printable(&note.text.replace('\n', " / ")).to_string(),
        EventKind::Resume(_) => format!("continuing after {}", steps(at)),
        EventKind::Warning(warning) => warn(warning),
        EventKind::Audit(report) => audit(report),
        EventKind::DatasetVersion(report) => dataset_version(report),
        EventKind::Starved(report) => starved(report),
        EventKind::LossSpike(report) => leap(report),
        EventKind::Skip(report) => skip(report),
        EventKind::BadRow(report) => left_out(report),
        EventKind::Stop(report) => return stop(at, report),
        EventKind::PrepareStart(start) => preparation::start(start),
        EventKind::PrepareProgress(progress) => preparation::line(progress),
        EventKind::PrepareEnd(end) => preparation::end(end),
        EventKind::PartDone(_) | EventKind::Unknown(_) => return None,
    })
}

/// Whether the line is a result, for stdout. The others tell how the work goes, for stderr.
pub(crate) fn is_result(event: &Event) -> bool {
    matches!(
        event.what,
        EventKind::Start(_) | EventKind::Report(_) | EventKind::Validation(_) | EventKind::PrepareEnd(_)
    )
}

/// `step 1200`; a run always says where it stands.
fn steps(at: &Position) -> String {
    format!("step {}", at.step.unwrap_or_default())
}

fn start(report: &StartReport) -> String {
    let how = if report.random { "at random" } else { "from weights it was given" };
    format!("began {how} with {}", list(&report.terms))
}

fn step(report: &StepReport) -> String {
    let StepReport {
        figures: Figures { loss, terms, lr, grad_norm, skipped, .. },
        progress,
        speed,
        source_epochs,
        memory,
        ..
    } = report;
    let learned = format!("loss {loss:.4} ({})  lr {lr:.1e}  norm {grad_norm:.2}", list(terms));
    let rate = quantities::tokens_per_s(speed.tokens_per_s);
    let mfu = speed.mfu.map_or(String::new(), |mfu| format!("  mfu {:.0} %", 100.0 * mfu));
    let memory = memory.map_or(String::new(), |memory| {
        format!(
            "  memory {} of {}",
            quantities::bytes(memory.allocated_peak_bytes),
            quantities::bytes(memory.total_bytes)
        )
    });
    let wait = 100.0 * speed.data_wait;
    let skipped = if *skipped > 0 { format!("  skipped {skipped}") } else { String::new() };
    let stall = if speed.checkpoint_stall >= STALL {
        format!("  saving {:.1} %", 100.0 * speed.checkpoint_stall)
    } else {
        String::new()
    };
    let done = progress.map_or(String::new(), |progress| format!("  {:.1} % done", 100.0 * progress));
    let sources = source_epochs.iter().map(|(source, epochs)| format!("{source} {epochs:.2}")).collect::<Vec<_>>();
    let sources = if sources.is_empty() { String::new() } else { format!("  epochs {}", sources.join(", ")) };
    let eta = quantities::eta(speed.eta_s);
    format!("{learned}{sources}  {rate}{mfu}  wait {wait:.1} %{stall}{memory}{done}{eta}{skipped}")
}

/// `saved checkpoint runs/a/checkpoints/step-00001200`, and how long steps waited for it where that can be felt.
fn checkpoint(report: &CheckpointReport) -> String {
    let stall = report.stall_s;
    let waited = if stall >= STALL_S { format!("; the next step waited {stall:.1} s for it") } else { String::new() };
    format!("saved checkpoint {}{waited}", report.place)
}

fn validation(report: &ValidReport) -> String {
    let line = format!("valid loss {:.4} ({})", report.loss, list(&report.terms));
    let Some(mlm) = &report.mlm else { return line };
    format!("{line}  valid/mlm {:.4} (ln V {:.2}, unigram {:.2})", mlm.loss, mlm.ln_vocab, mlm.unigram_entropy)
}

fn warn(warning: &Warning) -> String {
    let hint = warning.hint.as_ref().map_or(String::new(), |hint| format!("; {hint}"));
    format!("{}{hint}", warning.message)
}

fn audit(report: &AuditReport) -> String {
    let AuditReport { view, what, found, promised, error, of } = report;
    format!("audited `{view}`: {what}: {found}, promised {promised}, error {error}, of {of}")
}

fn dataset_version(report: &DatasetVersionReport) -> String {
    let DatasetVersionReport { dataset_version, before, row, source } = report;
    let data = source.as_ref().map_or("the data".to_owned(), |source| format!("source `{source}`"));
    format!("rows from {row} on are of dataset version {dataset_version} of {data}, {before} before")
}

fn starved(report: &StarvedReport) -> String {
    let StarvedReport { by, seconds, part, parts } = report;
    format!("starved by {by}: {seconds:.1} s until part {} of {parts} was there", part.saturating_add(1))
}

fn leap(report: &LossSpikeReport) -> String {
    let LossSpikeReport { spike_step, first_row, rows, figure, value, median, sigmas } = report;
    let figure = match figure {
        SpikeMetric::Loss => "loss",
        SpikeMetric::GradNorm => "norm",
    };
    let last = first_row.0.saturating_add(rows.saturating_sub(1));
    format!(
        "loss spike at step {spike_step}: {figure} {value:.4} (median {median:.4}, {sigmas:.0} sigma); rows {first_row} to {last}"
    )
}

fn skip(report: &SkipReport) -> String {
    let hardest = report.suspects.first().map_or(String::new(), |suspect| {
        let documents = suspect.documents.join(", ");
        format!("; its hardest row is {} (loss {:.4}; {documents})", suspect.row, suspect.loss)
    });
    format!("skipped: {}{}", leap(&report.leap), schemas::printable(&hardest))
}

fn left_out(report: &BadRowReport) -> String {
    let BadRowReport { row, source, sample, shard, group, row_in_group, why, .. } = report;
    let source = source.as_ref().map_or(String::new(), |source| format!(" of {source}"));
    let place = format!("sample {sample}{source} = {shard}, row group {group}, row {row_in_group}");
    format!("row {row} is left out, it cannot be made ({place}): {why}")
}

fn stop(at: &Position, report: &StopReport) -> Option<String> {
    let done = at.step.unwrap_or_default();
    let kept = report
        .kept
        .map_or("there is no checkpoint yet".to_owned(), |kept| format!("the newest checkpoint is of step {kept}"));
    match report.why {
        Why::Finished => {
            Some(format!("done: {done} steps; checkpoints are in {}{}", report.place, peak(report.memory)))
        }
        // Whoever meets the error prints it; where nothing was done since the newest checkpoint, it is all there is to say.
        Why::Failed if report.saved || done == Step::default() => None,
        Why::Failed => Some(format!("failed after step {done}, which is not saved; {kept}")),
        Why::Guard if report.saved => {
            Some(format!("paused and saved after step {done}, after a loss spike; the same command continues"))
        }
        Why::Interrupt | Why::Terminate | Why::Hangup | Why::Requeue | Why::Other if report.saved => {
            Some(format!("stopped and saved after step {done}; the same command continues"))
        }
        Why::Interrupt | Why::Terminate | Why::Hangup | Why::Requeue | Why::Guard | Why::Other => {
            Some(format!("stopped after step {done}, which is not saved; {kept}; the same command continues"))
        }
    }
}

/// `; at most 3.1 GiB of the device at once, 3.0 GiB by plan`, where it is known.
fn peak(memory: Option<DevicePeak>) -> String {
    memory.map_or(String::new(), |DevicePeak { peak_bytes, planned_bytes }| {
        let (most, planned) = (quantities::bytes(peak_bytes), quantities::bytes(planned_bytes));
        format!("; at most {most} of the device at once, {planned} by plan")
    })
}

fn list(terms: &BTreeMap<String, f64>) -> String {
    terms.iter().map(|(name, value)| format!("{name} {value:.4}")).collect::<Vec<_>>().join(", ")
}
