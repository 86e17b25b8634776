//! Text filters and normalization of a preparation.
//!
//! A *filter* reads the text of one document and keeps it, changes it, or removes it with a reason. It is a pure function
//! of the text and its settings: it starts no threads and opens no files, except for a word list while it is loaded.
//! [`AnyFilter`] is its configuration, [`LoadedFilter`] is what a worker calls.
//!
//! [`Normalization`] changes how the same text is written: Unicode form, blanks, line ends, control characters.

pub mod filter;
mod normalization;
mod text;
mod word_list;

pub use self::filter::{AnyFilter, Filter, FilterVerdict, LoadedFilter, RemovalReason, TextFilter};
pub use self::normalization::{Normalization, UnicodeForm};
