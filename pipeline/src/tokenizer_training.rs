//! Deterministic training of a tokenizer on the training split of a corpus.
//!
//! # How
//! Workers count raw words (`count`, `word_counts`). Each distinct raw word is split into words as the crate would (`split`).
//! The most frequent pairs of the words are merged (`merge`).
//!
//! # Why not the crate's trainers as they are
//!
//! `WordPieceTrainer` of `tokenizers` 0.23 numbers single characters in the order of a hash map, and these numbers
//! break ties between merges: three runs gave three vocabularies. So the alphabet is counted here, sorted, and passed
//! as leading special tokens, which are numbered in order. All later steps are then deterministic. The characters that
//! `limit_alphabet` keeps are chosen here too, by count and code point.

mod config;
mod count;
mod merge;
mod pairs;
mod split;
mod word_counts;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use store::{Created, Store};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

pub use self::config::{Family, TokenizerConfig};
pub use self::count::ProgressCallback;
use self::count::{Budget, CountedWords, count_words};
use self::merge::{Merged, merge_pairs};
use self::word_counts::WordCounts;
use crate::prepare::PrepareConfig;
use crate::tokenize::describe::{byte_level_json, render, word_piece_json};
use crate::{Error, Result};

/// Summary of a training.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainedTokenizer {
    /// Documents of the training split in the sample.
    pub documents: u64,
    /// Number of distinct words in these documents.
    pub words: u64,
    /// Ids of the tokenizer.
    pub vocab_size: u32,
    /// Rejections and repairs in the corpus with their reasons, and the characters above the limit of the alphabet.
    pub left_out: Vec<String>,
}

/// Trains as [`train_on`] does, on the corpus of `prepare` alone.
pub fn train(
    config: &TokenizerConfig,
    prepare: &PrepareConfig,
    on_progress: ProgressCallback<'_>,
) -> Result<TrainedTokenizer> {
    train_on(config, prepare, std::slice::from_ref(prepare), on_progress)
}

/// Trains on the training split of all `corpora`, whatever their formats, and writes `prepare.tokenizer`, a `tokenizer.json`. If another
/// tokenizer exists there, it is kept and an error is returned, because folders may depend on it. Reports the progress
/// of counting.
pub fn train_on(
    config: &TokenizerConfig,
    prepare: &PrepareConfig,
    corpora: &[PrepareConfig],
    on_progress: ProgressCallback<'_>,
) -> Result<TrainedTokenizer> {
    let refuse = |message: String| Error::Tokenizer { path: prepare.tokenizer.clone(), message };
    let name = prepare.tokenizer.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if prepare.tokenizer.extension().is_none_or(|extension| extension != "json") {
        return Err(refuse("a trained tokenizer is a `.json` file; set `prepare.tokenizer` to one".into()));
    }
    config.check()?;
    // The crate would start its own rayon pool in addition to our workers.
    tokenizers::utils::parallelism::set_parallelism(false);
    let CountedWords { documents, words, mut left_out } = count_words(config, corpora, &config.split()?, on_progress)?;
    let alphabet = Alphabet::new(config, &words);
    left_out.extend(alphabet.omission(config));
    let leading = leading(config, &words, &alphabet.kept);
    if leading.len() >= config.vocab_size as usize {
        let size = config.vocab_size;
        let least = leading.len();
        return Err(refuse(format!(
            "`tokenizer.vocab_size = {size}` is too small: special tokens and alphabet take {least}"
        )));
    }
    let merged = merge_pairs(config, &words, leading, Budget::new(config, prepare))?;
    let json = describe(config, &merged);
    let bytes = render(&json, refuse)?;
    let folder = prepare.tokenizer.parent().filter(|parent| !parent.as_os_str().is_empty());
    let store = Store::folder(folder.unwrap_or(std::path::Path::new(".")))?;
    if matches!(store.put_if_absent(name, &bytes)?, Created::Exists) && store.get(name)? != bytes {
        return Err(refuse(
            "another tokenizer is there already; move it away, or name another file in `prepare.tokenizer`".into(),
        ));
    }
    let vocab_size = u32::try_from(merged.tokens.len()).expect("ids are 32-bit");
    Ok(TrainedTokenizer { documents, words: words.len() as u64, vocab_size, left_out })
}

/// Returns special tokens, then the alphabet in order of code points, then its continued forms: the ids that must not
/// depend on a hash map.
fn leading(config: &TokenizerConfig, words: &WordCounts, alphabet: &BTreeSet<char>) -> Vec<String> {
    let mut leading: Vec<String> = config.kind.specials().map(str::to_owned).to_vec();
    leading.extend(alphabet.iter().map(char::to_string));
    if config.kind == Family::Wordpiece {
        let continued: BTreeSet<char> = words.iter().flat_map(|(word, _)| word.chars().skip(1)).collect();
        leading.extend(alphabet.intersection(&continued).map(|character| format!("##{character}")));
    }
    leading
}

/// Characters with ids of their own.
struct Alphabet {
    kept: BTreeSet<char>,
    /// Number of different characters without an id: words that contain one become unknown.
    omitted: usize,
    /// Occurrences of the omitted characters, and of all.
    omitted_count: u64,
    total_count: u64,
}

impl Alphabet {
    fn new(config: &TokenizerConfig, words: &WordCounts) -> Self {
        match config.kind {
            Family::Wordpiece => Self::most_frequent(words, config.limit_alphabet),
            Family::ByteBpe => {
                let kept = ByteLevel::alphabet().into_iter().collect();
                Self { kept, omitted: 0, omitted_count: 0, total_count: 0 }
            }
        }
    }

    /// Keeps the `limit` most frequent characters; of equally frequent ones, the lower code points.
    fn most_frequent(words: &WordCounts, limit: usize) -> Self {
        let mut characters = BTreeMap::<char, u64>::new();
        for (word, count) in words.iter() {
            for character in word.chars() {
                *characters.entry(character).or_default() += count;
            }
        }
        let mut ranked: Vec<(u64, char)> =
            characters.into_iter().map(|(character, count)| (count, character)).collect();
        ranked.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        let omitted = ranked.split_off(limit.min(ranked.len()));
        let sum = |characters: &[(u64, char)]| characters.iter().map(|(count, _)| count).sum::<u64>();
        let omitted_count = sum(&omitted);
        Self {
            total_count: sum(&ranked) + omitted_count,
            kept: ranked.into_iter().map(|(_, character)| character).collect(),
            omitted: omitted.len(),
            omitted_count,
        }
    }

    /// Returns a sentence about the omitted characters, if any.
    fn omission(&self, config: &TokenizerConfig) -> Option<String> {
        let limit = config.limit_alphabet;
        let omitted = self.omitted;
        let percent = 100.0 * self.omitted_count as f64 / self.total_count.max(1) as f64;
        (omitted > 0).then(|| {
            format!(
                "{omitted} rare characters ({percent:.3} % of the text) are not in the alphabet, so that words with them become \
                 `[UNK]`; `tokenizer.limit_alphabet = {}` keeps all (now {limit})",
                limit + omitted
            )
        })
    }
}

/// Returns the trained model as a `tokenizer.json`; only the named special tokens are added tokens in it.
fn describe(config: &TokenizerConfig, Merged { tokens, merges }: &Merged) -> serde_json::Value {
    let vocab: BTreeMap<String, u64> = tokens.iter().cloned().zip(0..).collect();
    match config.kind {
        Family::Wordpiece => word_piece_json(&vocab, config.lowercase),
        Family::ByteBpe => {
            let merges: Vec<serde_json::Value> = merges.iter().map(|pair| json!(pair)).collect();
            byte_level_json(&vocab, &merges)
        }
    }
}

#[cfg(test)]
mod tests;
