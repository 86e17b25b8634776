//! Answers from start and end logits.
//!
//! # Definition
//! In each window the 20 largest start logits and the 20 largest end logits are combined. A pair is a candidate if both
//! are passage tokens, the start has its maximum context in this window, the end is not before the start, and there are
//! at most 30 tokens. The best sum of logits over all windows is the answer. The null score is the smallest
//! `start[0] + end[0]` of the windows; "no answer" is predicted if it exceeds the best sum by more than the threshold.
//!
//! # Source
//! `compute_predictions_logits` of `transformers`; COCO-LM's code for [`MaskedLogits::QuestionAndSeparators`].

use std::ops::Range;

/// Tokens whose logits count as −∞ before the largest are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaskedLogits {
    /// None: question tokens may use up some of the 20 places. As in `transformers`.
    #[default]
    None,
    /// Everything except the passage and the first token. As in COCO-LM.
    QuestionAndSeparators,
}

/// Configuration of the extraction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExtractionConfig {
    /// Number of start and of end positions per window.
    pub candidates: usize,
    /// Longest answer in tokens.
    pub max_answer_tokens: usize,
    /// Masked tokens.
    pub masked: MaskedLogits,
    /// Threshold of the null score, if questions may be unanswerable.
    pub null_threshold: Option<f32>,
}

impl Default for ExtractionConfig {
    fn default() -> Self {
        Self { candidates: 20, max_answer_tokens: 30, masked: MaskedLogits::None, null_threshold: None }
    }
}

/// Logits of a window. All slices have one entry per token of the row, special tokens and question included. The first
/// token is `[CLS]`.
#[derive(Clone, Copy, Debug)]
pub struct WindowLogits<'a> {
    /// Start logits.
    pub start: &'a [f32],
    /// End logits.
    pub end: &'a [f32],
    /// Byte range of each passage token in the passage. `None` for other tokens.
    pub bytes: &'a [Option<Range<usize>>],
    /// Whether the token has its maximum context in this window.
    pub has_max_context: &'a [bool],
}

/// Extracted answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Extracted {
    /// Byte range in the passage. `None`: no answer.
    pub bytes: Option<Range<usize>>,
    /// Sum of the logits of the best candidate. −∞ if there is none.
    pub score: f32,
    /// Null score minus `score`: evidence that the question is unanswerable, finite or infinite, never NaN.
    pub null_margin: f32,
}

/// Extracts the answer to a question from the windows over its passage. A logit of NaN counts as −∞.
///
/// # Panics
/// Panics if the slices of a window differ in length.
pub fn extract_answer(config: &ExtractionConfig, windows: &[WindowLogits<'_>]) -> Extracted {
    let mut best: Option<Candidate> = None;
    let mut null_score = f32::INFINITY;
    for window in windows {
        window.check();
        if let (Some(start), Some(end)) = (window.start.first(), window.end.first()) {
            null_score = null_score.min(number(*start) + number(*end));
        }
        if let Some(candidate) = best_of_window(config, window)
            && best.as_ref().is_none_or(|best| candidate.score > best.score)
        {
            best = Some(candidate);
        }
    }
    let score = best.as_ref().map_or(f32::NEG_INFINITY, |best| best.score);
    // Two infinities of one sign have no difference.
    let null_margin = if null_score.total_cmp(&score).is_eq() { 0.0 } else { null_score - score };
    let is_null = config.null_threshold.is_some_and(|threshold| null_margin > threshold);
    let bytes = best.filter(|_| !is_null).map(|best| best.bytes);
    Extracted { bytes, score, null_margin }
}

struct Candidate {
    bytes: Range<usize>,
    score: f32,
}

impl WindowLogits<'_> {
    fn check(&self) {
        let tokens = self.start.len();
        let lengths = [self.end.len(), self.bytes.len(), self.has_max_context.len()];
        assert!(lengths.iter().all(|length| *length == tokens), "one entry per token: {tokens} and {lengths:?}");
    }

    /// Returns the positions of the largest logits, larger ones first, the first of equal ones first.
    fn largest(&self, logits: &[f32], config: &ExtractionConfig) -> Vec<usize> {
        let masked = |position: usize| match config.masked {
            MaskedLogits::None => false,
            MaskedLogits::QuestionAndSeparators => position > 0 && self.bytes[position].is_none(),
        };
        let mut positions: Vec<usize> = (0..logits.len()).filter(|&position| !masked(position)).collect();
        positions.sort_by(|&left, &right| number(logits[right]).total_cmp(&number(logits[left])));
        positions.truncate(config.candidates);
        positions
    }
}

fn best_of_window(config: &ExtractionConfig, window: &WindowLogits<'_>) -> Option<Candidate> {
    let ends = window.largest(window.end, config);
    let mut best: Option<Candidate> = None;
    for start in window.largest(window.start, config) {
        let Some(first) = window.bytes[start].as_ref().filter(|_| window.has_max_context[start]) else { continue };
        for &end in ends.iter().filter(|&&end| end >= start && end - start < config.max_answer_tokens) {
            let Some(last) = &window.bytes[end] else { continue };
            let score = number(window.start[start]) + number(window.end[end]);
            if best.as_ref().is_none_or(|best| score > best.score) {
                best = Some(Candidate { bytes: first.start..last.end.max(first.start), score });
            }
        }
    }
    best
}

/// Replaces NaN by −∞.
fn number(logit: f32) -> f32 {
    if logit.is_nan() { f32::NEG_INFINITY } else { logit }
}
