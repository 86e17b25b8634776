//! Byte-level BPE of GPT-2 and RoBERTa.
//!
//! # Idea
//! A text is split at its added tokens (`added.rs`), then into pre-tokens (`starts.rs`), by masks of 64 bytes at a
//! time. The ids of a pre-token are a function of its bytes, so they are cached by them. Only new pre-tokens are merged
//! (`merges.rs`).
//!
//! # Invariants
//! The fast tokenizer is used only for tokenizers of this configuration:
//! - there is no normalizer, and the pre-tokenizer is `ByteLevel` alone, with its regular expression;
//! - the model is BPE over ids below 2^16, one for every byte and none for two tokens, that merges any input by rank:
//!   no prefix, no suffix, no dropout, no words that are looked up whole;
//! - added tokens satisfy the conditions of `added.rs`.
//!
//! With `add_prefix_space`, a piece of text that does not begin with a space is split as if it did.
//!
//! A text may be cut before white space that follows another character. A pre-token begins there. The text before does
//! not look past it (only white space looks ahead further than a letter). An added token that strips on its left stops
//! there on either side, and none reaches across. With `add_prefix_space`, that white space has to be a space. A text
//! may also be cut before a space that precedes an ASCII letter, after any character. The space begins a match, white
//! space before it ends one character early both there and at the end of a text, and no added token begins with a
//! letter.

mod added;
mod classes;
pub(super) mod merges;
pub(super) mod starts;
mod word_cache;
pub(super) mod words;

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use self::added::{AddedTokens, Segment};
use self::classes::Class;
pub(crate) use self::classes::Classes;
use self::merges::{Merge, Merges};
pub(crate) use self::starts::first_pre_token;
use self::starts::{Borders, run};
use self::word_cache::WordCache;
use self::words::{Ids, WordEncoder};
use super::fast_tokenizer::{Fallback, FastTokenizer, Worker};
use super::kernels::{Kernels, WINDOW};
use super::post_processor::decline_more;
use crate::Result;

/// Byte-level BPE tokenizer.
#[derive(Clone, Debug)]
pub(super) struct BytePairs {
    tables: Arc<Tables>,
    kernels: Kernels,
    /// Cache slots for words, and for long words.
    slots: (usize, usize),
    /// Initial cache of every worker.
    expected: Arc<OnceLock<WordCache>>,
}

#[derive(Debug)]
struct Tables {
    merges: Merges,
    added: AddedTokens,
    adds_prefix_space: bool,
    /// Tokens of the vocabulary that are pre-tokens, by id.
    expected: Vec<Vec<u8>>,
}

impl BytePairs {
    /// Returns the fast tokenizer for a tokenizer with the serialization `meant`, or the reason why there is none.
    pub(super) fn new(model: &tokenizers::Tokenizer, meant: &Value) -> Result<Self, String> {
        let pre_tokenizer = &meant["pre_tokenizer"];
        let settings = &meant["model"];
        let empty = |value: &Value| value.is_null() || value == "";
        let shape = [
            ("a normalizer", meant["normalizer"].is_null()),
            ("another pre-tokenizer than `ByteLevel`", pre_tokenizer["type"] == "ByteLevel"),
            ("`ByteLevel` without its regular expression", pre_tokenizer["use_regex"] == true),
            ("dropout", settings["dropout"].is_null() || settings["dropout"] == 0.0),
            ("a prefix", empty(&settings["continuing_subword_prefix"])),
            ("a suffix", empty(&settings["end_of_word_suffix"])),
            ("`ignore_merges`", settings["ignore_merges"] == false),
        ];
        if let Some((what, _)) = shape.iter().find(|(_, is_so)| !is_so) {
            return Err(format!("nothing is proved of byte pairs with {what}"));
        }
        decline_more(&meant["post_processor"])?;
        let vocabulary = Vocabulary::of(model)?;
        let tables = Tables {
            merges: vocabulary.merges(&settings["merges"])?,
            added: AddedTokens::parse(&meant["added_tokens"])?,
            adds_prefix_space: pre_tokenizer["add_prefix_space"] != false,
            expected: vocabulary.pre_tokens(),
        };
        let kernels = Kernels::best();
        Ok(Self { tables: Arc::new(tables), kernels, slots: word_cache::SLOTS, expected: Arc::default() })
    }

    /// Returns the initial cache: the words of the vocabulary.
    fn expected(&self) -> &WordCache {
        self.expected.get_or_init(|| {
            let mut words = WordEncoder::new(WordCache::new(self.slots.0, self.slots.1));
            self.tables.expected.iter().for_each(|word| words.expect(&self.tables.merges, word));
            words.into_known()
        })
    }

    /// Returns true if `text` may be cut at `at`.
    fn is_cut(&self, text: &str, at: usize) -> bool {
        // As in the crate: of a run of white space before a word, the last space belongs to the word.
        if at > 0 && matches!(text.as_bytes()[at..], [b' ', b'a'..=b'z' | b'A'..=b'Z', ..]) {
            return true;
        }
        let is_white = match text.as_bytes()[at] {
            b' ' => true,
            b'\n' | b'\r' | b'\t' => !self.tables.adds_prefix_space,
            _ => false,
        };
        let class = |character: char| Classes::of_the_crate().of_code_point(character.into());
        is_white && text[..at].chars().next_back().is_some_and(|before| class(before) != Class::White)
    }
}

/// Tokens of a model.
#[expect(
    clippy::disallowed_types,
    reason = "the crate's own map, looked up for every merge; the order of its tokens is made ours"
)]
struct Vocabulary {
    ids: std::collections::HashMap<String, u32>,
    /// Bytes of the tokens, by id.
    spellings: Vec<Vec<u8>>,
}

impl Vocabulary {
    /// Reads the tokens from the crate, which alone shows whether two tokens share an id.
    fn of(model: &tokenizers::Tokenizer) -> Result<Self, String> {
        let mut byte_of = [None; 512];
        (0..=u8::MAX).for_each(|byte| byte_of[symbol(byte) as usize] = Some(byte));
        let ids = model.get_vocab(false);
        let mut tokens: Vec<(u32, &String)> = ids.iter().map(|(token, &id)| (id, token)).collect();
        tokens.sort_unstable();
        if let Some(pair) = tokens.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(format!("two tokens share the id {}", pair[0].0));
        }
        let mut spellings = Vec::new();
        for (id, token) in tokens {
            if id > u16::MAX.into() {
                return Err(format!("the token `{token}` has the id {id}, beyond 65535"));
            }
            // Added tokens may contain other characters; no merge produces such a token.
            let bytes = token.chars().map(|character| *byte_of.get(character as usize)?);
            spellings.resize(id as usize, Vec::new());
            spellings.push(bytes.collect::<Option<Vec<u8>>>().unwrap_or_default());
        }
        Ok(Self { ids, spellings })
    }

    fn merges(&self, listed: &Value) -> Result<Merges, String> {
        let id = |token: &str| self.ids.get(token).and_then(|&id| u16::try_from(id).ok());
        let mut bytes = [0; 256];
        for byte in 0..=u8::MAX {
            let found = id(symbol(byte).encode_utf8(&mut [0; 2]));
            bytes[usize::from(byte)] = found.ok_or_else(|| format!("the byte {byte} has no token"))?;
        }
        let mut both = String::new();
        let mut merge = |pair: &Value| {
            let left = pair[0].as_str()?;
            let right = pair[1].as_str()?;
            both.clear();
            both.extend([left, right]);
            Some(Merge { left: id(left)?, right: id(right)?, made: id(&both)? })
        };
        let list: Option<Vec<Merge>> =
            listed.as_array().map_or(&[][..], Vec::as_slice).iter().map(&mut merge).collect();
        let list = list.ok_or("one of its merges is of tokens that it does not have")?;
        Merges::new(&bytes, &list, &self.spellings).ok_or_else(|| "it has more merges than ranks of 16 bits".into())
    }

    /// Returns the tokens that are pre-tokens, by id: the frequent ones usually have low ids.
    fn pre_tokens(self) -> Vec<Vec<u8>> {
        let classes = Classes::of_the_crate();
        let is_one = |word: &Vec<u8>| {
            !word.is_empty() && std::str::from_utf8(word).is_ok() && first_pre_token(classes, word) == word.len()
        };
        self.spellings.into_iter().filter(is_one).collect()
    }
}

/// Returns the character that represents a byte in a vocabulary: itself if printable, else one above 255.
fn symbol(byte: u8) -> char {
    let is_seen = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let unseen_before = (0..byte).filter(|&byte| !is_seen(byte)).count();
    let code = if is_seen(byte) { byte.into() } else { 256 + u32::try_from(unseen_before).expect("a byte") };
    char::from_u32(code).expect("below the surrogates")
}

impl FastTokenizer for BytePairs {
    fn name(&self) -> String {
        format!("byte pairs by {}", self.kernels.name())
    }

    fn cut_before(&self, text: &str, near: usize) -> usize {
        (1..=near.min(text.len() - 1)).rev().find(|&at| self.is_cut(text, at)).unwrap_or(0)
    }

    fn cut_behind(&self, text: &str, near: usize) -> usize {
        (near.max(1)..text.len()).find(|&at| self.is_cut(text, at)).unwrap_or(text.len())
    }

    fn worker(&self) -> Box<dyn Worker> {
        Box::new(BytePairsWorker {
            tables: Arc::clone(&self.tables),
            kernels: self.kernels,
            window: Borders::default(),
            words: WordEncoder::new(self.expected().clone()),
            word: Vec::new(),
            ids: Box::new([0; WINDOW + 16]),
        })
    }
}

/// Encoder of one thread.
struct BytePairsWorker {
    tables: Arc<Tables>,
    kernels: Kernels,
    window: Borders,
    words: WordEncoder,
    /// Buffer for a word with its prefix space.
    word: Vec<u8>,
    /// Ids of a window.
    ids: Box<Ids>,
}

impl Worker for BytePairsWorker {
    fn append(&mut self, text: &str, ids: &mut Vec<u32>, _: Fallback<'_>) -> Result<()> {
        let tables = Arc::clone(&self.tables);
        tables.added.segments(text, &mut |segment| match segment {
            Segment::Text(text) => self.append_text(&tables, text.as_bytes(), ids),
            Segment::Token(id) => ids.push(id),
        });
        Ok(())
    }
}

impl BytePairsWorker {
    /// Appends the ids of a text without added tokens.
    fn append_text(&mut self, tables: &Tables, mut text: &[u8], ids: &mut Vec<u32>) {
        if tables.adds_prefix_space && text[0] != b' ' {
            text = self.append_prefixed(tables, text, ids);
        }
        while !text.is_empty() {
            let borders = self.window.split(self.kernels, text);
            let end = if let [_, .., end] = borders {
                let count = self.kernels.look_up(&mut self.words, &tables.merges, text, borders, &mut self.ids);
                ids.extend_from_slice(&self.ids[..count]);
                usize::from(*end)
            } else {
                let end = first_pre_token(Classes::of_the_crate(), text);
                self.words.append(&tables.merges, &text[..end], ids);
                end
            };
            text = &text[end..];
        }
    }

    /// Appends the ids of the first pre-token of `text` with a prefix space. Returns the rest.
    fn append_prefixed<'a>(&mut self, tables: &Tables, text: &'a [u8], ids: &mut Vec<u32>) -> &'a [u8] {
        let classes = Classes::of_the_crate();
        let class = classes.first(text).0;
        let (length, last) = run(classes, class, text);
        // The last white space character before another character is not part of the match.
        let length = if class == Class::White && length < text.len() { last } else { length };
        let (word, rest) = text.split_at(length);
        self.word.clear();
        self.word.push(b' ');
        self.word.extend_from_slice(word);
        self.words.append(&tables.merges, &self.word, ids);
        rest
    }
}

#[cfg(test)]
mod tests;
