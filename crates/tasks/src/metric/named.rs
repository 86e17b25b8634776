//! Metrics by name, and their computation from gold values and predictions.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer_report::{AnswerReport, PredictedAnswer, evaluate_answers};
use super::answers::SquadVersion;
use super::classes::{ClassAverage, ClassScore, Confusion};
use super::entities::EntityCounts;
use super::entity_scheme::EntityScheme;
use super::scores::{mean_squared_error, pearson, spearman};
use super::value::{MetricValue, UndefinedReason};
use crate::example::TaskOutput;

/// Metric of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskMetric {
    /// Fraction of right classes. For word labels: of right words.
    Accuracy,
    /// Precision of class 1.
    Precision,
    /// Recall of class 1.
    Recall,
    /// F1 of class 1.
    F1,
    /// Mean F1 over the classes that occur.
    MacroF1,
    /// F1 from the sums over all classes.
    MicroF1,
    /// F1 weighted by the gold values of each class.
    WeightedF1,
    /// Matthews correlation.
    Matthews,
    /// Pearson correlation.
    Pearson,
    /// Spearman correlation.
    Spearman,
    /// Mean squared error.
    MeanSquaredError,
    /// Precision of entities.
    EntityPrecision,
    /// Recall of entities.
    EntityRecall,
    /// F1 of entities.
    EntityF1,
    /// Exact match of answers.
    ExactMatch,
    /// F1 of answers.
    AnswerF1,
    /// Exact match at the best threshold for unanswerable questions.
    BestExactMatch,
    /// F1 at the best threshold for unanswerable questions.
    BestAnswerF1,
    /// Exact match of answerable questions.
    AnswerableExactMatch,
    /// F1 of answerable questions.
    AnswerableF1,
    /// Exact match of unanswerable questions. Their F1 has the same value.
    UnanswerableExactMatch,
}

impl TaskMetric {
    /// All metrics.
    pub const ALL: &'static [Self] = &[
        Self::Accuracy,
        Self::Precision,
        Self::Recall,
        Self::F1,
        Self::MacroF1,
        Self::MicroF1,
        Self::WeightedF1,
        Self::Matthews,
        Self::Pearson,
        Self::Spearman,
        Self::MeanSquaredError,
        Self::EntityPrecision,
        Self::EntityRecall,
        Self::EntityF1,
        Self::ExactMatch,
        Self::AnswerF1,
        Self::BestExactMatch,
        Self::BestAnswerF1,
        Self::AnswerableExactMatch,
        Self::AnswerableF1,
        Self::UnanswerableExactMatch,
    ];

    /// Returns the name in configurations and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::Precision => "precision",
            Self::Recall => "recall",
            Self::F1 => "f1",
            Self::MacroF1 => "macro_f1",
            Self::MicroF1 => "micro_f1",
            Self::WeightedF1 => "weighted_f1",
            Self::Matthews => "matthews",
            Self::Pearson => "pearson",
            Self::Spearman => "spearman",
            Self::MeanSquaredError => "mean_squared_error",
            Self::EntityPrecision => "entity_precision",
            Self::EntityRecall => "entity_recall",
            Self::EntityF1 => "entity_f1",
            Self::ExactMatch => "exact_match",
            Self::AnswerF1 => "answer_f1",
            Self::BestExactMatch => "best_exact_match",
            Self::BestAnswerF1 => "best_answer_f1",
            Self::AnswerableExactMatch => "answerable_exact_match",
            Self::AnswerableF1 => "answerable_f1",
            Self::UnanswerableExactMatch => "unanswerable_exact_match",
        }
    }

    /// Returns whether larger values are better.
    pub fn is_larger_better(self) -> bool {
        self != Self::MeanSquaredError
    }

    /// Returns whether the metric is one of a task with this output.
    pub fn applies_to(self, output: &TaskOutput) -> bool {
        use TaskMetric as M;
        match output {
            TaskOutput::Class { labels } => match self {
                M::Accuracy | M::MacroF1 | M::MicroF1 | M::WeightedF1 | M::Matthews => true,
                M::Precision | M::Recall | M::F1 => labels.len() == 2,
                _ => false,
            },
            TaskOutput::Score { .. } => matches!(self, M::Pearson | M::Spearman | M::MeanSquaredError),
            TaskOutput::WordLabels { .. } => {
                matches!(self, M::Accuracy | M::EntityPrecision | M::EntityRecall | M::EntityF1)
            }
            TaskOutput::Spans { allows_none } => match self {
                M::ExactMatch | M::AnswerF1 => true,
                M::BestExactMatch
                | M::BestAnswerF1
                | M::AnswerableExactMatch
                | M::AnswerableF1
                | M::UnanswerableExactMatch => *allows_none,
                _ => false,
            },
        }
    }
}

impl fmt::Display for TaskMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Gold values and predictions of a set of examples, in the same order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Judged<'a> {
    /// Classes as indices below `classes`.
    Classes {
        /// Number of classes of the task.
        classes: usize,
        /// Gold classes.
        gold: &'a [u32],
        /// Predicted classes.
        predicted: &'a [u32],
    },
    /// Scores.
    Scores {
        /// Gold scores.
        gold: &'a [f64],
        /// Predicted scores.
        predicted: &'a [f64],
    },
    /// Word labels of each sentence as indices into `labels`.
    Words {
        /// Names of the labels.
        labels: &'a [String],
        /// Gold labels.
        gold: &'a [Vec<u32>],
        /// Predicted labels, as many as gold ones in each sentence.
        predicted: &'a [Vec<u32>],
    },
    /// Answers.
    Answers {
        /// Version of SQuAD.
        version: SquadVersion,
        /// Questions with predictions.
        questions: &'a [PredictedAnswer<'a>],
        /// Threshold for unanswerable questions. `f64::INFINITY` keeps the predictions as they are.
        threshold: f64,
    },
}

/// Metric with its value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricScore {
    /// Metric.
    pub metric: TaskMetric,
    /// Value.
    pub value: MetricValue,
}

/// Computes metrics. A metric of another kind of task is undefined.
///
/// # Panics
/// Panics if there are more or fewer predictions than gold values, or if a class is out of range.
pub fn evaluate(judged: &Judged<'_>, metrics: &[TaskMetric]) -> Vec<MetricScore> {
    let computed = Computed::new(judged);
    metrics.iter().map(|&metric| MetricScore { metric, value: computed.value(metric) }).collect()
}

/// Counts that all metrics of a kind share.
enum Computed<'a> {
    Classes(Confusion),
    Scores {
        gold: &'a [f64],
        predicted: &'a [f64],
    },
    /// The entities are `None` if the labels are of no scheme.
    Words {
        words: Confusion,
        entities: Option<EntityCounts>,
    },
    Answers(AnswerReport),
}

impl<'a> Computed<'a> {
    fn new(judged: &Judged<'a>) -> Self {
        match *judged {
            Judged::Classes { classes, gold, predicted } => Self::Classes(Confusion::new(classes, gold, predicted)),
            Judged::Scores { gold, predicted } => Self::Scores { gold, predicted },
            Judged::Words { labels, gold, predicted } => {
                let words = Confusion::new(labels.len(), &gold.concat(), &predicted.concat());
                Self::Words { words, entities: count_entities(labels, gold, predicted) }
            }
            Judged::Answers { version, questions, threshold } => {
                Self::Answers(evaluate_answers(version, questions, threshold))
            }
        }
    }

    fn value(&self, metric: TaskMetric) -> MetricValue {
        let value = match self {
            Self::Classes(confusion) => class_value(confusion, metric),
            Self::Scores { gold, predicted } => match metric {
                TaskMetric::Pearson => Some(pearson(gold, predicted)),
                TaskMetric::Spearman => Some(spearman(gold, predicted)),
                TaskMetric::MeanSquaredError => Some(mean_squared_error(gold, predicted)),
                _ => None,
            },
            Self::Words { words, entities } => match metric {
                TaskMetric::Accuracy => Some(words.accuracy()),
                TaskMetric::EntityPrecision => entities.map(|it| it.score(ClassScore::Precision)),
                TaskMetric::EntityRecall => entities.map(|it| it.score(ClassScore::Recall)),
                TaskMetric::EntityF1 => entities.map(|it| it.score(ClassScore::F1)),
                _ => None,
            },
            Self::Answers(report) => answer_value(report, metric),
        };
        value.unwrap_or(MetricValue::Undefined(UndefinedReason::NotApplicable))
    }
}

/// Counts entities by the scheme of the labels. Returns `None` if the labels are of no scheme.
fn count_entities(labels: &[String], gold: &[Vec<u32>], predicted: &[Vec<u32>]) -> Option<EntityCounts> {
    assert_eq!(gold.len(), predicted.len(), "one prediction per sentence");
    let names = |indices: &[u32]| indices.iter().map(|&index| labels[index as usize].as_str()).collect::<Vec<_>>();
    let scheme = EntityScheme::from_labels(labels.iter().map(String::as_str)).ok()?;
    let mut counts = EntityCounts::default();
    gold.iter().zip(predicted).for_each(|(gold, predicted)| counts.add(&names(gold), &names(predicted), scheme));
    Some(counts)
}

fn class_value(confusion: &Confusion, metric: TaskMetric) -> Option<MetricValue> {
    Some(match metric {
        TaskMetric::Accuracy => confusion.accuracy(),
        TaskMetric::Precision => confusion.score(ClassScore::Precision, ClassAverage::Binary),
        TaskMetric::Recall => confusion.score(ClassScore::Recall, ClassAverage::Binary),
        TaskMetric::F1 => confusion.score(ClassScore::F1, ClassAverage::Binary),
        TaskMetric::MacroF1 => confusion.score(ClassScore::F1, ClassAverage::Macro),
        TaskMetric::MicroF1 => confusion.score(ClassScore::F1, ClassAverage::Micro),
        TaskMetric::WeightedF1 => confusion.score(ClassScore::F1, ClassAverage::Weighted),
        TaskMetric::Matthews => confusion.matthews(),
        _ => return None,
    })
}

fn answer_value(report: &AnswerReport, metric: TaskMetric) -> Option<MetricValue> {
    Some(match metric {
        TaskMetric::ExactMatch => report.all.exact,
        TaskMetric::AnswerF1 => report.all.f1,
        TaskMetric::BestExactMatch => report.best_exact.value,
        TaskMetric::BestAnswerF1 => report.best_f1.value,
        TaskMetric::AnswerableExactMatch => report.answerable.exact,
        TaskMetric::AnswerableF1 => report.answerable.f1,
        TaskMetric::UnanswerableExactMatch => report.unanswerable.exact,
        _ => return None,
    })
}
