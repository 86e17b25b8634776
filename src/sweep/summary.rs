//! Statistics of a sweep over seeds, and the choice of hyperparameters on the dev set.

use tasks::metric::{MetricValue, TaskMetric};
use tasks::statistics::{Summary, best_index};
use tasks::task::{ExampleSet, SetPurpose};

use super::grid::Setting;
use super::plan::{RunSpec, SweepPlan};
use super::results::SweepResults;
use crate::cli::Statistic;
use crate::finetune::{TaskResults, decimals, few_shot_dev};

/// Finished runs of one model that differ only by their seeds.
pub(crate) struct Combination<'a> {
    pub(crate) model: usize,
    pub(crate) fraction: f64,
    pub(crate) settings: &'a [Setting],
    pub(crate) runs: Vec<FinishedRun<'a>>,
}

/// Finished run.
#[derive(Clone, Copy)]
pub(crate) struct FinishedRun<'a> {
    pub(crate) spec: &'a RunSpec,
    pub(crate) result: &'a TaskResults,
}

/// Metric on a set of examples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Measure {
    pub(crate) set: String,
    pub(crate) metric: TaskMetric,
}

impl Measure {
    /// Returns the measure that chooses: the primary metric of a task on its first dev set. For few shots, that is the one of
    /// the training set: the dev sets of the task are the test.
    pub(crate) fn of_choice(plan: &SweepPlan) -> Self {
        let set = sets(plan).into_iter().find(|set| set.purpose == SetPurpose::Dev);
        let metric = plan.task.metrics().first().copied().unwrap_or(TaskMetric::Accuracy);
        Self { set: set.map_or_else(|| "dev".to_owned(), |set| set.name), metric }
    }

    /// Returns the values of runs, in their order.
    pub(crate) fn values(&self, runs: &[FinishedRun<'_>]) -> Vec<MetricValue> {
        runs.iter().map(|run| self.value(run)).collect()
    }

    /// Returns the values of the last checkpoints of runs, in their order.
    pub(crate) fn last_values(&self, runs: &[FinishedRun<'_>]) -> Vec<MetricValue> {
        runs.iter().map(|run| run.result.last_value(&self.set, self.metric)).collect()
    }

    fn value(&self, run: &FinishedRun<'_>) -> MetricValue {
        run.result.value(&self.set, self.metric)
    }

    /// Returns the run that is best by this measure, the first of several.
    pub(crate) fn best<'a>(&self, runs: &[FinishedRun<'a>]) -> Option<FinishedRun<'a>> {
        best_index(self.values(runs), self.metric.is_larger_better()).map(|index| runs[index])
    }
}

/// Runs that a statistic chooses for a model and a share of the training set, with the value for a measure.
pub(crate) struct Chosen<'a> {
    /// Hyperparameters; `None` if the statistic is over several combinations.
    pub(crate) settings: Option<&'a [Setting]>,
    pub(crate) runs: Vec<FinishedRun<'a>>,
    /// Other combinations with the same value, or other runs for the best run. The first one of the plan is chosen.
    pub(crate) ties: usize,
}

impl Chosen<'_> {
    /// Returns the value of the statistic.
    pub(crate) fn value(&self, statistic: Statistic, measure: &Measure) -> MetricValue {
        let summary = Summary::new(&measure.values(&self.runs));
        if statistic == Statistic::Median { summary.median } else { summary.mean }
    }

    /// Returns the sample standard deviation over the runs.
    pub(crate) fn deviation(&self, measure: &Measure) -> MetricValue {
        Summary::new(&measure.values(&self.runs)).standard_deviation
    }
}

/// Returns the combinations with a finished run, in the order of the plan.
pub(crate) fn combinations(results: &SweepResults) -> Vec<Combination<'_>> {
    let mut found: Vec<Combination<'_>> = Vec::new();
    for (spec, result) in results.finished() {
        let run = FinishedRun { spec, result };
        let is_same =
            |it: &Combination<'_>| (it.model, it.fraction, it.settings) == (spec.model, spec.fraction, &*spec.settings);
        match found.last_mut().filter(|it| is_same(it)) {
            Some(last) => last.runs.push(run),
            None => found.push(Combination {
                model: spec.model,
                fraction: spec.fraction,
                settings: &spec.settings,
                runs: vec![run],
            }),
        }
    }
    found
}

/// Chooses runs of a model by a statistic of the measure `by`. `None` if no run has a value.
pub(crate) fn choose<'a>(
    combinations: &[Combination<'a>],
    model: usize,
    fraction: f64,
    statistic: Statistic,
    by: &Measure,
) -> Option<Chosen<'a>> {
    let of_model = combinations.iter().filter(|it| it.model == model && it.fraction.total_cmp(&fraction).is_eq());
    if matches!(statistic, Statistic::OverallMean | Statistic::Best) {
        let runs: Vec<FinishedRun<'a>> = of_model.flat_map(|it| it.runs.iter().copied()).collect();
        if statistic == Statistic::Best {
            let best = by.best(&runs)?;
            let ties = count_ties(by.values(&runs), by.value(&best));
            return Some(Chosen { settings: Some(&best.spec.settings), runs: vec![best], ties });
        }
        return (!runs.is_empty()).then_some(Chosen { settings: None, runs, ties: 0 });
    }
    let candidates: Vec<&Combination<'a>> = of_model.collect();
    let chosen = |it: &Combination<'a>| Chosen { settings: Some(it.settings), runs: it.runs.clone(), ties: 0 };
    let values: Vec<MetricValue> = candidates.iter().map(|it| chosen(it).value(statistic, by)).collect();
    let index = best_index(values.iter().copied(), by.metric.is_larger_better())?;
    let ties = count_ties(values.iter().copied(), values[index]);
    Some(Chosen { ties, ..chosen(candidates[index]) })
}

/// Returns the number of other values that equal the best one.
fn count_ties(values: impl IntoIterator<Item = MetricValue>, best: MetricValue) -> usize {
    values.into_iter().filter(|value| *value == best).count().saturating_sub(1)
}

/// Returns the sets of the runs of a plan.
fn sets(plan: &SweepPlan) -> Vec<ExampleSet> {
    let sets = plan.task.sets();
    let has_shots = plan.few_shot.is_some_and(|few_shot| few_shot.shots.is_some());
    let drawn = if has_shots { few_shot_dev(&sets) } else { None };
    drawn.into_iter().chain(sets).collect()
}

/// Returns every metric of every set with labels, in the order of the task.
pub(crate) fn measures(results: &SweepResults) -> Vec<Measure> {
    let mut found = Vec::new();
    for set in sets(&results.plan) {
        for metric in results.plan.task.metrics() {
            let has_value = |(_, result): (&RunSpec, &TaskResults)| {
                let set = result.sets.iter().find(|it| it.set == set.name);
                set.is_some_and(|it| it.metrics.iter().any(|it| it.metric == metric))
            };
            if results.finished().any(has_value) {
                found.push(Measure { set: set.name.clone(), metric });
            }
        }
    }
    found
}

/// Formats a mean with its standard deviation, if there is one: `0.4512 ± 0.0123`.
pub(crate) fn with_deviation(value: MetricValue, deviation: MetricValue) -> String {
    match deviation {
        MetricValue::Defined(deviation) if value.value().is_some() => format!("{} ± {deviation:.4}", decimals(value)),
        _ => decimals(value),
    }
}

/// Describes the runs whose predictions on a set are all equal: `2 of 3`; empty without any.
pub(crate) fn constant_runs(runs: &[FinishedRun<'_>], set: &str) -> String {
    let constant = runs.iter().filter(|run| run.result.is_constant(set)).count();
    if constant == 0 { String::new() } else { format!("{constant} of {}", runs.len()) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::grid::Axis;
    use tasks::AnyTask;
    use tasks::metric::{MetricScore, UndefinedReason};

    use super::super::results::RunState;
    use super::*;
    use crate::finetune::SetResult;

    /// Sweep of one model on CoLA over two learning rates with three seeds, with these values of the dev set.
    pub(crate) fn results(values: [Option<f64>; 6]) -> SweepResults {
        let plan = SweepPlan {
            data: "/data".into(),
            task: AnyTask::of_kind("cola").expect("a task"),
            task_argument: "cola".to_owned(),
            train_examples: 10,
            from: vec!["/runs/a".into()],
            from_steps: vec![None],
            files: Vec::new(),
            preset: None,
            axes: vec![Axis { key: "lr".to_owned(), values: vec!["1e-5".to_owned(), "3e-5".to_owned()] }],
            train_fraction: vec![1.0],
            few_shot: None,
            seeds: 3,
            draws: None,
            draw_seed: 1,
            statistic: Statistic::Mean,
        };
        let state = |value: Option<f64>| {
            let Some(value) = value else { return RunState::Unfinished };
            let metric = |metric, value: f64| {
                let undefined = MetricValue::Undefined(UndefinedReason::Constant);
                MetricScore { metric, value: if value.is_nan() { undefined } else { MetricValue::Defined(value) } }
            };
            let metrics = vec![metric(TaskMetric::Matthews, value), metric(TaskMetric::Accuracy, 1.0 - value)];
            RunState::Finished(TaskResults {
                task: "cola".to_owned(),
                step: 9,
                // A Matthews correlation of 0 is that of constant predictions.
                sets: vec![SetResult {
                    set: "dev".to_owned(),
                    examples: 4,
                    metrics,
                    is_constant: value.abs() < f64::EPSILON,
                }],
                last: None,
            })
        };
        let specs = plan.runs();
        SweepResults::new(plan, specs, values.map(state).to_vec())
    }

    #[test]
    fn each_statistic_chooses_on_the_dev_set() {
        // Mean 0.3 and 0.35, median 0.3 and 0.15, best 0.4 and 0.8.
        let results = results([Some(0.2), Some(0.3), Some(0.4), Some(0.1), Some(0.8), Some(0.15)]);
        let combinations = combinations(&results);
        assert_eq!(combinations.len(), 2);
        let by = Measure::of_choice(&results.plan);
        assert_eq!((by.set.as_str(), by.metric), ("dev", TaskMetric::Matthews));
        let chosen = |statistic| {
            let chosen = choose(&combinations, 0, 1.0, statistic, &by).expect("finished runs");
            let settings = chosen.settings.map_or("all".to_owned(), |it| results.describe(it));
            format!("{settings}: {}", with_deviation(chosen.value(statistic, &by), chosen.deviation(&by)))
        };
        assert_eq!(chosen(Statistic::Mean), "lr 3e-5: 0.3500 ± 0.3905");
        assert_eq!(chosen(Statistic::Median), "lr 1e-5: 0.3000 ± 0.1000");
        assert_eq!(chosen(Statistic::Best), "lr 3e-5: 0.8000");
        assert_eq!(chosen(Statistic::OverallMean), "all: 0.3250 ± 0.2564");
        let accuracy = Measure { metric: TaskMetric::Accuracy, ..by.clone() };
        let chosen = choose(&combinations, 0, 1.0, Statistic::Best, &by).expect("finished runs");
        assert_eq!(decimals(chosen.value(Statistic::Best, &accuracy)), "0.2000", "chosen by the other metric");
    }

    #[test]
    fn ties_are_counted() {
        let ties = |values: [f64; 6], statistic| {
            let results = results(values.map(Some));
            let by = Measure::of_choice(&results.plan);
            choose(&combinations(&results), 0, 1.0, statistic, &by).expect("finished runs").ties
        };
        let equal = [0.25, 0.5, 0.5, 0.5, 0.5, 0.25];
        assert_eq!([Statistic::Mean, Statistic::Best, Statistic::OverallMean].map(|it| ties(equal, it)), [1, 3, 0]);
        let different = [0.25, 0.5, 0.75, 0.25, 0.25, 0.25];
        assert_eq!([Statistic::Mean, Statistic::Median, Statistic::Best].map(|it| ties(different, it)), [0, 0, 0]);
    }

    #[test]
    fn undefined_values_are_never_chosen_and_never_numbers() {
        let results = results([Some(0.2), Some(f64::NAN), None, Some(0.1), None, None]);
        let combinations = combinations(&results);
        let by = Measure::of_choice(&results.plan);
        let chosen = choose(&combinations, 0, 1.0, Statistic::Mean, &by).expect("a defined mean");
        assert_eq!(chosen.settings.map(|it| results.describe(it)).as_deref(), Some("lr 3e-5"));
        assert_eq!(with_deviation(chosen.value(Statistic::Mean, &by), chosen.deviation(&by)), "0.1000");
        let all = choose(&combinations, 0, 1.0, Statistic::OverallMean, &by).expect("finished runs");
        assert_eq!(decimals(all.value(Statistic::OverallMean, &by)), "undefined");
        assert!(choose(&combinations, 0, 0.5, Statistic::Mean, &by).is_none());
    }
}
