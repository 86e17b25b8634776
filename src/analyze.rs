//! Analyses of checkpoints: their data, tokenized for a model, and reports of their results.

mod data;
mod findings;
mod output;
mod output_charts;

pub use self::data::{data, model_name};
pub use self::findings::ModelFindings;
pub use self::output::{check_outputs, write};
