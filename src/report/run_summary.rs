//! What a run's folder says of it, read from the end of its log.

use std::path::Path;

use serde_json::Value;
use store::{Lines, Lock, Store};
use telemetry::change::How;
use telemetry::training::Why;
use telemetry::{EventKind, jsonl};
use trainer_plan::run::step_budget;

/// Segments of the log that are looked at, until there is a report and a validation: a weeks' log is long, and the answer
/// stands at its end.
const LOOKS: [usize; 3] = [1, 8, usize::MAX];

/// A run at a glance.
pub(crate) struct RunSummary {
    pub(crate) name: String,
    /// `training`, `finished`, `stopped` and saved, `failed`, or `killed`: it said no last word, and nobody holds it.
    /// `damaged`: nobody can read it.
    pub(crate) state: &'static str,
    pub(crate) step: u64,
    /// None where steps do not end it.
    pub(crate) steps: Option<u64>,
    /// The share of another budget that is spent.
    pub(crate) progress: Option<f64>,
    pub(crate) loss: Option<f64>,
    /// `valid/mlm`, or the loss where there is none.
    pub(crate) valid: Option<f64>,
    pub(crate) valid_step: Option<u64>,
    pub(crate) tokens_per_s: Option<f64>,
    /// When it was heard of last.
    pub(crate) time: Option<u64>,
    /// Who trains it.
    pub(crate) holder: Option<String>,
    /// What is damaged.
    pub(crate) error: Option<String>,
}

impl RunSummary {
    /// The run in that store.
    pub(crate) fn of(name: &str, run: &Store) -> anyhow::Result<Self> {
        Self::looked_at(name, run, &LOOKS)
    }

    /// The same from the newest of its log alone: for who has little time.
    pub(crate) fn in_short(name: &str, run: &Store) -> anyhow::Result<Self> {
        Self::looked_at(name, run, &LOOKS[..1])
    }

    fn looked_at(name: &str, run: &Store, looks: &[usize]) -> anyhow::Result<Self> {
        let holder = Lock::seen(run, store::LOCK)?.map(|holder| holder.to_string());
        let mut summary = Self { steps: steps(run)?, ..Self::silent(name) };
        for segments in looks {
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

    /// A run that cannot be read, and why.
    pub(crate) fn damaged(name: &str, error: &anyhow::Error) -> Self {
        Self { state: "damaged", error: Some(format!("{error:#}")), ..Self::silent(name) }
    }

    /// One that has said nothing.
    fn silent(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            state: "killed",
            step: 0,
            steps: None,
            progress: None,
            loss: None,
            valid: None,
            valid_step: None,
            tokens_per_s: None,
            time: None,
            holder: None,
            error: None,
        }
    }

    fn read(&mut self, run: &Store, segments: usize) -> anyhow::Result<()> {
        for line in Lines::newest(run, jsonl::LOG, segments)? {
            // What nobody can read says nothing.
            let Ok(event) = jsonl::parse(&line?) else { continue };
            self.time = Some(event.time);
            // That a checkpoint is kept is said later, with where it stood.
            self.step = self.step.max(event.at.step.map_or(0, |step| step.0));
            self.state = "killed";
            match event.what {
                EventKind::Report(report) => {
                    (self.loss, self.tokens_per_s) = (Some(report.figures.loss), Some(report.speed.tokens_per_s));
                    self.progress = report.progress;
                }
                EventKind::Validation(report) => {
                    self.valid = Some(report.mlm.map_or(report.loss, |mlm| mlm.loss));
                    self.valid_step = event.at.step.map(|step| step.0);
                }
                EventKind::Stop(stop) => {
                    self.state = match stop.why {
                        Why::Finished => "finished",
                        Why::Failed => "failed",
                        _ => "stopped",
                    };
                }
                // Somebody did that to a run that nobody trained: there is more to do.
                EventKind::Change(change) if change.how != How::Allow => self.state = "stopped",
                _ => {}
            }
        }
        Ok(())
    }
}

/// How many steps a run has, by its plan and what was decided since.
fn steps(run: &Store) -> anyhow::Result<Option<u64>> {
    if let Some(last) = step_budget::spans(run)?.last() {
        return Ok(Some(last.steps));
    }
    let plan = run.read_with_stat("plan.json")?.and_then(|(bytes, _)| serde_json::from_slice::<Value>(&bytes).ok());
    Ok(plan.and_then(|plan| plan["steps"].as_u64()))
}

/// What a run has from its first event on.
pub(crate) fn is_run(folder: &Path) -> bool {
    folder.join("config.toml").is_file() && (folder.join(jsonl::LOG).is_dir() || folder.join("checkpoints").is_dir())
}
