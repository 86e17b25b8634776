//! Expected first value of a loss term, with untrained weights.

/// Sizes that determine the first values, in addition to an objective's configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StartFacts {
    /// Vocabulary size.
    pub vocab_size: f64,
    /// Rows per micro-batch.
    pub micro_batch_rows: f64,
    /// Rows per step.
    pub global_batch_rows: f64,
    /// Width of a hidden state.
    pub hidden: u32,
}

/// Expected range of a term's first value, in nats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expectation {
    /// Name of the term within its objective.
    pub term: &'static str,
    /// Lower bound, inclusive.
    pub low: f64,
    /// Upper bound, inclusive.
    pub high: f64,
    /// Usual cause of a value outside the range.
    pub hint: &'static str,
}

impl Expectation {
    /// Creates the range `value · (1 ± tolerance)`.
    #[must_use]
    pub fn near(term: &'static str, value: f64, tolerance: f64, hint: &'static str) -> Self {
        Self::in_range(term, value * (1.0 - tolerance), value * (1.0 + tolerance), hint)
    }

    /// Creates the range `low..=high`.
    #[must_use]
    pub fn in_range(term: &'static str, low: f64, high: f64, hint: &'static str) -> Self {
        Self { term, low, high, hint }
    }
}
