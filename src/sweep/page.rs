//! HTML page about sweeps: models compared with error bars, and tables of all combinations.

use maud::{Markup, html};
use report::chart::{NARROW, SvgChart, WIDE};
use report::error_bars::{self, ErrorBar};
use report::html::Cell::{Number, Text};
use report::html::{figures, static_page, table, text};
use tasks::metric::MetricValue;

use super::results::SweepResults;
use super::summary::{Measure, choose, combinations, measures};
use super::tables::{TextTable, combinations_table, state, tied};
use crate::cli::Statistic;
use crate::run::monitoring::PROGRAM;

/// Style in addition to that of the page and the charts: a chart for phones, and one for other screens.
const CSS: &str = ".narrow { display: none; } @media (max-width: 40rem) { .narrow { display: block; } }";

/// Renders the page of several sweeps.
pub(crate) fn page(sweeps: &[SweepResults]) -> String {
    let tasks: Vec<&str> = sweeps.iter().map(|sweep| sweep.plan.task.kind()).collect();
    let body = html! {
        @for sweep in sweeps {
            h1 { "Sweep on " (text(sweep.plan.task.kind())) }
            (overview(sweep))
            @for measure in measures(sweep) {
                h2 { (text(&measure.set)) ": " (measure.metric) }
                (comparison(sweep, &measure))
                (markup(&combinations_table(sweep, &measure)))
            }
            (failures(sweep))
        }
        // Without a timestamp, so that the same folders give the same page.
        p { (PROGRAM) }
    };
    static_page(&format!("Sweep on {}", tasks.join(", ")), &[error_bars::CSS, CSS].concat(), &body)
}

fn overview(sweep: &SweepResults) -> Markup {
    let plan = &sweep.plan;
    html! {
        p { (text(&state(sweep))) }
        @if let Some(shared) = sweep.shared_settings() { p { "All runs: " (text(&shared)) } }
        (figures(&[
            ("models", plan.from.len().to_string()),
            ("training examples", plan.describe_examples()),
            ("seeds of each combination", plan.seeds.to_string()),
            ("statistic", plan.statistic.name().to_owned()),
        ]))
    }
}

/// Charts the value of the statistic for each model and share of the training set.
fn comparison(sweep: &SweepResults, measure: &Measure) -> Markup {
    let bars = bars(sweep, measure);
    let title = match sweep.plan.statistic {
        Statistic::Mean | Statistic::OverallMean => "mean and standard deviation",
        Statistic::Median => "median and standard deviation",
        Statistic::Best => "the best run on the dev set",
    };
    let chart = |width| -> SvgChart { error_bars::chart(width, &format!("{}: {title}", measure.metric), &bars) };
    html! {
        div.wide { (chart(WIDE).to_markup()) }
        div.narrow { (chart(NARROW).to_markup()) }
    }
}

fn bars(sweep: &SweepResults, measure: &Measure) -> Vec<ErrorBar> {
    let statistic = sweep.plan.statistic;
    let combinations = combinations(sweep);
    let by = Measure::of_choice(&sweep.plan);
    let fractions = sweep.plan.fractions();
    let mut bars = Vec::new();
    for (group, model) in sweep.plan.models().iter().enumerate() {
        for &fraction in &fractions {
            let Some(chosen) = choose(&combinations, group, fraction, statistic, &by) else { continue };
            let Some(value) = chosen.value(statistic, measure).value() else { continue };
            let is_all = sweep.plan.uses_all_examples();
            let share = if is_all { String::new() } else { format!(", {fraction} of the examples") };
            let settings = chosen
                .settings
                .filter(|it| !it.is_empty())
                .map_or(String::new(), |it| format!(" ({}{})", sweep.describe(it), tied(chosen.ties)));
            let points = measure.values(&chosen.runs).into_iter().filter_map(MetricValue::value).collect();
            let deviation = chosen.deviation(measure).value();
            bars.push(ErrorBar { name: format!("{model}{share}{settings}"), value, deviation, points, group });
        }
    }
    bars
}

fn failures(sweep: &SweepResults) -> Markup {
    html! {
        @if sweep.failed().next().is_some() {
            h2 { "Failed runs" }
            (table(
                &["run", "end", "error"],
                sweep.failed().map(|(run, failure)| {
                    [&run.name, &failure.end, &failure.error].map(|cell| Text(cell.clone())).into()
                }),
            ))
        }
    }
}

/// Renders a table. Columns after the number of runs are numbers.
fn markup(found: &TextTable) -> Markup {
    let columns: Vec<&str> = found.columns.iter().map(String::as_str).collect();
    let numbers = columns.iter().position(|column| *column == "runs").unwrap_or(columns.len());
    let row = |cells: &Vec<String>| {
        let cell = |(at, cell): (usize, &String)| if at < numbers { Text(cell.clone()) } else { Number(cell.clone()) };
        cells.iter().enumerate().map(cell).collect()
    };
    html! { div.scroll { (table(&columns, found.rows.iter().map(row))) } }
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::results;
    use super::*;

    #[test]
    fn a_page_has_a_chart_and_a_table_for_each_metric() {
        let page = page(&[results([Some(0.2), Some(0.3), Some(0.4), Some(0.1), None, None])]);
        assert!(page.contains("Sweep on cola") && page.contains("4 finished, 2 not finished"), "{page}");
        assert_eq!(page.matches("a (lr 1e-5): 0.3000 ± 0.1000").count(), 2, "wide and narrow");
        assert_eq!(page.matches("<table>").count(), 2);
        assert!(page.contains("training examples") && page.contains(">10<"), "{page}");
        assert!(page.contains("<td class=\"n\">0.3000 ± 0.1000</td>"), "{page}");
    }
}
