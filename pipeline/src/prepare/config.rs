//! The section `[prepare]`, and the settings in it that decide the bytes of every part.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use encoding_rs::Encoding;
use filters::{AnyFilter, Normalization};
use schemars::JsonSchema;
use schemas::{Problem, manifest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::removal_config::{DecontaminationConfig, DuplicatesConfig};
use super::text_rules::TextRules;
use crate::corpus::{
    AnyFormat, BytesRead, COPIES, CorpusConfig, InvalidFilePolicy, MemoryBudget, ReadOptions, encoding_by_name,
};
use crate::pack::AnyPacking;
use crate::tokenize::TokenizerBackend;
use crate::{Error, Result};

/// Conversion of a corpus to a prepared folder: the `[prepare]` section of a configuration.
///
/// `inputs`, `tokenizer` and `folder` must be given; everything else has a default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PrepareConfig {
    /// Files, folders and globs. Folders are walked; names that begin with `.` or `_` and files with other extensions in
    /// them are skipped. URLs name objects, prefixes and globs of object stores: `s3://BUCKET/PREFIX/`,
    /// `hf://datasets/OWNER/NAME`.
    pub inputs: Vec<String>,
    /// Format of the files. Default: the format that the file extensions of most bytes indicate.
    pub format: AnyFormat,
    /// Formats with fields (JSON, tables): field or column with the text.
    pub text_field: String,
    /// Formats with fields, and WARC: field, column or header with the document id. Default: the BLAKE3 of the text.
    pub id_field: Option<String>,
    /// Text, JSON, CSV and TSV: encoding of the files, by its WHATWG name (`utf-16le`, `windows-1252`, `gbk`, `shift_jis`, …).
    /// Default: UTF-8. A byte-order mark overrides it. Files in another encoding than UTF-8 are read by one worker
    /// each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// Reaction to files that cannot be read: binary files, or files of another encoding or format.
    pub on_invalid_file: InvalidFilePolicy,
    /// Tokenizer: `tokenizer.json`, `vocab.txt`, or a folder with one of them or with `vocab.json` and `merges.txt`.
    pub tokenizer: PathBuf,
    /// Whether text is lowercased. Required with a `vocab.txt` without `do_lower_case` in `tokenizer_config.json`; compared
    /// with other tokenizers.
    pub lowercase: Option<bool>,
    /// Implementation of the tokenizer. The ids are the same. A run compares both on a sample of its corpus, and
    /// stops if they differ.
    pub tokenizer_backend: TokenizerBackend,
    /// Bytes of text above which a document is skipped and counted, whatever its size. Default: no limit; a document
    /// above 1/64 of `max_memory_bytes` is an error.
    pub max_document_bytes: Option<u64>,
    /// Prepared folder; a path, or a URL such as `s3://BUCKET/PREFIX`.
    pub folder: PathBuf,
    /// Longest row that training can request, frame tokens included; 4 to 32,767.
    pub max_seq_len: u32,
    /// Rule that turns documents into samples.
    pub packing: AnyPacking,
    /// Share of documents in the validation split, chosen by their hash; 0 to 0.5.
    pub valid_fraction: f64,
    /// Number of parts, from the first of the part list on, with whose validation rows a streamed run (`data.order`)
    /// is validated. They are fixed before the first step, which waits for these parts.
    pub valid_parts: usize,
    /// Bytes of a part on disk. Default: 1/256 of the corpus, at least 8 MiB, at most 64 MiB; a folder keeps its
    /// first value.
    pub part_bytes: Option<u64>,
    /// Bytes of text after which the output of a part is committed. A kill loses at most this much work on a file
    /// that cannot be split.
    pub segment_bytes: u64,
    /// Seed of the order of the parts.
    pub seed: u64,
    /// Compression level of the shards, 1 to 22.
    pub zstd_level: i32,
    /// Number of rejected or repaired lines after which the corpus is refused. Default: 0.1 % of the lines, at least
    /// 10.
    pub max_bad_lines: Option<u64>,
    /// Number of workers. Default: the number of cores.
    pub workers: Option<usize>,
    /// Maximum memory for text in bytes, at least 32 MiB. A document may use 1/64 of it, a text that the tokenizer
    /// cannot split about 1/2000, a zstd window half. For `cloze tokenizer train` it includes the distinct words.
    pub max_memory_bytes: u64,
    /// Normalization of each document before the filters. Default: none. The id of a document without id field stays the
    /// BLAKE3 of the text as it was read.
    #[serde(skip_serializing_if = "Normalization::is_none")]
    pub normalization: Normalization,
    /// Filters, as `[[prepare.filters]]`, applied in order to each document before the tokenizer. Documents that they
    /// remove are counted by filter and rule, and are no bad lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<AnyFilter>,
    /// Removal of duplicate documents. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<DuplicatesConfig>,
    /// Removal of documents that share runs of words with test sets. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decontamination: Option<DecontaminationConfig>,
    /// Whether `removed/` gets a line for each document that filters, `duplicates` or `decontamination` remove: its place,
    /// its id and the reason.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub write_removed: bool,
}

impl Default for PrepareConfig {
    fn default() -> Self {
        Self {
            inputs: Vec::new(),
            format: AnyFormat::default(),
            text_field: "text".into(),
            id_field: None,
            encoding: None,
            on_invalid_file: InvalidFilePolicy::default(),
            tokenizer: PathBuf::new(),
            lowercase: None,
            tokenizer_backend: TokenizerBackend::default(),
            max_document_bytes: None,
            folder: PathBuf::new(),
            max_seq_len: 512,
            packing: AnyPacking::default(),
            valid_fraction: 0.01,
            valid_parts: 8,
            part_bytes: None,
            segment_bytes: 256 << 20,
            seed: 0,
            zstd_level: 1,
            max_bad_lines: None,
            workers: None,
            max_memory_bytes: 4 << 30,
            normalization: Normalization::default(),
            filters: Vec::new(),
            duplicates: None,
            decontamination: None,
            write_removed: false,
        }
    }
}

impl PrepareConfig {
    /// Number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get)).max(1)
    }

    /// Whether the tokenizer is in the folder that is written.
    pub(super) fn has_tokenizer_in_folder(&self) -> bool {
        self.tokenizer.to_str().is_none_or(|tokenizer| remote_store::is_within(tokenizer, &self.folder))
    }

    /// Maximum document size that fits in memory, in bytes of text.
    #[must_use]
    pub fn document_room(&self) -> u64 {
        // One eighth of the memory is reserved for a very long document and its copies.
        self.max_memory_bytes / 8 / COPIES
    }

    /// Encoding of the text. `None` for UTF-8 and for unknown names.
    #[must_use]
    pub fn encoding(&self) -> Option<&'static Encoding> {
        self.encoding.as_deref().and_then(encoding_by_name).filter(|&found| found != encoding_rs::UTF_8)
    }

    /// Returns the corpus part of the configuration.
    #[must_use]
    pub fn corpus(&self) -> CorpusConfig {
        CorpusConfig {
            inputs: self.inputs.clone(),
            format: self.format.clone(),
            reading: ReadOptions {
                text_field: self.text_field.clone(),
                id_field: self.id_field.clone(),
                encoding: self.encoding(),
                max_document_bytes: self.document_room(),
                skip_above_bytes: self.max_document_bytes,
                memory_budget: MemoryBudget::new(self.max_memory_bytes, self.workers()),
                bytes_read: BytesRead::default(),
            },
            on_invalid_file: self.on_invalid_file,
        }
    }

    /// Returns problems for missing keys. They are required to prepare a corpus, but not to read a prepared one.
    #[must_use]
    pub fn missing(&self) -> Vec<Problem> {
        let keys = [
            ("prepare.inputs", self.inputs.is_empty(), "it names no corpus", "name files, folders or globs"),
            ("prepare.tokenizer", self.tokenizer.as_os_str().is_empty(), "it is missing", "name a `tokenizer.json`"),
            ("prepare.folder", self.folder.as_os_str().is_empty(), "it is missing", "name the folder to write"),
        ];
        let missing = keys.into_iter().filter(|(_, missing, ..)| *missing);
        missing.map(|(key, _, message, hint)| Problem::new(key, message).hint(hint)).collect()
    }

    /// Returns all problems of the given values. Paths are checked later.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut require = |holds: bool, key: &str, message: String, hint: &str| {
            if !holds {
                problems.push(Problem::new(format!("prepare.{key}"), message).hint(hint));
            }
        };
        let named = self.inputs.iter().all(|input| !input.is_empty());
        require(named, "inputs", "it has an empty name".to_owned(), "name files, folders or globs");
        let tokens = self.max_seq_len;
        require(
            (4..=32_767).contains(&tokens),
            "max_seq_len",
            format!("{tokens} tokens are not a valid row length"),
            "give 4 to 32767",
        );
        let least = self.packing.tokens_min();
        let name = self.packing.kind();
        let room = format!("{tokens} tokens are too few for `packing = \"{name}\"`, which needs at least {least}");
        require(tokens < 4 || tokens >= least, "max_seq_len", room, "give more, or use another packing");
        let share = format!("{} is not a valid share", self.valid_fraction);
        require((0.0..=0.5).contains(&self.valid_fraction), "valid_fraction", share, "give 0.0 to 0.5");
        let level = format!("{} is not a zstd level", self.zstd_level);
        require((1..=22).contains(&self.zstd_level), "zstd_level", level, "give 1 to 22");
        let none = || "0 is too few".to_owned();
        require(self.workers != Some(0), "workers", none(), "give 1 or more, or leave it out");
        require(self.part_bytes != Some(0), "part_bytes", none(), "give 1 or more, or leave it out");
        require(self.max_document_bytes != Some(0), "max_document_bytes", none(), "give 1 or more, or leave it out");
        require(self.valid_parts != 0, "valid_parts", none(), "give 1 or more");
        require(self.segment_bytes != 0, "segment_bytes", none(), "give 1 or more");
        let least = format!("{} bytes are less than 32 MiB", self.max_memory_bytes);
        require(self.max_memory_bytes >= 32 << 20, "max_memory_bytes", least, "give at least 33554432");
        if let Some(name) = self.encoding.as_deref().filter(|name| encoding_by_name(name).is_none()) {
            let names = "names are those of <https://encoding.spec.whatwg.org>: utf-8, utf-16le, windows-1252, gbk, …";
            require(false, "encoding", format!("`{name}` is not a known encoding"), names);
        }
        problems.extend(TextRules::problems(&self.filters));
        problems.extend(self.duplicates.iter().flat_map(DuplicatesConfig::problems));
        problems.extend(self.decontamination.iter().flat_map(DecontaminationConfig::problems));
        problems
    }

    /// Rejects invalid values, all of them at once.
    pub fn check(&self) -> Result<()> {
        let problems: Vec<String> = self.missing().iter().chain(&self.problems()).map(ToString::to_string).collect();
        if problems.is_empty() { Ok(()) } else { Err(Error::Config(problems.join("\n"))) }
    }
}

/// Version of the rules that turn text into parts: cleaning, ids, tokens, packing, order of parts. Incremented when the
/// same settings would give different bytes. Folders of another version are refused.
const RULES: u32 = 2;

/// All settings that determine a part's bytes, by name. The part itself is not among them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Settings(BTreeMap<String, Value>);

/// Keys of `[prepare]` that change no byte of any part, each with the reason. Every other key counts as one that does.
const LEFT_OUT: &[(&str, &str)] = &[
    ("inputs", "selects the files, which the parts list"),
    ("on_invalid_file", "selects the files, which the parts list"),
    ("tokenizer_backend", "the ids are the same"),
    ("lowercase", "part of the tokenizer, which is identified by its fingerprint"),
    ("folder", "location of the folder"),
    ("max_bad_lines", "limit for refusing a corpus"),
    ("workers", "number of threads, which does not change the parts"),
    ("valid_parts", "selects parts for validation, without changing them"),
    ("max_memory_bytes", "a document that does not fit ends the run; `max_document_bytes` skips by the text alone"),
];

impl Settings {
    /// Collects the settings of a configuration for parts of that size.
    pub(super) fn new(config: &PrepareConfig, part_bytes: u64, tokenizer: &manifest::TokenizerInfo) -> Self {
        let keys = serde_json::to_value(config).expect("a configuration is plain values");
        let Value::Object(keys) = keys else { unreachable!("a section is a table") };
        let kept = keys.into_iter().filter(|(key, _)| LEFT_OUT.iter().all(|(left_out, _)| left_out != key));
        let mut settings: BTreeMap<String, Value> = kept.collect();
        if !config.format.has_fields() {
            settings.extend(["text_field", "id_field"].map(|key| (key.to_owned(), Value::Null)));
        }
        // Effective values, whatever the configuration contains.
        settings.extend([
            ("version".to_owned(), Value::from(manifest::VERSION)),
            ("rules".to_owned(), RULES.into()),
            ("tokenizer".to_owned(), tokenizer.fingerprint.as_str().into()),
            ("part_bytes".to_owned(), part_bytes.into()),
        ]);
        // UTF-8 is the default and is not recorded, under any of its names.
        match config.encoding() {
            Some(encoding) => settings.insert("encoding".to_owned(), encoding.name().into()),
            None => settings.remove("encoding"),
        };
        Self(settings)
    }

    /// Replaces the paths of word lists by the digests of their contents.
    pub(super) fn with_word_lists(mut self, rules: &TextRules) -> Self {
        for (filter, digest) in rules.word_lists() {
            let filters = self.0.get_mut("filters").expect("a word list belongs to a filter");
            filters[filter][digest.key] = Value::from(digest.blake3.as_str());
        }
        self
    }

    /// Replaces the files of the test sets by the digest of their runs.
    pub(super) fn with_test_sets(mut self, digest: Option<&str>) -> Self {
        match digest {
            Some(digest) => self.0.insert("decontamination".to_owned(), digest.into()),
            None => self.0.remove("decontamination"),
        };
        self
    }

    /// Whether parts are made without duplicates.
    pub(super) fn removes_duplicates(&self) -> bool {
        self.0.contains_key("duplicates")
    }

    /// Share of the documents in the validation split.
    pub(super) fn valid_fraction(&self) -> Option<f64> {
        self.0.get("valid_fraction").and_then(Value::as_f64)
    }

    /// Format of the corpus. `None` for a format that this program does not know.
    pub(super) fn format(&self) -> Option<AnyFormat> {
        self.0.get("format").and_then(Value::as_str).and_then(AnyFormat::of_kind)
    }

    /// Size of parts, in bytes.
    pub(super) fn part_bytes(&self) -> Option<u64> {
        self.0.get("part_bytes").and_then(Value::as_u64)
    }

    /// Returns the BLAKE3 of the settings, which commit records contain.
    pub(super) fn digest(&self) -> String {
        let json = serde_json::to_vec(self).expect("names and plain values");
        blake3::hash(&json).to_hex().to_string()
    }

    /// Returns `max_seq_len = 128, now 512` for each setting that differs.
    pub(super) fn differences(&self, now: &Self) -> Vec<String> {
        let absent = Value::Null;
        let names: BTreeSet<&String> = self.0.keys().chain(now.0.keys()).collect();
        let value = |of: &'_ Self, name: &str| of.0.get(name).unwrap_or(&absent).clone();
        let changed = names.into_iter().map(|name| (name, value(self, name), value(now, name)));
        let shown = changed.filter(|(_, was, now)| was != now);
        let text = |value: Value| if value.is_null() { "not set".to_owned() } else { value.to_string() };
        shown.map(|(name, was, now)| format!("`{name}` = {}, now {}", text(was), text(now))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_mistake_is_named_at_once() {
        let config = PrepareConfig {
            max_seq_len: 2,
            valid_fraction: 0.9,
            zstd_level: 0,
            workers: Some(0),
            part_bytes: Some(0),
            valid_parts: 0,
            segment_bytes: 0,
            max_memory_bytes: 5,
            encoding: Some("klingon".into()),
            inputs: vec![String::new()],
            ..PrepareConfig::default()
        };
        let found = [config.missing(), config.problems()].concat();
        let keys: BTreeSet<&str> = found.iter().map(|problem| problem.key.as_str()).collect();
        let expected = [
            "inputs",
            "tokenizer",
            "folder",
            "max_seq_len",
            "valid_fraction",
            "zstd_level",
            "workers",
            "part_bytes",
            "valid_parts",
            "segment_bytes",
            "max_memory_bytes",
            "encoding",
        ];
        assert_eq!(keys, expected.map(|key| format!("prepare.{key}")).iter().map(String::as_str).collect());
        let said = config.check().expect_err("nothing of it holds").to_string();
        assert_eq!((found.len(), said.lines().count()), (12, 12), "{said}");
    }

    #[test]
    fn too_short_rows_for_two_segments_are_refused() {
        for (max_seq_len, refused) in [(4, true), (5, false)] {
            let pack = AnyPacking::of_kind("sentences").expect("known");
            let config = PrepareConfig { max_seq_len, packing: pack, ..PrepareConfig::default() };
            assert_eq!(config.problems().iter().any(|problem| problem.message.contains("at least 5")), refused);
        }
    }

    #[test]
    fn formats_have_plain_names() {
        assert_eq!(
            AnyFormat::KINDS,
            [
                "text",
                "text_paragraphs",
                "text_lines",
                "jsonl",
                "parquet",
                "arrow",
                "csv",
                "tsv",
                "warc",
                "wikipedia_xml",
            ]
        );
        for format in AnyFormat::examples() {
            let config: PrepareConfig =
                toml::from_str(&format!("format = \"{}\"", format.kind())).expect("a known format");
            assert_eq!(config.format, format);
            assert!(toml::to_string(&config).expect("TOML").contains(&format!("format = \"{}\"", format.kind())));
        }
        let error = toml::from_str::<PrepareConfig>("format = \"text_line\"").expect_err("unknown").to_string();
        assert!(error.contains("unknown variant `text_line`") && error.contains("`text_lines`"), "{error}");
        assert!(toml::from_str::<PrepareConfig>("typo = 1").is_err(), "unknown keys are refused");
    }

    fn settings(config: &PrepareConfig) -> Settings {
        let special = schemas::SpecialIds { pad: 0, unk: Some(1), cls: 2, sep: 3, mask: 4 };
        let tokenizer = manifest::TokenizerInfo {
            fingerprint: "f".into(),
            kind: "wordpiece".into(),
            vocab_size: 5,
            lowercase: true,
            special,
            specials: Vec::new(),
        };
        Settings::new(config, 7, &tokenizer)
    }

    #[test]
    fn every_key_decides_bytes_but_those_that_are_left_out_by_name() {
        let Ok(Value::Object(keys)) = serde_json::to_value(PrepareConfig::default()) else { panic!("a table") };
        let left_out: BTreeSet<&str> = LEFT_OUT.iter().map(|(key, _)| *key).collect();
        assert!(left_out.iter().all(|key| keys.contains_key(*key)), "{left_out:?}");
        let expected: BTreeSet<String> = keys
            .keys()
            .filter(|key| !left_out.contains(key.as_str()))
            .cloned()
            .chain(["version", "rules"].map(String::from))
            .collect();
        assert_eq!(settings(&PrepareConfig::default()).0.into_keys().collect::<BTreeSet<_>>(), expected);
    }

    /// Folders of before these keys existed stay valid.
    #[test]
    fn settings_without_filters_have_the_digest_of_before() {
        let settings = settings(&PrepareConfig::default());
        assert!(!settings.0.contains_key("filters") && !settings.0.contains_key("normalization"));
        assert_eq!(settings.digest(), "366d552789d1b48536630cae61c01d60c15d77708f2afba726e95eb4cc596cae");
    }

    /// Parts are not reused if a later program version has a key that this one does not know.
    #[test]
    fn a_key_that_only_one_of_two_has_is_a_difference() {
        let ours = settings(&PrepareConfig::default());
        let mut theirs = ours.clone();
        theirs.0.insert("dialect".into(), "latin1".into());
        assert_eq!(theirs.differences(&ours), ["`dialect` = \"latin1\", now not set"]);
        assert_eq!(ours.differences(&theirs), ["`dialect` = not set, now \"latin1\""]);
        assert!(ours.differences(&ours).is_empty());
    }

    #[test]
    fn an_encoding_is_the_same_by_each_of_its_names() {
        let of = |name: &str| settings(&PrepareConfig { encoding: Some(name.into()), ..PrepareConfig::default() });
        assert_eq!(of("latin1"), of("Windows-1252"));
        assert_eq!(of("utf8"), settings(&PrepareConfig::default()), "as if nothing was said");
        assert_eq!(of("gbk").differences(&of("big5")), ["`encoding` = \"GBK\", now \"Big5\""]);
    }
}
