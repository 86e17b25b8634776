//! Windows over the tokens of a passage.
//!
//! # Source
//! BERT's `run_squad`: a question of at most 64 tokens, and passages in overlapping windows.

use std::ops::Range;

/// Distance of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowStep {
    /// Tokens between the starts of two windows: `doc_stride` of BERT's script.
    Advance(usize),
    /// Tokens that two windows share: `stride` of the tokenizers of `transformers`.
    Overlap(usize),
}

/// Sizes of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowConfig {
    /// Length of a row in tokens, special ones included.
    pub row_tokens: usize,
    /// Special tokens of a row: 3 for `[CLS] question [SEP] passage [SEP]`, 4 for RoBERTa's form.
    pub special_tokens: usize,
    /// Longest question. Further tokens are cut.
    pub max_question_tokens: usize,
    /// Distance of windows.
    pub step: WindowStep,
}

impl Default for WindowConfig {
    fn default() -> Self {
        Self { row_tokens: 384, special_tokens: 3, max_question_tokens: 64, step: WindowStep::Advance(128) }
    }
}

/// Window over a passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassageWindow {
    /// Number of question tokens.
    pub question_tokens: usize,
    /// Tokens of the passage.
    pub passage: Range<usize>,
}

/// Plans the windows of a question and a passage of these numbers of tokens. The last window ends at the last token. An
/// empty passage has one empty window.
///
/// # Errors
/// Returns a message if a row has no room for the passage, or if windows do not advance or leave gaps.
pub fn plan_windows(config: &WindowConfig, question: usize, passage: usize) -> Result<Vec<PassageWindow>, String> {
    let question_tokens = question.min(config.max_question_tokens);
    let used = question_tokens + config.special_tokens;
    let room = config.row_tokens.checked_sub(used).filter(|room| *room > 0).ok_or_else(|| {
        format!("a row of {} tokens has no room for a passage after {used} others; use longer rows", config.row_tokens)
    })?;
    let advance = match config.step {
        WindowStep::Advance(advance) => advance.min(room),
        WindowStep::Overlap(overlap) => room.saturating_sub(overlap),
    };
    if advance == 0 {
        let step = config.step;
        return Err(format!(
            "windows of {room} tokens do not advance with {step:?}; use a smaller overlap or longer rows"
        ));
    }
    let mut windows = Vec::new();
    let mut start = 0;
    loop {
        let end = passage.min(start + room);
        windows.push(PassageWindow { question_tokens, passage: start..end });
        if end == passage {
            return Ok(windows);
        }
        start += advance;
    }
}

/// Returns, for each token of the passage, the window in which it has the most context: the largest minimum of the
/// tokens to its left and to its right, plus a hundredth of the window's length. The first of equal windows wins.
pub fn max_context(windows: &[PassageWindow], passage: usize) -> Vec<usize> {
    let score = |window: &PassageWindow, token: usize| {
        let left = token - window.passage.start;
        let right = window.passage.end - 1 - token;
        left.min(right) as f64 + 0.01 * window.passage.len() as f64
    };
    let best = |token: usize| {
        let mut best = (0, f64::NEG_INFINITY);
        for (index, window) in windows.iter().enumerate().filter(|(_, window)| window.passage.contains(&token)) {
            let score = score(window, token);
            if score > best.1 {
                best = (index, score);
            }
        }
        best.0
    };
    (0..passage).map(best).collect()
}
