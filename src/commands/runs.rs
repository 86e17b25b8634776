//! `cloze runs`: lists all runs below a folder.

use std::path::Path;

use serde_json::{Value, json};
use store::Store;
use telemetry::Clock;
use telemetry::quantities::{count, short};
use telemetry::terminal::{Paint, json_document, line, painted};

use crate::report::run_summary::{RunSummary, age, is_run};

/// Maximum depth of the search.
const DEPTH_MAX: usize = 8;

/// Lists the runs below `folder` by name. Only reads, so runs may be in progress. A damaged run is listed too.
pub(crate) fn run(folder: &Path, is_json: bool) -> anyhow::Result<()> {
    let mut summaries = Vec::new();
    for run in find(folder)? {
        let name = run.display().to_string();
        let summary = Store::existing(&run).map_err(Into::into).and_then(|store| RunSummary::from_run(&name, &store));
        summaries.push(summary.unwrap_or_else(|error| RunSummary::damaged(&name, &error)));
    }
    if is_json {
        json_document(&Value::Array(summaries.iter().map(RunSummary::json).collect()));
    } else {
        table(folder, &summaries);
    }
    match summaries.iter().filter(|summary| summary.error.is_some()).count() {
        0 => Ok(()),
        damaged => anyhow::bail!("{}: {damaged} of {} runs cannot be read", folder.display(), summaries.len()),
    }
}

fn table(folder: &Path, summaries: &[RunSummary]) {
    if summaries.is_empty() {
        line(format_args!("{}: no run is here", folder.display()));
        return;
    }
    let width = summaries.iter().map(|summary| summary.name.chars().count()).max().unwrap_or(0).max(3);
    let heads = ["state", "step", "loss", "valid loss", "tokens/s", "age"];
    let [state, step, loss, valid, speed, age] = heads;
    line(format_args!("{:width$}  {state:9} {step:>19} {loss:>9} {valid:>10} {speed:>9} {age:>9}", "run"));
    for summary in summaries {
        line(summary.row(width));
        if let Some(error) = &summary.error {
            line(format_args!("  {error}"));
        }
    }
    let training = summaries.iter().filter(|summary| summary.is_training()).count();
    let runs = if summaries.len() == 1 { "run" } else { "runs" };
    painted(Paint::stdout().dim(format_args!("{} {runs}, {training} training", count(summaries.len() as u64))));
}

/// Folders that contain a run, sorted by name. Runs and links are not searched.
fn find(folder: &Path) -> anyhow::Result<Vec<std::path::PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![(folder.to_owned(), 0)];
    // The folder itself must exist. A folder that disappears during the search is no run.
    Store::existing(folder)?;
    while let Some((next, depth)) = open.pop() {
        if is_run(&next) {
            found.push(next);
            continue;
        }
        let Ok(entries) = std::fs::read_dir(&next) else { continue };
        for entry in entries.flatten() {
            if depth < DEPTH_MAX && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push((entry.path(), depth + 1));
            }
        }
    }
    found.sort();
    Ok(found)
}

impl RunSummary {
    fn is_training(&self) -> bool {
        self.state == "training"
    }

    fn row(&self, width: usize) -> String {
        let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.4}"));
        let steps = match (self.steps, self.progress) {
            (Some(steps), _) => format!("{} / {}", count(self.step), count(steps)),
            (None, Some(progress)) => format!("{}, {:.1} %", count(self.step), 100.0 * progress),
            (None, None) => count(self.step),
        };
        let speed = self.tokens_per_s.map_or("–".to_owned(), short);
        let age = self.age_s().map_or("–".to_owned(), age);
        let state = self.state;
        let loss = number(self.loss);
        let valid = number(self.valid);
        format!("{:width$}  {state:9} {steps:>19} {loss:>9} {valid:>10} {speed:>9} {age:>9}", self.name)
    }

    /// Seconds since the last event.
    fn age_s(&self) -> Option<f64> {
        self.time.map(|time| Clock::system().time().saturating_sub(time) as f64 / 1e3)
    }

    fn json(&self) -> Value {
        json!({
            "run": self.name, "state": self.state, "step": self.step, "steps": self.steps, "progress": self.progress,
            "loss": self.loss, "valid": self.valid, "valid_mlm": self.valid_mlm, "valid_step": self.valid_step, "tokens_per_s": self.tokens_per_s,
            "time": self.time, "age_s": self.age_s(),
            "holder": self.holder, "error": self.error,
        })
    }
}
