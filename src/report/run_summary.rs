//! Summary of a run, read from its folder and the end of its log.

use std::path::Path;

use serde_json::Value;
use store::{Lines, Lock, Store};
use telemetry::change::How;
use telemetry::training::StopReason;
use telemetry::{EventKind, jsonl};
use trainer_plan::run::step_budget;

/// Numbers of log segments to read, tried in turn until a report and a validation are found. The log of a long run is
/// large, and the newest values are at its end.
const SEGMENTS: [usize; 3] = [1, 8, usize::MAX];

/// Summary of a run.
pub(crate) struct RunSummary {
    pub(crate) name: String,
    /// `training`, `finished`, `stopped` and saved, `failed`, or `killed`: without a last event, and the lock is free.
    /// `damaged`: the folder cannot be read.
    pub(crate) state: &'static str,
    pub(crate) step: u64,
    /// Number of steps; `None` if steps do not end the run.
    pub(crate) steps: Option<u64>,
    /// Used share of the tokens or hours that end the run.
    pub(crate) progress: Option<f64>,
    pub(crate) loss: Option<f64>,
    /// Total loss of the newest validation.
    pub(crate) valid: Option<f64>,
    /// `valid/mlm`; `None` if no objective of the run has a head for it.
    pub(crate) valid_mlm: Option<f64>,
    pub(crate) valid_step: Option<u64>,
    pub(crate) tokens_per_s: Option<f64>,
    /// Optimizer steps per second, without validations.
    pub(crate) steps_per_s: Option<f64>,
    /// Ranks that shared the steps of the newest report.
    pub(crate) ranks: u32,
    /// Time of the last event.
    pub(crate) time: Option<u64>,
    /// Process that trains the run.
    pub(crate) holder: Option<String>,
    /// Error of a damaged run.
    pub(crate) error: Option<String>,
}

impl RunSummary {
    /// Reads the summary of the run in that store.
    pub(crate) fn from_run(name: &str, run: &Store) -> anyhow::Result<Self> {
        Self::from_log(name, run, &SEGMENTS)
    }

    /// Reads the summary from the newest log segment alone, for fast answers.
    pub(crate) fn in_short(name: &str, run: &Store) -> anyhow::Result<Self> {
        Self::from_log(name, run, &SEGMENTS[..1])
    }

    fn from_log(name: &str, run: &Store, reads: &[usize]) -> anyhow::Result<Self> {
        let holder = Lock::seen(run, store::LOCK)?.map(|holder| holder.to_string());
        let mut summary = Self { steps: steps(run)?, ..Self::empty(name) };
        for segments in reads {
            summary.read(run, *segments)?;
            if summary.loss.is_some() && summary.valid.is_some() {
                break;
            }
        }
        if holder.is_some() {
            (summary.state, summary.holder) = ("training", holder);
        }
        Ok(summary)
    }

    /// Summary of a run that cannot be read, with the error.
    pub(crate) fn damaged(name: &str, error: &anyhow::Error) -> Self {
        Self { state: "damaged", error: Some(format!("{error:#}")), ..Self::empty(name) }
    }

    /// Summary of a run without events.
    fn empty(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            state: "killed",
            step: 0,
            steps: None,
            progress: None,
            loss: None,
            valid: None,
            valid_mlm: None,
            valid_step: None,
            tokens_per_s: None,
            steps_per_s: None,
            ranks: 1,
            time: None,
            holder: None,
            error: None,
        }
    }

    fn read(&mut self, run: &Store, segments: usize) -> anyhow::Result<()> {
        for line in Lines::newest(run, jsonl::LOG, segments)? {
            // Unreadable lines are skipped.
            let Ok(event) = jsonl::parse(&line?) else { continue };
            self.time = Some(event.time);
            // A checkpoint is logged some steps after its own step.
            self.step = self.step.max(event.at.step.map_or(0, |step| step.0));
            self.state = "killed";
            match event.what {
                EventKind::Report(report) => {
                    (self.loss, self.tokens_per_s) = (Some(report.figures.loss), Some(report.speed.tokens_per_s));
                    self.steps_per_s = report.speed.steps_per_s;
                    self.ranks = u32::try_from(report.ranks.len().max(1)).unwrap_or(u32::MAX);
                    self.progress = report.progress;
                }
                EventKind::Validation(report) => {
                    self.valid = Some(report.loss);
                    self.valid_mlm = report.mlm.map(|mlm| mlm.loss);
                    self.valid_step = event.at.step.map(|step| step.0);
                }
                EventKind::Stop(stop) => {
                    self.state = match stop.why {
                        StopReason::Finished => "finished",
                        StopReason::Failed => "failed",
                        _ => "stopped",
                    };
                }
                // A rollback or an extension of a run that was not training: it has steps left.
                EventKind::Change(change) if change.how != How::Allow => self.state = "stopped",
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the number of steps of a run: the newest amendment, or the plan.
pub(crate) fn steps(run: &Store) -> anyhow::Result<Option<u64>> {
    if let Some(last) = step_budget::spans(run)?.last() {
        return Ok(Some(last.steps));
    }
    let plan = run.get_with_stat("plan.json")?.and_then(|(bytes, _)| serde_json::from_slice::<Value>(&bytes).ok());
    Ok(plan.and_then(|plan| plan["steps"].as_u64()))
}

/// Whether a folder holds a run that has logged its first event.
pub(crate) fn is_run(folder: &Path) -> bool {
    folder.join("config.toml").is_file() && (folder.join(jsonl::LOG).is_dir() || folder.join("checkpoints").is_dir())
}

/// Formats a time since an event in one unit, rounded down, so that an older event never looks younger.
pub(crate) fn age(seconds: f64) -> String {
    let [minute, hour, day] = [60.0, 3600.0, 86_400.0];
    match seconds {
        s if s < minute => format!("{:.0} s", s.floor()),
        s if s < hour => format!("{:.0} min", (s / minute).floor()),
        s if s < day => format!("{:.0} h", (s / hour).floor()),
        s => format!("{:.0} d", (s / day).floor()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_change_their_unit_at_whole_units() {
        let ages = [0.0, 59.9, 60.0, 97.0, 3599.0, 3600.0, 86_399.0, 86_400.0, 1e6].map(age);
        assert_eq!(ages, ["0 s", "59 s", "1 min", "1 min", "59 min", "1 h", "23 h", "1 d", "11 d"]);
    }

    #[test]
    fn validation_is_the_total_loss_of_every_run() {
        let validation = |mlm: &str| {
            format!(
                r#"{{"version":2,"time":1,"elapsed_s":1.0,"kind":"validation","step":7,"rows":4,"loss":3.5,"terms":{{}},"metrics":{{}},"mlm":{mlm},"seconds":0.1}}"#
            )
        };
        let mlm = r#"{"loss":2.5,"accuracy":0.1,"ln_vocab":8.0}"#;
        for (with, expected) in [(mlm, Some(2.5)), ("null", None)] {
            let run = Store::in_memory(store::FaultConfig::none());
            let log = format!("{}/00000000.jsonl", jsonl::LOG);
            run.put(&log, format!("{}\n", validation(with)).as_bytes()).expect("a log");
            let summary = RunSummary::from_run("a", &run).expect("a run");
            assert_eq!((summary.valid, summary.valid_mlm), (Some(3.5), expected));
        }
    }
}
