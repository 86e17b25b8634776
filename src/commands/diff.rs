//! `cloze diff`: in what two runs differ, and from which step on.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value as Json, json};
use store::{Lines, Store};
use telemetry::change::KeyChange;
use telemetry::terminal::{line, painted};
use telemetry::{EventKind, jsonl};
use toml::Table;
use trainer_plan::checkpoint::{self, State};

use super::checkpoints::existing;
use crate::plan::identity::keys_but;

/// What a report says that two equal runs agree on.
#[derive(PartialEq)]
struct Said {
    batch_hash: String,
    trained: String,
}

/// Compares two runs. Reads only, also what is under way.
pub(crate) fn run(one: &Path, other: &Path, is_json: bool) -> anyhow::Result<()> {
    let [first, second] = [existing(one)?, existing(other)?];
    let keys = KeyChange::between(&config(&first)?, &config(&second)?);
    let around = KeyChange::between(&around(&first)?, &around(&second)?);
    let course = Course::of(&reports(&first)?, &reports(&second)?);
    if is_json {
        painted(format_args!("{:#}", json!({ "config": keys, "around": around, "reports": course.json() })));
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
    course.say();
    Ok(())
}

/// Every key of a run's configuration but where it lies.
fn config(run: &Store) -> anyhow::Result<BTreeMap<String, String>> {
    let text = String::from_utf8_lossy(&run.read("config.toml")?).into_owned();
    let table: Table = text.parse().with_context(|| run.place("config.toml"))?;
    Ok(keys_but(&table, &["run.folder".to_owned()]))
}

/// Data and program of a run, by its newest checkpoint, where it has one.
fn around(run: &Store) -> anyhow::Result<BTreeMap<String, String>> {
    let steps = checkpoint::shelf(run, &trainer_plan::config::CheckpointConfig::default())?;
    let Some(newest) = steps.iter().rev().find(|it| it.is_there) else { return Ok(BTreeMap::new()) };
    let State { data_content, program, libtorch, threads, device, .. } = checkpoint::state_of(run, newest.step)?;
    let pairs = [("data", data_content), ("program", program), ("libtorch", libtorch), ("device", device)];
    let threads = ("threads", threads.to_string());
    Ok(pairs.into_iter().chain([threads]).map(|(key, value)| (key.to_owned(), value)).collect())
}

/// The reports of a run by their steps; of a step that was done twice, the later one.
fn reports(run: &Store) -> anyhow::Result<BTreeMap<u64, Said>> {
    let mut reports = BTreeMap::new();
    for line in Lines::of(run, jsonl::LOG)? {
        let Ok(event) = jsonl::parse(&line?) else { continue };
        if let (Some(step), EventKind::Report(report)) = (event.at.step, event.what) {
            let trained = format!("{:?}", report.figures);
            reports.insert(step.0, Said { batch_hash: report.batch_hash, trained });
        }
    }
    Ok(reports)
}

/// How far two runs go together.
struct Course {
    /// Steps that both reported.
    common: usize,
    last_common: Option<u64>,
    /// The first of them after which they had seen other rows.
    data_parts: Option<u64>,
    /// The first of them in whose figures they differ.
    figures_part: Option<u64>,
}

impl Course {
    fn of(one: &BTreeMap<u64, Said>, other: &BTreeMap<u64, Said>) -> Self {
        let common: Vec<u64> = one.keys().filter(|step| other.contains_key(step)).copied().collect();
        let first =
            |differs: fn(&Said, &Said) -> bool| common.iter().copied().find(|step| differs(&one[step], &other[step]));
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

    fn say(&self) {
        let Some(last) = self.last_common else {
            line("reports: none of the same step");
            return;
        };
        line(format_args!("reports: {} of the same steps, up to {last}", self.common));
        match self.data_parts {
            Some(step) => line(format_args!("data: they have seen other rows by step {step}")),
            None => line(format_args!("data: the same rows up to step {last} (`batch_hash`)")),
        }
        match self.figures_part {
            Some(step) => line(format_args!("figures: they part by step {step}")),
            None => line(format_args!("figures: the same up to step {last}, to the bit")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_part_where_their_reports_do() {
        let said = |hash: &str, trained: &str| Said { batch_hash: hash.to_owned(), trained: trained.to_owned() };
        let one = [(10, said("a", "1")), (20, said("b", "2")), (30, said("c", "3"))].into();
        let other = [(10, said("a", "1")), (20, said("b", "9")), (30, said("d", "3")), (40, said("e", "4"))].into();
        let course = Course::of(&one, &other);
        assert_eq!((course.common, course.last_common), (3, Some(30)));
        assert_eq!((course.data_parts, course.figures_part), (Some(30), Some(20)));
        let itself = Course::of(&one, &one);
        assert_eq!((itself.data_parts, itself.figures_part), (None, None));
    }
}
