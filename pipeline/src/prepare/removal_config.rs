//! The sections `[prepare.duplicates]` and `[prepare.decontamination]`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use duplicates::{NearOptions, RunIndexBuilder};
use schemars::JsonSchema;
use schemas::Problem;
use serde::{Deserialize, Serialize};

use crate::corpus::AnyFormat;

/// Removal of duplicate documents: the `[prepare.duplicates]` section. Without it, duplicates stay.
///
/// Documents are compared by their words, in lower case and without punctuation. Of a cluster of duplicates, the first
/// document stays, in the order of dataset version, file name and position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DuplicatesConfig {
    /// Remove documents with the same words in the same order.
    pub exact: bool,
    /// Remove documents that share most of their shingles with another one, found by `MinHash` with bands.
    pub near: bool,
    /// Words of a shingle, 1 to 64. Shorter documents have no near duplicates.
    pub shingle_words: u32,
    /// Bands, 1 to 256. Documents with the Jaccard similarity `s` of their shingles are near duplicates with the
    /// probability `1 - (1 - s^rows)^bands`: with the defaults 0.56 at 0.7, 0.92 at 0.8 and 0.9996 at 0.9.
    pub bands: u32,
    /// Hash functions of a band, 1 to 64.
    pub rows: u32,
    /// Seed of the hash functions.
    pub seed: u64,
}

impl Default for DuplicatesConfig {
    fn default() -> Self {
        Self { exact: true, near: true, shingle_words: 5, bands: 14, rows: 8, seed: 1 }
    }
}

impl DuplicatesConfig {
    /// Returns the parameters of near duplicates, if they are removed.
    pub(crate) fn near_options(&self) -> Option<NearOptions> {
        let Self { shingle_words, bands, rows, seed, .. } = *self;
        let options =
            NearOptions { shingle_words: shingle_words as usize, bands: bands as usize, rows: rows as usize, seed };
        self.near.then_some(options)
    }

    /// Returns all problems of the values.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let limits = [("shingle_words", self.shingle_words, 64), ("bands", self.bands, 256), ("rows", self.rows, 64)];
        let wrong = limits.into_iter().filter(|(_, value, most)| !(1..=*most).contains(value));
        let mut problems: Vec<Problem> = wrong
            .map(|(key, value, most)| {
                problem(&format!("duplicates.{key}"), format!("{value} is out of range"), &format!("give 1 to {most}"))
            })
            .collect();
        if !self.exact && !self.near {
            let hint = "set `exact` or `near` to true, or leave out the section";
            problems.push(problem("duplicates", "it removes neither exact nor near duplicates".to_owned(), hint));
        }
        problems
    }
}

/// Removal of documents that share a run of words with a test set: the `[prepare.decontamination]` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DecontaminationConfig {
    /// Words of a run, 1 to 256. A document that shares one run with a test set is removed. Words are letters and
    /// digits in lower case, without punctuation.
    pub run_words: u32,
    /// Test sets, at most 64.
    pub test_sets: Vec<TestSetConfig>,
}

impl Default for DecontaminationConfig {
    fn default() -> Self {
        Self { run_words: 13, test_sets: Vec::new() }
    }
}

/// Test set: a fine-tuning task with its folder, or files of a corpus format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TestSetConfig {
    /// Name in reports. Default: the task, or the first file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Fine-tuning task, such as `sst2` or `squad`. All texts of its examples are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Folder with the files of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    /// Splits of the task that are read. A split without a file is skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub splits: Option<Vec<TestSplit>>,
    /// Files, folders and globs, instead of a task.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Format of the files, as `prepare.format`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<AnyFormat>,
    /// JSONL and Parquet: fields with text. Default: `text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_fields: Option<Vec<String>>,
}

/// Split of a fine-tuning task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TestSplit {
    /// Training examples.
    Train,
    /// Dev examples.
    Dev,
    /// Test examples.
    Test,
}

impl TestSetConfig {
    /// Returns the name in reports.
    pub(super) fn name(&self) -> &str {
        let given = self.name.as_ref().or(self.task.as_ref()).or(self.files.first());
        given.map_or("", String::as_str)
    }
}

impl DecontaminationConfig {
    /// Returns all problems of the values. Files are checked later.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut require = |holds: bool, key: &str, message: String, hint: &str| {
            if !holds {
                problems.push(problem(&format!("decontamination.{key}"), message, hint));
            }
        };
        let words = format!("{} is out of range", self.run_words);
        require((1..=256).contains(&self.run_words), "run_words", words, "give 1 to 256");
        let none = "it names no test set".to_owned();
        require(!self.test_sets.is_empty(), "test_sets", none, "add a test set, or leave out the section");
        let most = RunIndexBuilder::MAX_SETS;
        let many = format!("{} test sets are too many", self.test_sets.len());
        require(
            self.test_sets.len() <= most,
            "test_sets",
            many,
            "give at most 64; one test set may have several files",
        );
        let mut names = BTreeSet::new();
        for (index, set) in self.test_sets.iter().enumerate() {
            let key = |key: &str| format!("test_sets[{index}]{key}");
            let known = set.task.as_deref().map(tasks::AnyTask::of_kind);
            let is_one = known.is_some() == set.files.is_empty();
            let either = "it needs either `task` and `data`, or `files`".to_owned();
            require(is_one, &key(""), either, "for example `task = \"sst2\", data = \"glue/SST-2\"`");
            let unknown =
                format!("`{}` is not a task without keys", set.task.as_deref().unwrap_or_default().escape_debug());
            let has_files =
                known.as_ref().is_none_or(|task| task.as_ref().is_some_and(|task| !task.kind().starts_with("custom_")));
            let tasks: Vec<&str> =
                tasks::AnyTask::KINDS.iter().copied().filter(|kind| !kind.starts_with("custom_")).collect();
            let hint = format!("name one of {}, or give `files`", tasks.join(", "));
            require(has_files, &key(".task"), unknown, &hint);
            require(
                set.task.is_none() || set.data.is_some(),
                &key(".data"),
                "it is missing".to_owned(),
                "name the folder of the task",
            );
            let twice = format!("`{}` is the name of two test sets", set.name().escape_debug());
            require(names.insert(set.name()), &key(".name"), twice, "give each a `name`");
        }
        problems
    }
}

fn problem(key: &str, message: String, hint: &str) -> Problem {
    Problem::new(format!("prepare.{key}"), message).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_of_the_sections_is_named() {
        let duplicates: DuplicatesConfig =
            toml::from_str("exact = false\nnear = false\nshingle_words = 0\nbands = 257\nrows = 65").expect("TOML");
        let keys: Vec<String> = duplicates.problems().into_iter().map(|problem| problem.key).collect();
        assert_eq!(
            keys,
            ["shingle_words", "bands", "rows"]
                .map(|key| format!("prepare.duplicates.{key}"))
                .into_iter()
                .chain(["prepare.duplicates".to_owned()])
                .collect::<Vec<_>>()
        );
        assert_eq!(DuplicatesConfig::default().problems(), []);
        let decontamination: DecontaminationConfig = toml::from_str(
            "run_words = 0\ntest_sets = [{}, { task = 'sst9', data = 'x' }, { task = 'rte' }, { task = 'rte', data = 'x', files = ['y'] }]",
        )
        .expect("TOML");
        let keys: Vec<String> = decontamination.problems().into_iter().map(|problem| problem.key).collect();
        let expected = [
            "run_words",
            "test_sets[0]",
            "test_sets[1].task",
            "test_sets[2].data",
            "test_sets[3]",
            "test_sets[3].name",
        ];
        assert_eq!(keys, expected.map(|key| format!("prepare.decontamination.{key}")));
        assert_eq!(DecontaminationConfig::default().problems().len(), 1, "no test set");
        let valid = "test_sets = [{ task = 'rte', data = 'x' }, { name = 'own', files = ['y'], format = 'jsonl', text_fields = ['a', 'b'] }]";
        assert_eq!(toml::from_str::<DecontaminationConfig>(valid).expect("TOML").problems(), []);
    }
}
