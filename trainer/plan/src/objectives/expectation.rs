//! The first value of a term, before the model has learned anything.

/// Facts that the first values depend on in addition to an objective's configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StartFacts {
    /// Ids of the vocabulary.
    pub vocab_size: f64,
    /// Rows that are on the device at once.
    pub rows: f64,
    /// Numbers in a hidden state.
    pub hidden: u32,
}

/// The range of a term's first value, in nats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expectation {
    /// The term's name within its objective.
    pub term: &'static str,
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
    /// The usual cause of another value.
    pub hint: &'static str,
}

impl Expectation {
    /// Within `tolerance`, a share, of `value`.
    #[must_use]
    pub fn near(term: &'static str, value: f64, tolerance: f64, hint: &'static str) -> Self {
        Self::between(term, value * (1.0 - tolerance), value * (1.0 + tolerance), hint)
    }

    /// Within bounds.
    #[must_use]
    pub fn between(term: &'static str, low: f64, high: f64, hint: &'static str) -> Self {
        Self { term, low, high, hint }
    }
}
