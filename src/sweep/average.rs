//! Averages over GLUE of several sweeps, one per task.

use std::path::PathBuf;

use tasks::AnyTask;
use tasks::average::{Convention, GlueScores};
use tasks::metric::{MetricValue, UndefinedReason};
use tasks::task::SetPurpose;
use telemetry::quantities::count;

use super::plan::SweepPlan;
use super::results::SweepResults;
use super::summary::{Measure, choose, combinations};
use super::tables::TextTable;
use crate::cli::Statistic;
use crate::exit::Usage;
use crate::finetune::decimals;

/// Tasks of the average, with the heads of their columns.
const TASKS: [(&str, &str); 8] = [
    ("mnli", "MNLI"),
    ("qqp", "QQP"),
    ("qnli", "QNLI"),
    ("sst2", "SST-2"),
    ("cola", "CoLA"),
    ("stsb", "STS-B"),
    ("mrpc", "MRPC"),
    ("rte", "RTE"),
];

/// Returns a row for each model that every task has a sweep of: its dev values in percent, and their average.
///
/// # Errors
/// If a task of GLUE has no sweep, or two.
pub(crate) fn table(
    sweeps: &[SweepResults],
    convention: Convention,
    statistic: Option<Statistic>,
) -> anyhow::Result<TextTable> {
    let mut tasks = Vec::new();
    for (kind, head) in TASKS {
        let found: Vec<&SweepResults> = sweeps.iter().filter(|sweep| sweep.plan.task.kind() == kind).collect();
        match *found {
            [sweep] => tasks.push(sweep),
            [] => return Err(Usage(format!("--average: no sweep on {head}; name one for each task of GLUE")).into()),
            _ => return Err(Usage(format!("--average: {} sweeps on {head}; name one", found.len())).into()),
        }
    }
    let mut rows = Vec::new();
    for (model, from) in tasks[0].plan.from.iter().enumerate() {
        let mut values = Vec::new();
        for sweep in &tasks {
            let statistic = statistic.unwrap_or(sweep.plan.statistic);
            values.extend(dev_values(sweep, from, convention, statistic));
        }
        let [mnli_matched, mnli_mismatched, qqp, qnli, sst2, cola, stsb, mrpc, rte] = *values else {
            anyhow::bail!("internal error: {} values of the tasks of GLUE", values.len())
        };
        let scores = GlueScores { mnli_matched, mnli_mismatched, qqp, qnli, sst2, cola, stsb, mrpc, rte };
        let average = convention.average(&scores);
        let cells = values.iter().chain([&average]).map(|value| percent(*value));
        rows.push([tasks[0].plan.models()[model].clone()].into_iter().chain(cells).collect());
    }
    let heads = TASKS[1..].iter().map(|(_, head)| *head);
    let columns = ["model", "MNLI-m", "MNLI-mm"].into_iter().chain(heads).chain(["average"]);
    let columns = columns.map(str::to_owned).collect();
    let parts: Vec<String> = tasks.iter().filter_map(|sweep| part(sweep)).collect();
    let parts = if parts.is_empty() { String::new() } else { format!("; trained on {}", parts.join(", ")) };
    let title = format!("GLUE, dev, convention {}: mean of {}{parts}", name(convention), numbers(convention));
    Ok(TextTable { title, columns, rows })
}

/// Describes the training examples of the values of a task, if they are not all: `125 of 2,490 examples of rte`.
fn part(sweep: &SweepResults) -> Option<String> {
    let plan = &sweep.plan;
    let used = plan.examples(largest_fraction(plan));
    let is_part = plan.few_shot.is_some_and(|it| it.shots.is_some()) || used < plan.train_examples;
    let of = if used < plan.train_examples { format!(" of {}", count(plan.train_examples)) } else { String::new() };
    is_part.then(|| format!("{}{of} examples of {}", count(used), plan.task.kind()))
}

fn largest_fraction(plan: &SweepPlan) -> f64 {
    plan.train_fraction.iter().copied().fold(0.0, f64::max)
}

/// Returns the values of a model on the dev sets of a task: two for MNLI, else one. Undefined without finished runs.
fn dev_values(sweep: &SweepResults, from: &PathBuf, convention: Convention, statistic: Statistic) -> Vec<MetricValue> {
    let task: &AnyTask = &sweep.plan.task;
    let metric = task.primary_metrics(convention)[0];
    let dev: Vec<String> =
        task.sets().into_iter().filter(|set| set.purpose == SetPurpose::Dev).map(|set| set.name).collect();
    let by = Measure { metric, ..Measure::of_choice(&sweep.plan) };
    let combinations = combinations(sweep);
    let model = sweep.plan.from.iter().position(|it| it == from);
    let fraction = largest_fraction(&sweep.plan);
    let chosen = model.and_then(|model| choose(&combinations, model, fraction, statistic, &by));
    let value = |set: String| match &chosen {
        Some(chosen) => chosen.value(statistic, &Measure { set, metric }),
        None => MetricValue::Undefined(UndefinedReason::NoExamples),
    };
    dev.into_iter().map(value).collect()
}

fn percent(value: MetricValue) -> String {
    value.value().map_or_else(|| decimals(value), |value| format!("{:.1}", 100.0 * value))
}

fn name(convention: Convention) -> &'static str {
    match convention {
        Convention::TacoSmall => "taco-small",
        Convention::TacoBase => "taco-base",
        Convention::CocoLm => "coco-lm",
        Convention::FeMlm => "fe-mlm",
    }
}

fn numbers(convention: Convention) -> &'static str {
    if convention.counts_mismatched() { "9 numbers" } else { "8 numbers" }
}

#[cfg(test)]
mod tests {
    use tasks::metric::MetricScore;

    use super::super::results::RunState;
    use super::*;
    use crate::finetune::{SetResult, TaskResults};

    /// Sweep of one run that has these values of all its metrics, the dev sets in order.
    fn sweep(kind: &str, values: &[f64]) -> SweepResults {
        let task = AnyTask::of_kind(kind).expect("a task");
        let metrics = |value: f64| {
            let named = task.metrics().into_iter().enumerate();
            // Secondary metrics have other values.
            named.map(move |(at, metric)| MetricScore { metric, value: MetricValue::Defined(value - at as f64 / 10.0) })
        };
        let dev = task.sets().into_iter().filter(|set| set.purpose == SetPurpose::Dev);
        let sets = dev.zip(values).map(|(set, value)| SetResult {
            set: set.name,
            examples: 1,
            metrics: metrics(*value).collect(),
            is_constant: false,
        });
        let state =
            RunState::Finished(TaskResults { task: kind.to_owned(), step: 1, sets: sets.collect(), last: None });
        let plan = SweepPlan {
            data: "/data".into(),
            task_argument: kind.to_owned(),
            task,
            train_examples: 1,
            from: vec!["/runs/a".into()],
            from_steps: vec![None],
            files: Vec::new(),
            preset: None,
            axes: Vec::new(),
            train_fraction: vec![1.0],
            few_shot: None,
            seeds: 1,
            draws: None,
            draw_seed: 1,
            statistic: Statistic::Mean,
        };
        let specs = plan.runs();
        SweepResults::new(plan, specs, vec![state])
    }

    #[test]
    fn averages_follow_the_convention() {
        let row =
            [("qqp", 0.9), ("qnli", 0.8), ("sst2", 0.9), ("cola", 0.3), ("stsb", 0.8), ("mrpc", 0.8), ("rte", 0.6)];
        let mut sweeps: Vec<SweepResults> = row.iter().map(|(kind, value)| sweep(kind, &[*value])).collect();
        let error = table(&sweeps, Convention::CocoLm, None).map(|_| ()).expect_err("no MNLI").to_string();
        assert!(error.contains("no sweep on MNLI"), "{error}");
        sweeps.push(sweep("mnli", &[0.7, 0.5]));
        let last = |sweeps: &[SweepResults], convention| {
            let table = table(sweeps, convention, None).expect("all tasks");
            (table.title, table.rows[0][1..].join(" "))
        };
        let (title, values) = last(&sweeps, Convention::CocoLm);
        assert_eq!(title, "GLUE, dev, convention coco-lm: mean of 8 numbers");
        // (70 + 90 + 80 + 90 + 30 + 80 + 80 + 60) / 8
        assert_eq!(values, "70.0 50.0 90.0 80.0 90.0 30.0 80.0 80.0 60.0 72.5");
        // F1 of QQP and MRPC is a tenth lower; with mismatched MNLI: (580 − 20 + 50) / 9.
        let (_, values) = last(&sweeps, Convention::TacoSmall);
        assert_eq!(values, "70.0 50.0 80.0 80.0 90.0 30.0 80.0 70.0 60.0 67.8");
        // 5 % of 2,490 examples, rounded.
        let rte = sweeps.iter_mut().find(|sweep| sweep.plan.task.kind() == "rte").expect("a sweep");
        rte.plan = SweepPlan { train_examples: 2490, train_fraction: vec![0.05], ..rte.plan.clone() };
        let (title, _) = last(&sweeps, Convention::CocoLm);
        assert_eq!(title, "GLUE, dev, convention coco-lm: mean of 8 numbers; trained on 125 of 2,490 examples of rte");
        sweeps.push(sweep("rte", &[0.1]));
        let error = table(&sweeps, Convention::CocoLm, None).map(|_| ()).expect_err("two").to_string();
        assert!(error.contains("2 sweeps on RTE"), "{error}");
    }
}
