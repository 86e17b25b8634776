//! The `[prepare]` section.

use std::path::PathBuf;

use encoding_rs::Encoding;
use serde::{Deserialize, Serialize};

use crate::corpus::{AnyFormat, BytesRead, COPIES, CorpusConfig, Reading, Room, UnfitFiles, encoding_by_name};
use crate::pack::AnyPacking;
use crate::{Error, Result};

/// How a corpus becomes a prepared folder: the `[prepare]` section of a configuration.
///
/// `inputs`, `tokenizer` and `folder` must be given; everything else has a default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PrepareConfig {
    /// Files, folders and globs. Folders are walked; hidden files and other extensions in them are passed over.
    pub inputs: Vec<String>,
    /// How documents lie in the files.
    pub format: AnyFormat,
    /// JSONL and Parquet: the field or column with the text.
    pub text_field: String,
    /// JSONL and Parquet: the field or column with the document's name; default: the BLAKE3 of its text.
    pub id_field: Option<String>,
    /// Text and JSONL: what the bytes are, by a name that pages of the Web have for it (`utf-16le`, `windows-1252`, `gbk`,
    /// `shift_jis`, …); default: UTF-8. A file that begins with a byte-order mark is what that says. Files of another
    /// encoding than UTF-8 are read from end to end by one lane each.
    pub encoding: Option<String>,
    /// Files that cannot be used (binary, of another encoding or format): `refuse` names them all, `skip` leaves them out
    /// and counts them.
    pub unfit_files: UnfitFiles,
    /// `tokenizer.json`, `vocab.txt`, or a folder with one of them or with `vocab.json` and `merges.txt`.
    pub tokenizer: PathBuf,
    /// Whether text is lowercased; required with `vocab.txt`, which cannot tell, and checked against the others.
    pub lowercase: Option<bool>,
    /// The prepared folder.
    pub folder: PathBuf,
    /// Longest row that training can ask for, frame tokens included; 4 to 32,767.
    pub tokens_max: u32,
    /// How documents become samples.
    pub pack: AnyPacking,
    /// Share of documents that go to the validation split, chosen by their hash; 0 to 0.5.
    pub valid_fraction: f64,
    /// Size of a part on disk; default: 1/256 of the corpus, at least 1 MiB, at most 64 MiB, as it was when the folder was
    /// begun.
    pub part_bytes: Option<u64>,
    /// Text of a part after which what was made of it is committed: what a kill costs of a file that cannot be entered.
    pub segment_bytes: u64,
    /// Draws the order of the parts.
    pub seed: u64,
    /// Compression of the shards, 1 to 22.
    pub zstd_level: i32,
    /// Rejected or repaired lines after which the corpus is refused; default: 0.1 % of them, at least 10.
    pub bad_lines_max: Option<u64>,
    /// Threads; default: the number of cores.
    pub lanes: Option<usize>,
    /// Bound of all that text takes in memory on its way, in bytes, at least 32 MiB. A document may have 1/64 of it, a
    /// text that the tokenizer does not take in pieces about 1/2000, a zstd window half.
    pub memory_max: u64,
}

impl Default for PrepareConfig {
    fn default() -> Self {
        Self {
            inputs: Vec::new(),
            format: AnyFormat::default(),
            text_field: "text".into(),
            id_field: None,
            encoding: None,
            unfit_files: UnfitFiles::default(),
            tokenizer: PathBuf::new(),
            lowercase: None,
            folder: PathBuf::new(),
            tokens_max: 512,
            pack: AnyPacking::default(),
            valid_fraction: 0.01,
            part_bytes: None,
            segment_bytes: 256 << 20,
            seed: 0,
            zstd_level: 1,
            bad_lines_max: None,
            lanes: None,
            memory_max: 4 << 30,
        }
    }
}

impl PrepareConfig {
    /// Number of lanes.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.lanes.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get)).max(1)
    }

    /// Longest document in bytes of text.
    #[must_use]
    pub fn document_bytes_max(&self) -> u64 {
        // An eighth is for a very long document and its copies.
        self.memory_max / 8 / COPIES
    }

    /// What the bytes of text are, if it is not UTF-8 or no name that anybody knows.
    #[must_use]
    pub fn encoding(&self) -> Option<&'static Encoding> {
        self.encoding.as_deref().and_then(encoding_by_name).filter(|&found| found != encoding_rs::UTF_8)
    }

    /// The part of the configuration that says what the corpus is.
    #[must_use]
    pub fn corpus(&self) -> CorpusConfig {
        CorpusConfig {
            inputs: self.inputs.clone(),
            format: self.format.clone(),
            reading: Reading {
                text_field: self.text_field.clone(),
                id_field: self.id_field.clone(),
                encoding: self.encoding(),
                document_bytes_max: self.document_bytes_max(),
                room: Room::new(self.memory_max, self.lanes()),
                bytes_read: BytesRead::default(),
            },
            unfit_files: self.unfit_files,
        }
    }

    /// All that is wrong with the values themselves, at once; paths are looked at later.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut require = |holds: bool, problem: &str| {
            if !holds {
                problems.push(problem.to_owned());
            }
        };
        require(!self.inputs.is_empty(), "`prepare.inputs` is empty; name files, folders or globs");
        let named = self.inputs.iter().all(|input| !input.is_empty());
        require(named, "`prepare.inputs` has an empty name; name files, folders or globs");
        require(!self.tokenizer.as_os_str().is_empty(), "`prepare.tokenizer` is missing; name a `tokenizer.json`");
        require(!self.folder.as_os_str().is_empty(), "`prepare.folder` is missing; name the folder to write");
        require((4..=32_767).contains(&self.tokens_max), "`prepare.tokens_max` must lie in 4..=32767");
        let (least, name) = (self.pack.tokens_min(), self.pack.kind());
        let room = format!("`prepare.tokens_max` must be at least {least} with `pack = \"{name}\"`");
        require(self.tokens_max < 4 || self.tokens_max >= least, &room);
        require((0.0..=0.5).contains(&self.valid_fraction), "`prepare.valid_fraction` must lie in 0.0..=0.5");
        require((1..=22).contains(&self.zstd_level), "`prepare.zstd_level` must lie in 1..=22");
        require(self.lanes != Some(0), "`prepare.lanes` must be at least 1");
        require(self.part_bytes != Some(0), "`prepare.part_bytes` must be at least 1");
        require(self.segment_bytes != 0, "`prepare.segment_bytes` must be at least 1");
        require(self.memory_max >= 32 << 20, "`prepare.memory_max` must be at least 33554432, 32 MiB");
        let known = self.encoding.as_deref().is_none_or(|name| encoding_by_name(name).is_some());
        let names = "the names are those of <https://encoding.spec.whatwg.org>: utf-8, utf-16le, windows-1252, gbk, …";
        require(known, &format!("`prepare.encoding` is none that is known; {names}"));
        problems
    }

    /// Refuses values that make no sense, all of them at once.
    pub fn check(&self) -> Result<()> {
        let problems = self.problems();
        if problems.is_empty() { Ok(()) } else { Err(Error::Config(problems.join("\n"))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_is_named_at_once() {
        let config = PrepareConfig {
            tokens_max: 2,
            valid_fraction: 0.9,
            zstd_level: 0,
            lanes: Some(0),
            part_bytes: Some(0),
            segment_bytes: 0,
            memory_max: 5,
            encoding: Some("klingon".into()),
            inputs: vec![String::new()],
            ..PrepareConfig::default()
        };
        assert_eq!(config.problems().len(), 11, "{:#?}", config.problems());
    }

    #[test]
    fn two_segments_need_room() {
        for (tokens_max, refused) in [(4, true), (5, false)] {
            let pack = AnyPacking::of_kind("sentences").expect("known");
            let config = PrepareConfig { tokens_max, pack, ..PrepareConfig::default() };
            assert_eq!(config.problems().iter().any(|problem| problem.contains("at least 5")), refused);
        }
    }

    #[test]
    fn formats_have_plain_names() {
        assert_eq!(AnyFormat::KINDS, ["text", "text_paragraphs", "text_lines", "jsonl", "parquet"]);
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
}
