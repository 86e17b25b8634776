//! Tables of a sweep for the terminal and for Markdown.

use std::fmt::Write as _;

use schemas::{markdown_code, markdown_text};
use tasks::statistics::Summary;

use super::grid::Setting;
use super::plan::SweepPlan;
use super::results::SweepResults;
use super::summary::{Combination, Measure, choose, combinations, constant_runs, measures, with_deviation};
use crate::aligned::aligned;
use crate::cli::Statistic;
use crate::finetune::decimals;

/// Table of texts.
pub(crate) struct TextTable {
    pub(crate) title: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl TextTable {
    /// Returns aligned lines for a terminal, the title first.
    pub(crate) fn text(&self) -> String {
        let lines = aligned(&self.columns, &self.rows, |_| false);
        [self.title.clone()].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
    }

    /// Returns a section of a Markdown page.
    pub(crate) fn markdown(&self) -> String {
        let row = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| markdown_text(cell)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = format!("## {}\n\n{}", markdown_text(&self.title), row(&self.columns));
        text += &row(&vec!["---".to_owned(); self.columns.len()]);
        self.rows.iter().for_each(|cells| text += &row(cells));
        text
    }
}

/// Returns the table of the statistic: one row for each model and share of the training set.
pub(crate) fn chosen(results: &SweepResults, statistic: Statistic) -> TextTable {
    let combinations = combinations(results);
    let by = Measure::of_choice(&results.plan);
    let models = results.plan.models();
    let measures = measures(results);
    let mut rows = Vec::new();
    for (model, name) in models.iter().enumerate() {
        for fraction in results.plan.fractions() {
            let Some(chosen) = choose(&combinations, model, fraction, statistic, &by) else { continue };
            let settings = chosen.settings.map_or_else(|| "all combinations".to_owned(), |it| results.describe(it));
            let settings = settings + &tied(chosen.ties);
            let mut row = vec![name.clone(), fraction.to_string(), settings, chosen.runs.len().to_string()];
            row.push(constant_runs(&chosen.runs, &by.set));
            row.extend(
                measures
                    .iter()
                    .map(|measure| with_deviation(chosen.value(statistic, measure), chosen.deviation(measure))),
            );
            rows.push(row);
        }
    }
    let title = match statistic {
        Statistic::Mean => "Mean ± standard deviation over seeds",
        Statistic::Median => "Median ± standard deviation over seeds",
        Statistic::Best => "The best run",
        Statistic::OverallMean => "Mean ± standard deviation over all runs",
    };
    let title = match statistic {
        Statistic::OverallMean => title.to_owned(),
        _ => format!("{title}; hyperparameters by {} of {}", by.metric, by.set),
    };
    let fixed = ["model", "train fraction", "hyperparameters", "runs", CONSTANT].map(str::to_owned);
    let columns = fixed.into_iter().chain(measures.iter().map(|it| format!("{} {}", it.set, it.metric))).collect();
    let table = without_empty(TextTable { title, columns, rows }, CONSTANT);
    without_column(table, "train fraction", results.plan.uses_all_examples())
}

/// Column of the runs whose predictions are all equal.
const CONSTANT: &str = "one prediction for all";

/// Describes other choices with the same value: ` (2 others tie)`.
pub(crate) fn tied(ties: usize) -> String {
    match ties {
        0 => String::new(),
        1 => " (1 other ties)".to_owned(),
        ties => format!(" ({ties} others tie)"),
    }
}

/// Returns the table of a measure: one row for each combination of hyperparameters.
pub(crate) fn combinations_table(results: &SweepResults, measure: &Measure) -> TextTable {
    let by = Measure::of_choice(&results.plan);
    let models = results.plan.models();
    let row = |it: &Combination<'_>| {
        let summary = Summary::new(&measure.values(&it.runs));
        let last = Summary::new(&measure.last_values(&it.runs));
        let best = by.best(&it.runs).map(|run| Summary::new(&measure.values(&[run])).mean);
        vec![
            models[it.model].clone(),
            it.fraction.to_string(),
            results.describe(it.settings),
            it.runs.len().to_string(),
            constant_runs(&it.runs, &measure.set),
            with_deviation(summary.mean, summary.standard_deviation),
            decimals(summary.median),
            decimals(summary.min),
            decimals(summary.max),
            best.map_or_else(|| "undefined".to_owned(), decimals),
            with_deviation(last.mean, last.standard_deviation),
        ]
    };
    let rows = combinations(results).iter().map(row).collect();
    let heads = [
        "model",
        "train fraction",
        "hyperparameters",
        "runs",
        CONSTANT,
        "mean ± sd",
        "median",
        "min",
        "max",
        "best on dev",
        "last checkpoint",
    ];
    let has_last = results.finished().any(|(_, result)| result.last.is_some());
    let columns = heads.map(str::to_owned).to_vec();
    let title = format!("{} {}", measure.set, measure.metric);
    let table = without_empty(TextTable { title, columns, rows }, CONSTANT);
    let table = without_column(table, "last checkpoint", !has_last);
    without_column(table, "train fraction", results.plan.uses_all_examples())
}

/// Removes a column if all its cells are empty.
fn without_empty(table: TextTable, column: &str) -> TextTable {
    let at = table.columns.iter().position(|name| name == column);
    let is_empty = at.is_some_and(|at| table.rows.iter().all(|row| row[at].is_empty()));
    without_column(table, column, is_empty)
}

/// Removes a column if it says nothing.
fn without_column(mut table: TextTable, column: &str, is_idle: bool) -> TextTable {
    let at = table.columns.iter().position(|name| name == column);
    if let Some(at) = at.filter(|_| is_idle) {
        table.columns.remove(at);
        table.rows.iter_mut().for_each(|row| drop(row.remove(at)));
    }
    table
}

/// Describes the state of a sweep: `6 runs of `cola`: 5 finished, 1 failed`.
pub(crate) fn state(results: &SweepResults) -> String {
    let [finished, failed] = [results.finished().count(), results.failed().count()];
    let left = results.runs.len() - finished - failed;
    let mut text = format!("{} runs of `{}`: {finished} finished", results.runs.len(), results.plan.task.kind());
    for (count, state) in [(failed, "failed"), (left, "not finished")] {
        if count > 0 {
            let _ = write!(text, ", {count} {state}");
        }
    }
    text
}

/// Returns the report as a Markdown page.
pub(crate) fn markdown(results: &SweepResults, statistic: Statistic) -> String {
    let SweepPlan { task, seeds, .. } = &results.plan;
    let shared =
        results.shared_settings().map_or(String::new(), |text| format!(" All runs: {}.", markdown_text(&text)));
    let mut text =
        format!("# Sweep on `{}`\n\n{}. Seeds of each combination: {seeds}.{shared}\n\n", task.kind(), state(results));
    let _ = write!(text, "Training examples: {}.\n\n", results.plan.describe_examples());
    text += &chosen(results, statistic).markdown();
    for measure in measures(results) {
        text.push('\n');
        text += &combinations_table(results, &measure).markdown();
    }
    if results.failed().next().is_some() {
        text += "\n## Failed runs\n\n";
        for (run, failure) in results.failed() {
            let [end, error] = [&failure.end, &failure.error].map(|text| markdown_text(text));
            let _ = writeln!(text, "- {}: {end}: {error}", markdown_code(&run.name));
        }
    }
    text
}

/// Returns the keys of all settings, in the order of the plan.
pub(crate) fn setting_keys(results: &SweepResults) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for Setting { key, .. } in results.runs.iter().flat_map(|run| &run.spec.settings) {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::results;
    use super::*;
    use crate::finetune::few_shot_plan::FewShotPlan;

    #[test]
    fn tables_have_a_row_for_each_combination() {
        let results = results([Some(0.2), Some(0.3), Some(0.4), Some(0.1), Some(0.8), None]);
        assert_eq!(state(&results), "6 runs of `cola`: 5 finished, 1 not finished");
        let table = combinations_table(&results, &Measure::of_choice(&results.plan));
        assert_eq!(
            table.columns,
            ["model", "hyperparameters", "runs", "mean ± sd", "median", "min", "max", "best on dev"]
        );
        let second = ["a", "lr 3e-5", "2", "0.4500 ± 0.4950", "0.4500", "0.1000", "0.8000", "0.8000"];
        assert_eq!(table.rows[1], second);
        let lines: Vec<String> = table.text().lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "dev matthews");
        assert_eq!(lines[2], "a      lr 1e-5          3     0.3000 ± 0.1000  0.3000  0.2000  0.4000  0.4000");
        let page = markdown(&results, Statistic::Mean);
        assert!(page.contains("| a | lr 3e-5 | 2 | 0.4500 ± 0.4950 | 0.5500 ± 0.4950 |"), "{page}");
        assert!(page.contains("## dev accuracy"), "{page}");
        assert_eq!(setting_keys(&results), ["lr"]);
    }

    /// A share of the training set, ties and constant predictions are no details: each changes what a number means.
    #[test]
    fn a_share_ties_and_constant_predictions_are_marked() {
        let mut results = results([Some(0.0), Some(0.5), None, Some(0.25), Some(0.25), None]);
        results.plan.train_examples = 8551;
        results.plan.train_fraction = vec![0.05];
        results.runs.iter_mut().for_each(|run| run.spec.fraction = 0.05);
        let page = markdown(&results, Statistic::Mean);
        assert!(page.contains("Training examples: 428 of 8,551."), "{page}");
        assert!(
            page.contains("| model | train fraction | hyperparameters | runs | one prediction for all |"),
            "{page}"
        );
        assert!(page.contains("| a | 0.05 | lr 1e-5 (1 other ties) | 2 | 1 of 2 |"), "{page}");
        assert!(page.contains("| a | 0.05 | lr 3e-5 | 2 |  | 0.2500 ± 0.0000 |"), "{page}");
        results.plan.train_fraction = vec![1.0, 0.01];
        assert_eq!(results.plan.describe_examples(), "86, 8,551 of 8,551");
        results.plan = SweepPlan {
            train_examples: 32,
            train_fraction: vec![1.0],
            few_shot: FewShotPlan::new(true, Some(16), None),
            ..results.plan
        };
        assert_eq!(results.plan.describe_examples(), "32, 16 of each class");
    }

    #[test]
    fn names_in_a_report_are_no_markup() {
        let mut results = results([Some(0.2), Some(0.3), Some(0.4), Some(0.1), Some(0.8), None]);
        results.plan.from = vec!["/runs/<script>|![a](b)".into()];
        let page = markdown(&results, Statistic::Mean);
        assert!(page.contains(r"| &lt;script&gt;\|!\[a\](b) | lr 3e-5 |"), "{page}");
    }
}
