//! Events as text: short plain lines for users.

mod preparation;

use std::collections::BTreeMap;

pub use self::preparation::filter;
pub(crate) use preparation::beside_progress_bar;
use schemas::ordinal::Step;

use crate::event::{Event, EventKind, Position};

use crate::quantities::{self};
use crate::training::{
    AuditReport, BadRowReport, CheckpointReport, DatasetVersionReport, DevicePeak, EarlyStopReport, EnvironmentReport,
    Figures, LossSpikeReport, SkipReport, SpikeMetric, StartReport, StarvedReport, StepReport, StopReason, StopReport,
    ValidReport, Warning,
};

/// Minimum fraction of wall time waiting for checkpoints that a report line shows.
const STALL: f64 = 0.01;
/// Minimum wait for one checkpoint that its line shows, in seconds.
const STALL_S: f64 = 1.0;

/// Returns the text of an event for users, without the final newline. The start and the end of a preparation have
/// several lines. Returns `None` for events that are only for programs.
#[must_use]
pub fn line(event: &Event) -> Option<String> {
    sentence(event).map(|sentence| format!("{}{sentence}", prefix(event)))
}

/// Maximum number of characters of a [`summary`].
const SUMMARY_MAX: usize = 2000;

/// Returns the text of an event without position and severity, which an event list shows in separate columns.
///
/// Lines are joined by semicolons. The text also has details that the terminal prints in other lines. It has at most
/// 2,000 characters. Returns `None` for frequent kinds (reports, validations, progress, finished parts) and for unknown
/// kinds.
#[must_use]
pub fn summary(event: &Event) -> Option<String> {
    let sentence = sentence(event).map(|sentence| sentence.replace('\n', "; "));
    let summary = match &event.what {
        EventKind::Report(_) | EventKind::Validation(_) | EventKind::PrepareProgress(_) => None,
        EventKind::Stop(report) => Some(stop_summary(&event.at, report, sentence)),
        EventKind::Resume(report) => sentence.map(|sentence| format!("{sentence}, from {}", report.place)),
        EventKind::Environment(report) => Some(environment(report)),
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

/// Returns the text of the end of a run, with the signal or the error that caused it.
fn stop_summary(at: &Position, report: &StopReport, sentence: Option<String>) -> String {
    let cause = match (report.why, &report.error) {
        (_, Some(error)) => Some(error.as_str()),
        (StopReason::Interrupt, None) => Some("SIGINT"),
        (StopReason::Terminate, None) => Some("SIGTERM"),
        (StopReason::Hangup, None) => Some("SIGHUP"),
        (StopReason::Requeue, None) => Some("SIGUSR1"),
        (StopReason::Finished | StopReason::Guard | StopReason::Failed | StopReason::Other, None) => None,
    };
    let sentence = sentence.unwrap_or_else(|| match at.step {
        Some(step) if report.saved && step > Step::default() => format!("failed after step {step}, which is saved"),
        _ => "failed".to_owned(),
    });
    cause.map_or_else(|| sentence.clone(), |cause| format!("{sentence}: {cause}"))
}

/// Returns the program, the device and the number format of a process.
fn environment(report: &EnvironmentReport) -> String {
    let EnvironmentReport { program, device, gpu, products, threads, .. } = report;
    let gpu = gpu.as_ref().map_or_else(String::new, |gpu| format!(" ({gpu})"));
    format!("cloze {program} on {device}{gpu}, {products}, {threads} threads")
}

/// Returns the prefix of a line: its position and its severity.
fn prefix(event: &Event) -> String {
    let position = format!("{}  ", steps(&event.at));
    match &event.what {
        EventKind::Start(_)
        | EventKind::Report(_)
        | EventKind::Validation(_)
        | EventKind::Change(_)
        | EventKind::EarlyStop(_)
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
        EventKind::EarlyStop(report) => early_stop(report),
        EventKind::Change(report) => report.message.clone(),
        // Control characters and line feeds in the text of a note must not forge other lines.
        EventKind::Note(note) => schemas::printable(&note.text.replace('\n', " / ")).to_string(),
        EventKind::Resume(_) => format!("continuing after {}", steps(at)),
        EventKind::Warning(warning) => warn(warning),
        EventKind::Audit(report) => audit(report),
        EventKind::DatasetVersion(report) => dataset_version(report),
        EventKind::Starved(report) => starved(report),
        EventKind::LossSpike(report) => loss_spike(report),
        EventKind::Skip(report) => skip(report),
        EventKind::BadRow(report) => bad_row(report),
        EventKind::Stop(report) => return stop(at, report),
        EventKind::PrepareStart(start) => preparation::start(start),
        EventKind::PrepareProgress(progress) => preparation::line(progress),
        EventKind::PrepareEnd(end) => preparation::end(end),
        EventKind::Environment(_) | EventKind::PartDone(_) | EventKind::Unknown(_) => return None,
    })
}

/// Returns whether the line is a result, which goes to stdout. Other lines are progress, which goes to stderr.
pub(crate) fn is_result(event: &Event) -> bool {
    matches!(
        event.what,
        EventKind::Start(_) | EventKind::Report(_) | EventKind::Validation(_) | EventKind::PrepareEnd(_)
    )
}

/// Returns the step as text, such as `step 1200`.
fn steps(at: &Position) -> String {
    format!("step {}", at.step.unwrap_or_default())
}

fn start(report: &StartReport) -> String {
    let weights = if report.random { "random weights" } else { "given weights" };
    format!("started from {weights}: {}", list(&report.terms))
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

/// Returns `saved checkpoint runs/a/checkpoints/step-00001200`, and the wait for it if that is at least [`STALL_S`].
fn checkpoint(report: &CheckpointReport) -> String {
    let stall = report.stall_s;
    let waited = if stall >= STALL_S { format!("; the next step waited {stall:.1} s") } else { String::new() };
    format!("saved checkpoint {}{waited}", report.place)
}

fn validation(report: &ValidReport) -> String {
    // Fine-tunings name their objective `task`. Its metrics are those that the user compares.
    let task = report.metrics.iter().filter(|(name, _)| name.starts_with("task."));
    let task: Vec<String> = task.map(|(name, value)| format!("  {name} {value:.4}")).collect();
    let line = format!("valid loss {:.4} ({}){}", report.loss, list(&report.terms), task.concat());
    let Some(mlm) = &report.mlm else { return line };
    let unigram = mlm.unigram_cross_entropy.map_or(String::new(), |nats| format!(", unigram {nats:.2}"));
    format!("{line}  valid/mlm {:.4} (ln V {:.2}{unigram})", mlm.loss, mlm.ln_vocab)
}

fn warn(warning: &Warning) -> String {
    let hint = warning.hint.as_ref().map_or(String::new(), |hint| format!("; {hint}"));
    format!("{}{hint}", warning.message)
}

fn audit(report: &AuditReport) -> String {
    let AuditReport { view, what, found, promised, error, of } = report;
    format!("audited `{view}`: {what}: {found} (specified {promised}, standard error {error}, n = {of})")
}

fn dataset_version(report: &DatasetVersionReport) -> String {
    let DatasetVersionReport { dataset_version, before, row, source } = report;
    let data = source.as_ref().map_or("the data".to_owned(), |source| format!("source `{source}`"));
    format!("rows from {row} on are of dataset version {dataset_version} of {data} (before: {before})")
}

fn early_stop(report: &EarlyStopReport) -> String {
    let EarlyStopReport { metric, value, best, best_step, validations } = report;
    let best = best.map_or_else(|| "no finite value".to_owned(), |best| format!("{best:.4} at step {best_step}"));
    format!("ends early: `{metric}` is {value:.4}; {best} is the best, {validations} validations ago")
}

fn starved(report: &StarvedReport) -> String {
    let StarvedReport { by, seconds, part, parts } = report;
    format!("starved by {by}: waited {seconds:.1} s for part {} of {parts}", part.saturating_add(1))
}

fn loss_spike(report: &LossSpikeReport) -> String {
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
        format!("; row with the highest loss: {} (loss {:.4}; {documents})", suspect.row, suspect.loss)
    });
    format!("skipped: {}{}", loss_spike(&report.spike), schemas::printable(&hardest))
}

fn bad_row(report: &BadRowReport) -> String {
    let BadRowReport { row, source, sample, shard, group, row_in_group, why, .. } = report;
    let source = source.as_ref().map_or(String::new(), |source| format!(" of {source}"));
    let place = format!("sample {sample}{source} = {shard}, row group {group}, row {row_in_group}");
    format!("row {row} is excluded because it cannot be built ({place}): {why}")
}

fn stop(at: &Position, report: &StopReport) -> Option<String> {
    let done = at.step.unwrap_or_default();
    let kept = report
        .kept
        .map_or("there is no checkpoint yet".to_owned(), |kept| format!("the newest checkpoint is at step {kept}"));
    match report.why {
        StopReason::Finished => {
            Some(format!("done: {done} steps; checkpoints are in {}{}", report.place, peak(report.memory)))
        }
        // The caller prints the error. If no step was done since the newest checkpoint, there is nothing to add.
        StopReason::Failed if report.saved || done == Step::default() => None,
        StopReason::Failed => Some(format!("failed after step {done}, which is not saved; {kept}")),
        StopReason::Guard if report.saved => {
            Some(format!("paused and saved after step {done}, after a loss spike; the same command continues"))
        }
        StopReason::Interrupt
        | StopReason::Terminate
        | StopReason::Hangup
        | StopReason::Requeue
        | StopReason::Other
            if report.saved =>
        {
            Some(format!("stopped and saved after step {done}; the same command continues"))
        }
        StopReason::Interrupt
        | StopReason::Terminate
        | StopReason::Hangup
        | StopReason::Requeue
        | StopReason::Guard
        | StopReason::Other => {
            Some(format!("stopped after step {done}, which is not saved; {kept}; the same command continues"))
        }
    }
}

/// Returns `; device memory: peak 3.1 GiB, planned 3.0 GiB`, or nothing if it is not known.
fn peak(memory: Option<DevicePeak>) -> String {
    memory.map_or(String::new(), |DevicePeak { peak_bytes, planned_bytes }| {
        let peak = quantities::bytes(peak_bytes);
        let planned = quantities::bytes(planned_bytes);
        format!("; device memory: peak {peak}, planned {planned}")
    })
}

fn list(terms: &BTreeMap<String, f64>) -> String {
    terms.iter().map(|(name, value)| format!("{name} {value:.4}")).collect::<Vec<_>>().join(", ")
}
