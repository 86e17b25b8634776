//! Trains a tokenizer on the training split of a corpus: the same bytes every time.
//!
//! # How
//! Workers count raw words (`count`, `tally`); each different one is split into words as the crate would (`split`); the most
//! frequent pairs of the words are merged (`merge`).
//!
//! # Why not the crate's trainers as they are
//!
//! `WordPieceTrainer` of `tokenizers` 0.23 numbers single characters in the order of a hash map, and these numbers
//! break ties between merges: three runs, three vocabularies. So the alphabet is counted here, sorted, and handed over
//! as leading special tokens, which are numbered in order; everything after it is then decided. The same goes for the
//! characters that `limit_alphabet` keeps, which are chosen here by count and code point.

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
use self::count::{Budget, Counted, count_words};
use self::merge::{Merged, merge_pairs};
use self::word_counts::WordCounts;
use crate::prepare::PrepareConfig;
use crate::tokenize::describe::{byte_level_json, render, word_piece_json};
use crate::{Error, Result};

/// What was trained on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trained {
    /// Documents of the training split that are in the sample.
    pub documents: u64,
    /// Different words in them.
    pub words: u64,
    /// Ids of the tokenizer.
    pub vocab_size: u32,
    /// What was left out of the corpus, and why.
    pub left_out: Vec<String>,
}

/// Trains on the training split of `prepare.inputs` and writes `prepare.tokenizer`, a `tokenizer.json`. One that is there
/// and is another stays as it is, and is an error: folders may be made with it. Tells how far the counting of words is.
pub fn train(config: &TokenizerConfig, prepare: &PrepareConfig, hears: ProgressCallback<'_>) -> Result<Trained> {
    let refuse = |message: String| Error::Tokenizer { path: prepare.tokenizer.clone(), message };
    let name = prepare.tokenizer.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if prepare.tokenizer.extension().is_none_or(|extension| extension != "json") {
        return Err(refuse("a trained tokenizer is a `.json` file; set `prepare.tokenizer` to one".into()));
    }
    config.check()?;
    // The crate would start a rayon pool of its own; our workers are the threads.
    tokenizers::utils::parallelism::set_parallelism(false);
    let Counted { documents, words, left_out } = count_words(config, prepare, config.split()?, hears)?;
    let leading = leading(config, &words);
    if leading.len() >= config.vocab_size as usize {
        let (size, least) = (config.vocab_size, leading.len());
        return Err(refuse(format!(
            "`tokenizer.vocab_size = {size}` is too small: special tokens and alphabet take {least}"
        )));
    }
    let merged = merge_pairs(config, &words, leading, Budget::of(config, prepare))?;
    let json = describe(config, &merged);
    let bytes = render(&json, refuse)?;
    let folder = prepare.tokenizer.parent().filter(|parent| !parent.as_os_str().is_empty());
    let store = Store::folder(folder.unwrap_or(std::path::Path::new(".")))?;
    if matches!(store.create(name, &bytes)?, Created::Exists) && store.read(name)? != bytes {
        return Err(refuse(
            "another tokenizer is there already; move it away, or name another file in `prepare.tokenizer`".into(),
        ));
    }
    let vocab_size = u32::try_from(merged.tokens.len()).expect("ids are 32-bit");
    Ok(Trained { documents, words: words.len() as u64, vocab_size, left_out })
}

/// Special tokens, then the alphabet in order of code points, then its continued forms: the ids that must not depend
/// on a hash map.
fn leading(config: &TokenizerConfig, words: &WordCounts) -> Vec<String> {
    let alphabet = match config.kind {
        Family::Wordpiece => alphabet(words, config.limit_alphabet),
        Family::ByteBpe => ByteLevel::alphabet().into_iter().collect(),
    };
    let mut leading: Vec<String> = config.kind.specials().map(str::to_owned).to_vec();
    leading.extend(alphabet.iter().map(char::to_string));
    if config.kind == Family::Wordpiece {
        let continued: BTreeSet<char> = words.iter().flat_map(|(word, _)| word.chars().skip(1)).collect();
        leading.extend(alphabet.intersection(&continued).map(|character| format!("##{character}")));
    }
    leading
}

/// The `limit` most frequent characters; of equally frequent ones, the lower code points.
fn alphabet(words: &WordCounts, limit: usize) -> BTreeSet<char> {
    let mut characters = BTreeMap::<char, u64>::new();
    for (word, count) in words.iter() {
        for character in word.chars() {
            *characters.entry(character).or_default() += count;
        }
    }
    let mut ranked: Vec<(u64, char)> = characters.into_iter().map(|(character, count)| (count, character)).collect();
    ranked.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    ranked.into_iter().take(limit).map(|(_, character)| character).collect()
}

/// The trained model as a `tokenizer.json`; only the named specials are added tokens in it.
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
