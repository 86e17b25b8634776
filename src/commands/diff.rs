//! `cloze diff`: compares two runs and finds the first step that differs.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value as Json, json};
use store::{Lines, Store};
use telemetry::change::KeyChange;
use telemetry::terminal::{json_document, line};
use telemetry::{EventKind, jsonl};
use toml::Table;
use trainer_plan::checkpoint::{self, State};

use super::checkpoints::existing;
use crate::plan::identity::keys_but;

/// Values of a report that are equal in two equal runs.
#[derive(PartialEq)]
struct LoggedReport {
    batch_hash: String,
    trained: String,
}

/// Compares two runs. Only reads, so a run may be in progress.
pub(crate) fn run(one: &Path, other: &Path, is_json: bool) -> anyhow::Result<()> {
    let [first, second] = [existing(one)?, existing(other)?];
    let keys = KeyChange::compare(&config(&first)?, &config(&second)?);
    let around = KeyChange::compare(&configuration(&first)?, &configuration(&second)?);
    let course = MetricComparison::compare(&reports(&first)?, &reports(&second)?);
    if is_json {
        json_document(&json!({ "config": keys, "around": around, "reports": course.json() }));
        return Ok(());
    }
    let say = |what: &str, changes: &[KeyChange]| {
        if changes.is_empty() {
            line(format_args!("{what}: the same"));
        }
        for change in changes {
            line(format_args!("{what}: {change}"));
        }
    };
    say("config", &keys);
    say("around", &around);
    course.print();
    Ok(())
}

/// All keys of a run's configuration except its location.
fn config(run: &Store) -> anyhow::Result<BTreeMap<String, String>> {
    let text = String::from_utf8_lossy(&run.get("config.toml")?).into_owned();
    let table: Table = text.parse().with_context(|| run.place("config.toml"))?;
    Ok(keys_but(&table, &["run.folder".to_owned()]))
}

/// Data and program of a run, from its newest checkpoint if it has one.
fn configuration(run: &Store) -> anyhow::Result<BTreeMap<String, String>> {
    let steps = checkpoint::list_with_reasons(run, &trainer_plan::config::CheckpointConfig::default())?;
    let Some(newest) = steps.iter().rev().find(|it| it.is_there) else { return Ok(BTreeMap::new()) };
    let State { data_content, program, libtorch, threads, device, .. } = checkpoint::state_of(run, newest.step)?;
    let pairs = [("data", data_content), ("program", program), ("libtorch", libtorch), ("device", device)];
    let threads = ("threads", threads.to_string());
    Ok(pairs.into_iter().chain([threads]).map(|(key, value)| (key.to_owned(), value)).collect())
}

/// Reports of a run by step. If a step was repeated, the later report counts.
fn reports(run: &Store) -> anyhow::Result<BTreeMap<u64, LoggedReport>> {
    let mut reports = BTreeMap::new();
    for line in Lines::new(run, jsonl::LOG)? {
        let Ok(event) = jsonl::parse(&line?) else { continue };
        if let (Some(step), EventKind::Report(report)) = (event.at.step, event.what) {
            let trained = format!("{:?}", report.figures);
            reports.insert(step.0, LoggedReport { batch_hash: report.batch_hash, trained });
        }
    }
    Ok(reports)
}

/// Steps up to which two runs agree.
struct MetricComparison {
    /// Steps that both runs reported.
    common: usize,
    last_common: Option<u64>,
    /// First common step with different rows before it.
    data_parts: Option<u64>,
    /// First common step with different metrics.
    figures_part: Option<u64>,
}

impl MetricComparison {
    fn compare(one: &BTreeMap<u64, LoggedReport>, other: &BTreeMap<u64, LoggedReport>) -> Self {
        let common: Vec<u64> = one.keys().filter(|step| other.contains_key(step)).copied().collect();
        let first = |differs: fn(&LoggedReport, &LoggedReport) -> bool| {
            common.iter().copied().find(|step| differs(&one[step], &other[step]))
        };
        Self {
            common: common.len(),
            last_common: common.last().copied(),
            data_parts: first(|a, b| a.batch_hash != b.batch_hash),
            figures_part: first(|a, b| a.trained != b.trained),
        }
    }

    fn json(&self) -> Json {
        json!({ "common": self.common, "last_common": self.last_common, "data_parts_at": self.data_parts,
                "figures_part_at": self.figures_part })
    }

    fn print(&self) {
        let Some(last) = self.last_common else {
            line("reports: no common step");
            return;
        };
        line(format_args!("reports: {} common steps, up to {last}", self.common));
        match self.data_parts {
            Some(step) => line(format_args!("data: the rows differ by step {step}")),
            None => line(format_args!("data: the same rows up to step {last} (`batch_hash`)")),
        }
        match self.figures_part {
            Some(step) => line(format_args!("metrics: they differ by step {step}")),
            None => line(format_args!("metrics: bit-identical up to step {last}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_differ_where_their_reports_do() {
        let said =
            |hash: &str, trained: &str| LoggedReport { batch_hash: hash.to_owned(), trained: trained.to_owned() };
        let one = [(10, said("a", "1")), (20, said("b", "2")), (30, said("c", "3"))].into();
        let other = [(10, said("a", "1")), (20, said("b", "9")), (30, said("d", "3")), (40, said("e", "4"))].into();
        let course = MetricComparison::compare(&one, &other);
        assert_eq!((course.common, course.last_common), (3, Some(30)));
        assert_eq!((course.data_parts, course.figures_part), (Some(30), Some(20)));
        let itself = MetricComparison::compare(&one, &one);
        assert_eq!((itself.data_parts, itself.figures_part), (None, None));
    }
}
