//! Metrics of classes: accuracy, precision, recall, F1, and Matthews correlation.
//!
//! # Source
//! scikit-learn's `accuracy_score`, `precision_recall_fscore_support` with `zero_division=0`, and `matthews_corrcoef`.

use super::value::{MetricValue, UndefinedReason};

/// Average of precision, recall or F1 over classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassAverage {
    /// Class 1 alone: the positive class of GLUE's binary tasks.
    Binary,
    /// Mean over the classes that occur in gold or predicted values, as in scikit-learn.
    Macro,
    /// Mean over all classes of the task. A class that occurs nowhere counts 0.
    MacroAll,
    /// One value from the sums over all classes. It equals accuracy.
    Micro,
    /// Mean weighted by the number of gold values of each class.
    Weighted,
}

/// Precision, recall or F1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassScore {
    /// Fraction of predictions of a class that are right.
    Precision,
    /// Fraction of gold values of a class that are predicted.
    Recall,
    /// Harmonic mean of both.
    F1,
}

impl ClassScore {
    /// Returns the score from counts. A division by 0 gives 0.
    pub(super) fn of_counts(self, correct: u64, predicted: u64, gold: u64) -> f64 {
        let ratio = |over: u64, under: u64| if under == 0 { 0.0 } else { over as f64 / under as f64 };
        match self {
            Self::Precision => ratio(correct, predicted),
            Self::Recall => ratio(correct, gold),
            Self::F1 => ratio(2 * correct, predicted + gold),
        }
    }
}

/// Numbers of examples by gold and predicted class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confusion {
    /// Number of classes.
    classes: usize,
    /// Row: gold class. Column: predicted class.
    counts: Vec<u64>,
}

impl Confusion {
    /// Counts pairs of a gold and a predicted class.
    ///
    /// # Panics
    /// Panics if the lengths differ, or if a class is not below `classes`.
    pub fn new(classes: usize, gold: &[u32], predicted: &[u32]) -> Self {
        assert_eq!(gold.len(), predicted.len(), "one prediction per gold value");
        let mut counts = vec![0; classes * classes];
        for (&gold, &predicted) in gold.iter().zip(predicted) {
            assert!((gold.max(predicted) as usize) < classes, "class {} of {classes}", gold.max(predicted));
            counts[gold as usize * classes + predicted as usize] += 1;
        }
        Self { classes, counts }
    }

    /// Returns the number of examples of a gold and a predicted class.
    pub fn count(&self, gold: usize, predicted: usize) -> u64 {
        self.counts[gold * self.classes + predicted]
    }

    /// Returns the number of examples.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the fraction of examples that are right.
    pub fn accuracy(&self) -> MetricValue {
        MetricValue::mean(self.correct() as f64, self.total())
    }

    /// Returns precision, recall or F1.
    pub fn score(&self, score: ClassScore, average: ClassAverage) -> MetricValue {
        if self.total() == 0 {
            return MetricValue::Undefined(UndefinedReason::NoExamples);
        }
        let of_class =
            |class: usize| score.of_counts(self.count(class, class), self.predicted(class), self.gold(class));
        let value = match average {
            ClassAverage::Binary if self.classes < 2 => 0.0,
            ClassAverage::Binary => of_class(1),
            ClassAverage::Macro => {
                let occurs = |class: &usize| self.gold(*class) + self.predicted(*class) > 0;
                mean(&(0..self.classes).filter(occurs).map(of_class).collect::<Vec<_>>())
            }
            ClassAverage::MacroAll => mean(&(0..self.classes).map(of_class).collect::<Vec<_>>()),
            ClassAverage::Micro => score.of_counts(self.correct(), self.total(), self.total()),
            ClassAverage::Weighted => {
                let weighted = (0..self.classes).map(|class| self.gold(class) as f64 * of_class(class));
                weighted.sum::<f64>() / self.total() as f64
            }
        };
        MetricValue::Defined(value)
    }

    /// Returns the Matthews correlation, for two or more classes. It is 0 if all gold values or all predictions are
    /// equal.
    pub fn matthews(&self) -> MetricValue {
        if self.total() == 0 {
            return MetricValue::Undefined(UndefinedReason::NoExamples);
        }
        let total = i128::from(self.total());
        let products = |left: &dyn Fn(usize) -> u64, right: &dyn Fn(usize) -> u64| {
            (0..self.classes).map(|class| i128::from(left(class)) * i128::from(right(class))).sum::<i128>()
        };
        let gold = |class| self.gold(class);
        let predicted = |class| self.predicted(class);
        let covariance = i128::from(self.correct()) * total - products(&gold, &predicted);
        let gold_variance = total * total - products(&gold, &gold);
        let predicted_variance = total * total - products(&predicted, &predicted);
        if gold_variance == 0 || predicted_variance == 0 {
            return MetricValue::Defined(0.0);
        }
        // The product of two variances may exceed an integer.
        MetricValue::Defined(covariance as f64 / (gold_variance as f64 * predicted_variance as f64).sqrt())
    }

    fn correct(&self) -> u64 {
        (0..self.classes).map(|class| self.count(class, class)).sum()
    }

    fn gold(&self, class: usize) -> u64 {
        (0..self.classes).map(|predicted| self.count(class, predicted)).sum()
    }

    fn predicted(&self, class: usize) -> u64 {
        (0..self.classes).map(|gold| self.count(gold, class)).sum()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
