//! Analyses of checkpoints: their data, tokenized for a model, and reports of their results.

mod data;
mod output;
mod output_charts;

pub use self::data::{data, model_name};
pub use self::output::{ModelFindings, check_outputs, write};
