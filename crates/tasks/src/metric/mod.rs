//! Metrics of predictions, equal to those of scikit-learn, SciPy, `seqeval` and SQuAD's scripts.

pub mod answer_report;
pub mod answers;
pub mod classes;
pub mod entities;
mod entity_scheme;
mod named;
pub mod scores;
#[cfg(test)]
mod tests;
mod value;

pub use self::answer_report::PredictedAnswer;
pub use self::answers::SquadVersion;
pub use self::entity_scheme::EntityScheme;
pub use self::named::{Judged, MetricScore, TaskMetric, evaluate};
pub use self::value::{MetricValue, UndefinedReason};
