//! Fine-tuning tasks of `cloze`: examples from files, metrics of predictions, and the conventions of the papers.
//!
//! A [`Task`] states the kind of its output, the files of its splits and its metrics. An [`ExampleReader`] turns a file
//! into [`Example`]s. [`metric`] scores predictions, [`span`] turns logits into answers, [`average`] and [`statistics`]
//! summarize several tasks and several runs, and [`submission`] writes predictions as GLUE expects them. A
//! [`Prompt`](prompt::Prompt) turns an example into a text with a blank.
//!
//! Text and numbers only: nothing here knows a tokenizer or a tensor, and nothing starts a thread.

pub mod average;
pub mod example;
pub mod layout;
pub mod metric;
pub mod prompt;
pub mod read;
mod row_error;
pub mod span;
pub mod statistics;
pub mod submission;
pub mod task;

pub use example::{Answer, Example, Gold, TaskOutput};
pub use read::{ExampleReader, ReadCounts};
pub use row_error::RowError;
pub use task::{AnyTask, Task};
