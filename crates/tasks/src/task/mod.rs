//! Tasks: each has one file and one line in the registry below.
//!
//! A task states the kind of its output, its files and columns, and its metrics. It reads nothing and computes nothing:
//! [`ExampleReader`](crate::ExampleReader) reads an [`ExampleSet`], and [`evaluate`](crate::metric::evaluate) scores
//! predictions.

#[cfg(test)]
mod contract;
mod data_files;
mod set;

pub use self::data_files::DataFiles;
pub use self::set::{ExampleSet, SetPurpose};
use crate::average::Convention;
use crate::example::TaskOutput;
use crate::metric::TaskMetric;

schemas::registry! {
    /// Task of any kind.
    pub enum AnyTask: Task {
        ag_news::AgNews,
        ax::Ax,
        chemprot::ChemProt,
        citation_intent::AclArc,
        classification::ClassificationTask,
        cola::Cola,
        hyperpartisan_news::HyperPartisan,
        mnli::Mnli,
        mrpc::Mrpc,
        qnli::Qnli,
        qqp::Qqp,
        regression::RegressionTask,
        rte::Rte,
        scicite::SciCite,
        sciie::SciErc,
        span_extraction::SpanExtractionTask,
        squad::SquadV1,
        squad_v2::SquadV2,
        sst2::Sst2,
        stsb::StsB,
        token_classification::TokenClassificationTask,
        wnli::Wnli,
    }
}

/// Fine-tuning task. The struct is its configuration; tasks of the papers have no keys.
pub trait Task: Send + Sync {
    /// Returns the kind of its output, with labels or range.
    fn output(&self) -> TaskOutput;

    /// Returns the usual name of its folder, within the folder of all tasks.
    fn folder(&self) -> &'static str;

    /// Returns its files.
    fn sets(&self) -> Vec<ExampleSet>;

    /// Returns all metrics that a report has.
    fn metrics(&self) -> Vec<TaskMetric>;

    /// Returns the metrics that a paper prints. The first one selects checkpoints and enters averages.
    fn primary_metrics(&self, _convention: Convention) -> Vec<TaskMetric> {
        self.metrics().into_iter().take(1).collect()
    }

    /// Returns the name of the task whose model predicts this task, if it has no training set.
    fn trained_as(&self) -> Option<&'static str> {
        None
    }

    /// Returns the index of the label that is predicted for every example instead of training a model.
    fn constant_prediction(&self) -> Option<u32> {
        None
    }

    /// Returns one message per invalid value.
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }
}
