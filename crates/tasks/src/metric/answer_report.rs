//! Exact match and F1 over the questions of a SQuAD file.
//!
//! # Source
//! The evaluation scripts of SQuAD 1.1 and 2.0. Values are fractions; the scripts print percentages.

use super::answers::{AnswerScore, SquadVersion, score_answer};
use super::value::MetricValue;

/// Question with its prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictedAnswer<'a> {
    /// Gold answers. None: the question is unanswerable.
    pub golds: &'a [&'a str],
    /// Predicted text: empty for "no answer", `None` if there is no prediction.
    pub predicted: Option<&'a str>,
    /// Evidence that the question is unanswerable: a probability, or the null score minus the best answer's score.
    pub no_answer: f64,
}

/// Means over questions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AnswerMeans {
    /// Number of questions that count.
    pub questions: u64,
    /// Mean of exact match.
    pub exact: MetricValue,
    /// Mean of F1.
    pub f1: MetricValue,
}

/// Best value of a metric over all thresholds, and the lowest threshold that reaches it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BestThreshold {
    /// Value.
    pub value: MetricValue,
    /// Threshold: questions with more evidence are predicted as unanswerable.
    pub threshold: f64,
}

/// Report over the questions of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AnswerReport {
    /// All questions.
    pub all: AnswerMeans,
    /// Answerable questions.
    pub answerable: AnswerMeans,
    /// Unanswerable questions.
    pub unanswerable: AnswerMeans,
    /// Best exact match.
    pub best_exact: BestThreshold,
    /// Best F1.
    pub best_f1: BestThreshold,
}

/// Scored question.
struct Scored {
    is_answerable: bool,
    is_empty: bool,
    no_answer: f64,
    raw: AnswerScore,
}

/// Evaluates predictions. A question with `no_answer > threshold` is predicted as unanswerable; `f64::INFINITY` keeps
/// the predictions as they are.
pub fn evaluate_answers(version: SquadVersion, questions: &[PredictedAnswer<'_>], threshold: f64) -> AnswerReport {
    let scored: Vec<Scored> = questions.iter().filter_map(|question| scored(version, question)).collect();
    let final_scores: Vec<(bool, AnswerScore)> =
        scored.iter().map(|it| (it.is_answerable, it.with(threshold))).collect();
    let means = |wanted: &dyn Fn(bool) -> bool| {
        let scores: Vec<_> = final_scores.iter().filter(|(answerable, _)| wanted(*answerable)).collect();
        let questions = scores.len() as u64;
        let exact = MetricValue::mean(scores.iter().map(|(_, score)| score.exact).sum(), questions);
        let f1 = MetricValue::mean(scores.iter().map(|(_, score)| score.f1).sum(), questions);
        AnswerMeans { questions, exact, f1 }
    };
    AnswerReport {
        all: means(&|_| true),
        answerable: means(&|answerable| answerable),
        unanswerable: means(&|answerable| !answerable),
        best_exact: best_threshold(&scored, |score| score.exact),
        best_f1: best_threshold(&scored, |score| score.f1),
    }
}

fn scored(version: SquadVersion, question: &PredictedAnswer<'_>) -> Option<Scored> {
    let raw = match (question.predicted, version) {
        (Some(predicted), _) => score_answer(version, question.golds, predicted),
        (None, SquadVersion::V1) => AnswerScore::default(),
        (None, SquadVersion::V2) => return None,
    };
    let is_empty = question.predicted.is_none_or(str::is_empty);
    Some(Scored { is_answerable: !question.golds.is_empty(), is_empty, no_answer: question.no_answer, raw })
}

impl Scored {
    /// Returns the score with a threshold.
    fn with(&self, threshold: f64) -> AnswerScore {
        if self.no_answer > threshold {
            let value = if self.is_answerable { 0.0 } else { 1.0 };
            return AnswerScore { exact: value, f1: value };
        }
        self.raw
    }
}

/// Returns the best threshold: it begins with "unanswerable" for all, and answers questions by increasing evidence.
/// Equal evidence keeps the order of the questions, so a threshold may lie within a group of equal values, as in the
/// script.
fn best_threshold(scored: &[Scored], metric: impl Fn(AnswerScore) -> f64) -> BestThreshold {
    let mut order: Vec<&Scored> = scored.iter().collect();
    order.sort_by(|left, right| left.no_answer.total_cmp(&right.no_answer));
    let mut sum = scored.iter().filter(|it| !it.is_answerable).count() as f64;
    let mut best = sum;
    let mut threshold = 0.0;
    for question in order {
        sum += match (question.is_answerable, question.is_empty) {
            (true, _) => metric(question.raw),
            (false, true) => 0.0,
            (false, false) => -1.0,
        };
        if sum > best {
            best = sum;
            threshold = question.no_answer;
        }
    }
    BestThreshold { value: MetricValue::mean(best, scored.len() as u64), threshold }
}
