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
use crate::prompt::Prompt;

schemas::registry! {
    /// Task of any kind.
    pub enum AnyTask: Task {
        ag_news::AgNews,
        ax::Ax,
        chemprot::Chemprot,
        citation_intent::CitationIntent,
        cola::Cola,
        custom_classification::CustomClassification,
        custom_regression::CustomRegression,
        custom_span_extraction::CustomSpanExtraction,
        custom_token_classification::CustomTokenClassification,
        hyperpartisan_news::HyperpartisanNews,
        mnli::Mnli,
        mrpc::Mrpc,
        qnli::Qnli,
        qqp::Qqp,
        rte::Rte,
        scicite::Scicite,
        sciie::Sciie,
        squad::Squad,
        squad_v2::SquadV2,
        sst2::Sst2,
        stsb::Stsb,
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

    /// Returns the prompt for fine-tuning on a few examples, if the task has one.
    fn prompt(&self) -> Option<Prompt> {
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
