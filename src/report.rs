//! Reports that several verbs print: a row as its views made it, a run at a glance, a page about a corpus.

pub(crate) mod corpus_page;
pub mod row_view;
pub(crate) mod run_summary;
