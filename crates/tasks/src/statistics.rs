//! Statistics of one metric over runs and over evaluations of a run.

use crate::metric::{MetricValue, UndefinedReason};

/// Summary of values, one per run or seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub count: usize,
    /// Mean.
    pub mean: MetricValue,
    /// Sample standard deviation, with `n − 1`. Undefined for fewer than two values.
    pub standard_deviation: MetricValue,
    /// Median: the middle value, or the mean of the two middle values.
    pub median: MetricValue,
    /// Smallest value.
    pub min: MetricValue,
    /// Largest value.
    pub max: MetricValue,
}

impl Summary {
    /// Summarizes values. If one of them is undefined, every statistic is.
    pub fn new(values: &[MetricValue]) -> Self {
        let count = values.len();
        let undefined = values.iter().find_map(|value| match value {
            MetricValue::Undefined(reason) => Some(*reason),
            MetricValue::Defined(value) if !value.is_finite() => Some(UndefinedReason::NotFinite),
            MetricValue::Defined(_) => None,
        });
        if let Some(reason) = undefined.or((count == 0).then_some(UndefinedReason::NoExamples)) {
            let none = MetricValue::Undefined(reason);
            return Self { count, mean: none, standard_deviation: none, median: none, min: none, max: none };
        }
        let mut sorted: Vec<f64> = values.iter().filter_map(|value| value.value()).collect();
        sorted.sort_by(f64::total_cmp);
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let defined = MetricValue::Defined;
        Self {
            count,
            mean: defined(mean),
            standard_deviation: standard_deviation(&sorted, mean),
            median: defined(f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2])),
            min: defined(sorted[0]),
            max: defined(sorted[count - 1]),
        }
    }
}

fn standard_deviation(values: &[f64], mean: f64) -> MetricValue {
    if values.len() < 2 {
        return MetricValue::Undefined(UndefinedReason::TooFew);
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    MetricValue::Defined((squares / (values.len() - 1) as f64).sqrt())
}

/// Evaluation of a run at a step: the metric that selects, and the one that is reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Step of the checkpoint.
    pub step: u64,
    /// Primary metric on the dev set.
    pub dev: MetricValue,
    /// Metric of the reported set, which may be the dev set.
    pub reported: MetricValue,
}

/// Returns the evaluation with the best dev value, the first of several. Undefined values never win.
pub fn best_on_dev(evaluations: &[Evaluation], is_larger_better: bool) -> Option<Evaluation> {
    let dev = evaluations.iter().map(|evaluation| evaluation.dev);
    best_index(dev, is_larger_better).map(|index| evaluations[index])
}

/// Returns the index of the best value, the first of several. Undefined values never win.
pub fn best_index(values: impl IntoIterator<Item = MetricValue>, is_larger_better: bool) -> Option<usize> {
    let mut best: Option<(f64, usize)> = None;
    for (index, value) in values.into_iter().enumerate() {
        let Some(value) = value.value() else { continue };
        let value = if is_larger_better { value } else { -value };
        if best.is_none_or(|(best, _)| value > best) {
            best = Some((value, index));
        }
    }
    best.map(|(_, index)| index)
}

/// Returns the evaluation of the last step.
pub fn last(evaluations: &[Evaluation]) -> Option<Evaluation> {
    evaluations.iter().copied().max_by_key(|evaluation| evaluation.step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defined(values: &[f64]) -> Vec<MetricValue> {
        values.iter().copied().map(MetricValue::Defined).collect()
    }

    #[test]
    fn a_summary_has_the_sample_standard_deviation() {
        let summary = Summary::new(&defined(&[4.0, 2.0, 9.0, 5.0]));
        assert_eq!(summary.mean, MetricValue::Defined(5.0));
        assert_eq!(summary.standard_deviation, MetricValue::Defined((26.0_f64 / 3.0).sqrt()));
        assert_eq!(summary.median, MetricValue::Defined(4.5));
        assert_eq!((summary.min, summary.max), (MetricValue::Defined(2.0), MetricValue::Defined(9.0)));
        assert_eq!(Summary::new(&defined(&[3.0, 1.0, 2.0])).median, MetricValue::Defined(2.0));
    }

    #[test]
    fn degenerate_summaries_are_undefined() {
        assert_eq!(Summary::new(&[]).mean, MetricValue::Undefined(UndefinedReason::NoExamples));
        let one = Summary::new(&defined(&[3.0]));
        assert_eq!(one.mean, MetricValue::Defined(3.0));
        assert_eq!(one.standard_deviation, MetricValue::Undefined(UndefinedReason::TooFew));
        let broken = [MetricValue::Defined(1.0), MetricValue::Undefined(UndefinedReason::Constant)];
        assert_eq!(Summary::new(&broken).median, MetricValue::Undefined(UndefinedReason::Constant));
        assert_eq!(Summary::new(&defined(&[f64::NAN])).mean, MetricValue::Undefined(UndefinedReason::NotFinite));
    }

    #[test]
    fn selection_takes_the_first_best_and_the_last_step() {
        let at = |step, dev: Option<f64>, reported| Evaluation {
            step,
            dev: dev.map_or(MetricValue::Undefined(UndefinedReason::Constant), MetricValue::Defined),
            reported: MetricValue::Defined(reported),
        };
        let run = [at(1, None, 0.9), at(2, Some(0.5), 0.4), at(3, Some(0.5), 0.6), at(4, Some(0.1), 0.7)];
        assert_eq!(best_on_dev(&run, true).map(|it| it.step), Some(2));
        assert_eq!(best_on_dev(&run, false).map(|it| it.step), Some(4));
        assert_eq!(last(&run).map(|it| it.reported), Some(MetricValue::Defined(0.7)));
        assert_eq!(best_on_dev(&run[..1], true), None);
        assert_eq!(last(&[]), None);
    }
}
