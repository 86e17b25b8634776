//! Reason for the removal of a document: the rule, what it measured, and its bound.

use crate::text::front;

/// Maximum length of the text that is kept of a match.
const MAX_FOUND_BYTES: usize = 100;

/// Reason for the removal of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct RemovalReason {
    /// Name of the rule.
    pub rule: &'static str,
    /// Measured value, if the rule compares one: a share, a number or a mean.
    pub value: Option<f64>,
    /// Bound of the value, which is inclusive.
    pub bound: Option<f64>,
    /// Text that the rule is about, such as the beginning of a match or a language, if there is one.
    pub found: Option<String>,
}

impl RemovalReason {
    /// Creates the reason of a rule that measures nothing.
    #[must_use]
    pub fn of_rule(rule: &'static str) -> Self {
        Self { rule, value: None, bound: None, found: None }
    }

    /// Creates the reason of a value outside of its bound.
    pub(super) fn measured(rule: &'static str, value: f64, bound: f64) -> Self {
        Self { rule, value: Some(value), bound: Some(bound), found: None }
    }

    /// Creates the reason of a number outside of its bound.
    pub(super) fn counted(rule: &'static str, value: u64, bound: u64) -> Self {
        Self::measured(rule, value as f64, bound as f64)
    }

    /// Adds the beginning of a text.
    pub(super) fn with_found(self, text: &str) -> Self {
        Self { found: Some(front(text, MAX_FOUND_BYTES).to_owned()), ..self }
    }
}

/// Returns the reason if the value is below the bound.
pub(super) fn below(rule: &'static str, value: f64, min: f64) -> Option<RemovalReason> {
    (value < min).then(|| RemovalReason::measured(rule, value, min))
}

/// Returns the reason if the value is above the bound.
pub(super) fn above(rule: &'static str, value: f64, max: f64) -> Option<RemovalReason> {
    (value > max).then(|| RemovalReason::measured(rule, value, max))
}

/// Returns the reason if the number is below the bound.
pub(super) fn fewer(rule: &'static str, count: u64, min: u64) -> Option<RemovalReason> {
    (count < min).then(|| RemovalReason::counted(rule, count, min))
}

/// Returns the reason if the number is above the bound.
pub(super) fn more(rule: &'static str, count: u64, max: u64) -> Option<RemovalReason> {
    (count > max).then(|| RemovalReason::counted(rule, count, max))
}
