//! Filters: each has one file and one line in the registry below.

#[cfg(test)]
mod contract;
#[cfg(test)]
mod fuzz;
mod reason;

use std::path::Path;

use schemas::Problem;

pub use self::reason::RemovalReason;
use crate::word_list;

schemas::registry! {
    /// Filter of any kind.
    pub enum AnyFilter: Filter {
        blocklist::Blocklist,
        c4::C4,
        fineweb::Fineweb,
        gopher_quality::GopherQuality,
        gopher_repetition::GopherRepetition,
        language::Language,
        pii::Pii,
        ratios::Ratios,
        regex::Regex,
        text_length::TextLength,
    }
}

/// Decision about one document.
#[derive(Clone, Debug, PartialEq)]
pub enum FilterVerdict {
    /// Keeps the text unchanged.
    Keep,
    /// Replaces the text. The new text differs from the old one and is not blank.
    Change(String),
    /// Removes the document.
    Remove(RemovalReason),
}

impl FilterVerdict {
    /// Removes a document by a rule that measures nothing.
    fn remove(rule: &'static str) -> Self {
        Self::Remove(RemovalReason::of_rule(rule))
    }

    /// Removes the document if there is a reason.
    fn remove_if(reason: Option<RemovalReason>) -> Self {
        reason.map_or(Self::Keep, Self::Remove)
    }

    /// Returns the verdict with the rule alone.
    #[cfg(test)]
    fn without_measures(self) -> Self {
        match self {
            Self::Remove(reason) => Self::remove(reason.rule),
            other => other,
        }
    }
}

/// Settings of a filter.
pub trait Filter: Send + Sync {
    /// Returns one problem per invalid setting, with the key relative to the filter. Files are checked by
    /// [`AnyFilter::load`].
    fn problems(&self) -> Vec<Problem>;

    /// Returns the word list that the filter reads, with its key.
    fn file(&self) -> Option<(&'static str, &Path)> {
        None
    }

    /// Whether the filter keeps each text unchanged that it has returned.
    fn is_idempotent(&self) -> bool {
        true
    }

    /// Prepares the filter for use. `file` is the content of [`file`](Self::file).
    ///
    /// # Errors
    /// If a setting or the file is invalid.
    fn build(&self, file: Option<&[u8]>) -> Result<Box<dyn TextFilter>, Problem>;
}

/// Filter that is ready for use. All workers share it.
pub trait TextFilter: Send + Sync {
    /// Decides about the text of one document. The result depends on the text and the settings only. The time is linear
    /// in the length of the text.
    fn apply(&self, text: &str) -> FilterVerdict;
}

/// Loaded filter with its name and the digest of its file.
pub struct LoadedFilter {
    kind: &'static str,
    filter: Box<dyn TextFilter>,
    file: Option<FileDigest>,
}

/// Digest of a word list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDigest {
    /// Key of the list in the settings.
    pub key: &'static str,
    /// BLAKE3 of the file, in hexadecimal digits.
    pub blake3: String,
}

impl std::fmt::Debug for LoadedFilter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("LoadedFilter")
            .field("kind", &self.kind)
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl LoadedFilter {
    /// Returns the TOML name of the filter.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Returns the digest of the word list, if the filter has one.
    #[must_use]
    pub fn file(&self) -> Option<&FileDigest> {
        self.file.as_ref()
    }

    /// Decides about the text of one document.
    #[must_use]
    pub fn apply(&self, text: &str) -> FilterVerdict {
        self.filter.apply(text)
    }
}

impl AnyFilter {
    /// Reads the word list, if there is one, and prepares the filter for use.
    ///
    /// # Errors
    /// If a setting is invalid, or if the file cannot be read or is invalid.
    pub fn load(&self) -> Result<LoadedFilter, Problem> {
        if let Some(problem) = self.problems().into_iter().next() {
            return Err(problem);
        }
        let Some((key, path)) = self.file() else {
            return Ok(LoadedFilter { kind: self.kind(), filter: self.build(None)?, file: None });
        };
        let bytes = word_list::read(key, path)?;
        let filter = self.build(Some(&bytes))?;
        let blake3 = blake3::hash(&bytes).to_hex().to_string();
        Ok(LoadedFilter { kind: self.kind(), filter, file: Some(FileDigest { key, blake3 }) })
    }
}

/// Returns a problem if a share is outside 0 to 1.
fn share_problem(key: &str, share: f64) -> Option<Problem> {
    let is_valid = (0.0..=1.0).contains(&share);
    (!is_valid).then(|| Problem::new(key, format!("{share} is not a share")).hint("give 0.0 to 1.0"))
}

/// Returns a problem if a ratio is negative or no number.
fn ratio_problem(key: &str, ratio: f64) -> Option<Problem> {
    let is_valid = ratio >= 0.0 && ratio.is_finite();
    (!is_valid).then(|| Problem::new(key, format!("{ratio} is not a ratio")).hint("give 0 or more"))
}

/// Returns a problem if a lower bound is above its upper bound.
fn order_problem<T: Copy + PartialOrd + std::fmt::Display>(key: &str, min: T, max: T) -> Option<Problem> {
    let message = || format!("the minimum {min} is above the maximum {max}: every document would be removed");
    (min > max).then(|| Problem::new(key, message()).hint("lower it, or raise the maximum"))
}
