//! Loaded tools that turn text into tokens: tokenizer, normalization and filters, test sets.

use schemas::manifest::ContaminationCounts;

use super::config::{PrepareConfig, Settings};
use super::test_sets::TestSets;
use super::text_rules::TextRules;
use crate::Result;
use crate::tokenize::{self, Tokenizer};

/// Tools of a configuration, read from their files.
pub(super) struct TextTools {
    pub(super) tokenizer: Box<dyn Tokenizer>,
    /// Normalization and filters.
    pub(super) rules: TextRules,
    /// Runs of words that no document may have.
    pub(super) test_sets: Option<TestSets>,
}

impl TextTools {
    /// Loads the tools of a configuration.
    pub(super) fn load(config: &PrepareConfig) -> Result<Self> {
        let tokenizer = tokenize::load(&config.tokenizer, config.lowercase)?.with_backend(config.tokenizer_backend);
        let rules = TextRules::load(&config.normalization, &config.filters)?;
        Ok(Self { tokenizer: Box::new(tokenizer), rules, test_sets: TestSets::read(config)? })
    }

    /// Returns the counts of a text that shares no run with a test set.
    pub(super) fn without_shared_runs(&self) -> ContaminationCounts {
        self.test_sets.as_ref().map(TestSets::counts).unwrap_or_default()
    }

    /// Returns the settings of parts of that size, with the digests of the files.
    pub(super) fn settings(&self, config: &PrepareConfig, part_bytes: u64) -> Settings {
        let digest = self.test_sets.as_ref().map(|sets| sets.index.digest());
        let settings = Settings::new(config, part_bytes, &self.tokenizer.facts().manifest);
        settings.with_word_lists(&self.rules).with_test_sets(digest.as_deref())
    }
}
