//! Reports that several verbs print: rows with their views, summaries of runs, the page about a corpus.

pub(crate) mod corpus_page;
pub mod row_view;
pub(crate) mod run_summary;
