//! Early stopping: the end of a run whose validations no longer improve.
//!
//! # Definition
//! A validation is better if the value of the metric is finite, and larger or smaller than the best one so far, as
//! [`is_larger_better`] says. The run ends after `patience` consecutive validations that are not better. The best value
//! and the number of validations since are part of the checkpoint.
//!
//! # Reference
//! Prechelt 1998, "Early Stopping – But When?", criterion `UP`.

use schemas::ordinal::Step;
use telemetry::training::{EarlyStopReport, ValidReport};
use trainer_plan::Error;
use trainer_plan::checkpoint::{SavedEarlyStop, Validated, is_larger_better};
use trainer_plan::config::EarlyStopConfig;

/// Comparison of the validations of a run.
#[derive(Debug)]
pub(crate) struct EarlyStop {
    config: EarlyStopConfig,
    state: Option<SavedEarlyStop>,
}

impl EarlyStop {
    /// Continues from a saved state. A state of another metric is not comparable and begins again.
    pub(crate) fn new(config: EarlyStopConfig, saved: Option<SavedEarlyStop>) -> Self {
        let state = saved.filter(|saved| saved.metric == config.metric);
        Self { config, state }
    }

    /// State for a checkpoint.
    pub(crate) fn saved(&self) -> Option<SavedEarlyStop> {
        self.state.clone()
    }

    /// Whether the run ends.
    pub(crate) fn is_over(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.since >= self.config.patience)
    }

    /// Whether the validation after `step` is the best so far.
    pub(crate) fn is_best(&self, step: Step) -> bool {
        self.state.as_ref().is_some_and(|state| state.best_step == step)
    }

    /// Compares the validation after `step` with those before it. Returns the report if the run ends with it.
    ///
    /// # Errors
    /// If the validation has no such metric.
    pub(crate) fn compare(&mut self, step: Step, report: &ValidReport) -> Result<Option<EarlyStopReport>, Error> {
        let metric = &self.config.metric;
        let scores = Validated::scores(report);
        let value = *scores.get(metric).ok_or_else(|| {
            let known = scores.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            Error::Config(format!(
                "`validation.stop.metric`: no validation score is named `{metric}`; there are {known}"
            ))
        })?;
        let fresh = || SavedEarlyStop { metric: metric.clone(), best: None, best_step: step, since: 0 };
        let is_first = self.state.is_none();
        let state = self.state.get_or_insert_with(fresh);
        let is_better = |best: f64| if is_larger_better(metric) { value > best } else { value < best };
        if value.is_finite() && state.best.is_none_or(is_better) {
            *state = SavedEarlyStop { best: Some(value), best_step: step, since: 0, metric: metric.clone() };
        } else if !is_first {
            state.since += 1;
        }
        let SavedEarlyStop { metric, best, best_step, since } = state.clone();
        let report = EarlyStopReport { metric, value, best, best_step, validations: since };
        Ok(self.is_over().then_some(report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(value: f64) -> ValidReport {
        let named = |name: &str| [(name.to_owned(), value)].into();
        let terms = named("task");
        ValidReport { rows: 8, loss: value, terms, metrics: named("task.matthews"), mlm: None, seconds: 0.0 }
    }

    /// Index of the validation at which a run ends, and the step of its best one. Each validation is of a new process.
    fn ends(metric: &str, patience: u64, values: &[f64]) -> Option<(usize, u64)> {
        let mut saved = None;
        for (at, &value) in values.iter().enumerate() {
            let mut stop = EarlyStop::new(EarlyStopConfig { metric: metric.to_owned(), patience }, saved);
            let ended = stop.compare(Step(10 * at as u64), &report(value)).expect("the metric exists");
            assert_eq!(ended.is_some(), stop.is_over());
            saved = stop.saved();
            let json = serde_json::to_string(&saved).expect("plain data");
            assert_eq!(serde_json::from_str::<Option<SavedEarlyStop>>(&json).expect("as written"), saved);
            if let Some(ended) = ended {
                return Some((at, ended.best_step.0));
            }
        }
        None
    }

    #[test]
    fn run_ends_after_validations_that_are_no_better_than_the_best() {
        let values = [0.5, 0.7, 0.6, 0.7, 0.71, 0.1, 0.2, 0.3];
        assert_eq!(ends("task.matthews", 2, &values), Some((3, 10)), "an equal value is not better");
        assert_eq!(ends("task.matthews", 3, &values), Some((7, 40)));
        assert_eq!(ends("task", 3, &values), Some((3, 0)), "a loss is minimized");
        assert_eq!(ends("loss", 4, &[3.0, 2.0, 1.0, 0.5, 0.25]), None);
    }

    #[test]
    fn values_that_are_not_finite_are_never_better() {
        assert_eq!(ends("task.matthews", 2, &[f64::NAN, 0.1, f64::INFINITY, f64::NAN]), Some((3, 10)));
        assert_eq!(ends("loss", 2, &[f64::NAN, f64::NAN, f64::NAN]), Some((2, 0)));
    }

    #[test]
    fn state_of_another_metric_begins_again_and_an_unknown_metric_is_named() {
        let config = |metric: &str| EarlyStopConfig { metric: metric.to_owned(), patience: 1 };
        let mut stop = EarlyStop::new(config("task.matthews"), None);
        stop.compare(Step(1), &report(0.5)).expect("it exists");
        assert!(EarlyStop::new(config("loss"), stop.saved()).saved().is_none());
        let error =
            EarlyStop::new(config("task.mathews"), None).compare(Step(1), &report(0.5)).expect_err("a typing error");
        assert!(error.to_string().contains("`task.mathews`; there are `loss`, `task`, `task.matthews`"), "{error}");
    }
}
