//! Value of a metric, which may be undefined.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Value of a metric as a fraction: 0.5 is what papers print as 50.0.
///
/// Inputs for which scikit-learn and SciPy return NaN or raise an error give [`MetricValue::Undefined`]. It is never
/// replaced by a number, so an average over tasks or seeds with an undefined value is undefined too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricValue {
    /// Finite number.
    Defined(f64),
    /// No number, with the reason.
    Undefined(UndefinedReason),
}

/// Reason why a metric has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndefinedReason {
    /// No examples with a gold value.
    NoExamples,
    /// A correlation of fewer than two values.
    TooFew,
    /// A correlation with values that are all equal.
    Constant,
    /// A value that is infinite or NaN.
    NotFinite,
    /// The metric is not one of this kind of task.
    NotApplicable,
}

impl MetricValue {
    /// Returns the number, if there is one.
    pub fn value(self) -> Option<f64> {
        match self {
            Self::Defined(value) => Some(value),
            Self::Undefined(_) => None,
        }
    }

    /// Returns `sum / count`, or undefined for a count of 0.
    pub(crate) fn mean(sum: f64, count: u64) -> Self {
        if count == 0 { Self::Undefined(UndefinedReason::NoExamples) } else { Self::Defined(sum / count as f64) }
    }
}

impl fmt::Display for MetricValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Defined(value) => fmt::Display::fmt(value, f),
            Self::Undefined(reason) => write!(f, "undefined ({reason})"),
        }
    }
}

impl fmt::Display for UndefinedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoExamples => "no examples",
            Self::TooFew => "fewer than two values",
            Self::Constant => "constant values",
            Self::NotFinite => "a value that is not finite",
            Self::NotApplicable => "not a metric of this kind of task",
        })
    }
}

/// A number, or `null` if undefined.
impl Serialize for MetricValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

/// As it is written. The reason of an undefined value is not.
impl<'de> Deserialize<'de> for MetricValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Option::<f64>::deserialize(deserializer)?;
        Ok(value.map_or(Self::Undefined(UndefinedReason::NotApplicable), Self::Defined))
    }
}
