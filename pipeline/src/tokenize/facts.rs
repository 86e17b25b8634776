//! What the rest of the program may know of a tokenizer.

use std::collections::BTreeMap;

use schemas::{SpecialIds, Vocab, manifest};
use serde_json::Value;

use super::fingerprint::fingerprint;

/// All that is known of a tokenizer without running it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The file, as it goes into the prepared folder.
    pub json: Vec<u8>,
    /// The text of each id.
    pub tokens: Vec<String>,
    /// Whether a word begins at this id.
    pub word_starts: Vec<bool>,
    /// The short form for the manifest.
    pub manifest: manifest::TokenizerInfo,
}

impl Facts {
    /// What a parsed tokenizer tells: `json` is the file as it was written, `meant` as the crate understood it.
    pub(super) fn of(model: &tokenizers::Tokenizer, json: &Value, meant: &Value, bytes: &[u8]) -> Result<Self, String> {
        refuse_chance(meant)?;
        let ids: BTreeMap<u32, String> = model.get_vocab(true).into_iter().map(|(token, id)| (id, token)).collect();
        let size = size(model)?;
        // A hole in the numbering is never drawn as a random word, like BERT's own `[unusedN]`.
        let token = |id| ids.get(&id).cloned().unwrap_or_else(|| format!("[unused-id-{id}]"));
        let tokens: Vec<String> = (0..size).map(token).collect();
        let special = special_ids(model)?;
        let added = model.get_added_tokens_decoder();
        let mut specials: Vec<u32> = added.iter().filter(|(_, token)| token.special).map(|(&id, _)| id).collect();
        specials.extend(special.iter());
        specials.sort_unstable();
        specials.dedup();
        if Vocab::ordinary_ids(&tokens, special, &specials).is_empty() {
            return Err("all of its tokens are special or unused; train it, or add tokens that text is made of".into());
        }
        let borders = Borders::of(meant)?;
        let starts = |(id, token): (u32, &String)| specials.binary_search(&id).is_ok() || borders.starts(token);
        let word_starts = (0..).zip(&tokens).map(starts).collect();
        let manifest = manifest::TokenizerInfo {
            fingerprint: fingerprint(json),
            kind: kind(meant),
            vocab_size: size,
            lowercase: lowercases(&meant["normalizer"]),
            special,
            specials,
        };
        Ok(Self { json: bytes.to_vec(), tokens, word_starts, manifest })
    }

    /// The special ids.
    #[must_use]
    pub fn special(&self) -> SpecialIds {
        self.manifest.special
    }

    /// With counts, the vocabulary that views see.
    #[must_use]
    pub fn vocab(&self, counts: Vec<u64>) -> Vocab {
        let specials = &self.manifest.specials;
        Vocab::new(self.tokens.clone(), self.word_starts.clone(), counts, self.special(), specials)
    }
}

/// Ids that no token has, at most, beyond as many as there are tokens.
const HOLES_MAX: u64 = 1000;

/// The number of ids. Each costs memory and, in the crate, time, also one that no token has.
pub(super) fn size(model: &tokenizers::Tokenizer) -> Result<u32, String> {
    let ids = model.get_vocab(true);
    let (tokens, largest) = (ids.len() as u64, ids.into_values().max().unwrap_or(0));
    let size = if tokens == 0 { 0 } else { u64::from(largest) + 1 };
    match u32::try_from(size) {
        Ok(fits) if size <= 2 * tokens + HOLES_MAX => Ok(fits),
        _ => Err(format!("its largest id is {largest}, and it has {tokens} tokens; number them without such holes")),
    }
}

/// The special ids by their two usual spellings; all that are missing are named.
fn special_ids(model: &tokenizers::Tokenizer) -> Result<SpecialIds, String> {
    let find = |names: [&str; 2]| names.iter().find_map(|name| model.token_to_id(name));
    let needed = [["[PAD]", "<pad>"], ["[CLS]", "<s>"], ["[SEP]", "</s>"], ["[MASK]", "<mask>"]];
    let missing: Vec<_> = needed.iter().filter(|names| find(**names).is_none()).map(|names| names[0]).collect();
    let ([Some(pad), Some(cls), Some(sep), Some(mask)], true) = (needed.map(find), missing.is_empty()) else {
        return Err(format!(
            "it has no {}; add what is missing to it as special tokens (or in RoBERTa's spelling: <pad>, <s>, </s>, <mask>)",
            missing.join(", ")
        ));
    };
    let special = SpecialIds { pad, unk: find(["[UNK]", "<unk>"]), cls, sep, mask };
    let mut ids: Vec<u32> = special.iter().collect();
    ids.sort_unstable();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(special),
        Some(shared) => Err(format!(
            "two of [PAD], [CLS], [SEP], [MASK] and [UNK] share the id {}; give each its own id",
            shared[0]
        )),
    }
}

/// Models that split the same text now so, now otherwise: their ids would depend on workers and on luck.
fn refuse_chance(meant: &Value) -> Result<(), String> {
    match meant["model"]["dropout"].as_f64() {
        Some(rate) if rate > 0.0 => {
            Err(format!("its model has `dropout` = {rate}, so that ids are a matter of chance; set it to null"))
        }
        _ => Ok(()),
    }
}

/// How a token says that a word begins with it.
enum Borders {
    /// All do but those that begin like this: WordPiece.
    Continued(String),
    /// Those do that begin with one of these: byte-level and sentence-piece models, which write blanks down.
    Marked(Vec<char>),
    /// Every token is a word.
    Words,
}

impl Borders {
    /// The convention of a model, from what the crate made of the file: published files leave out what it can guess.
    fn of(meant: &Value) -> Result<Self, String> {
        let model = &meant["model"];
        let text = |key: &str| model[key].as_str().filter(|text| !text.is_empty());
        let steps = [&meant["pre_tokenizer"], &meant["normalizer"]];
        let unknown = |what: &str| {
            Err(format!(
                "{what}, so that nothing says where words begin; WordPiece, byte-level BPE, and BPE or Unigram \
                         with `Metaspace` do"
            ))
        };
        let kind = model["type"].as_str().unwrap_or("nameless");
        let prefix = text("continuing_subword_prefix").map(|prefix| Self::Continued(prefix.to_owned()));
        match kind {
            "WordPiece" => prefix.map_or_else(|| unknown("its WordPiece model has no `continuing_subword_prefix`"), Ok),
            "WordLevel" => Ok(Self::Words),
            "BPE" if text("end_of_word_suffix").is_some() => unknown("its BPE model marks where words end"),
            // Byte-level models write space, line feed, tab and carriage return as Ġ Ċ ĉ č.
            "BPE" if steps.into_iter().any(is_byte_level) => Ok(Self::Marked(vec!['Ġ', 'Ċ', 'ĉ', 'č'])),
            _ => {
                let mark = steps.into_iter().find_map(blank).map(|mark| Self::Marked(vec![mark]));
                let nowhere = || unknown(&format!("its {kind} model is fed by neither `ByteLevel` nor `Metaspace`"));
                mark.or(prefix).map_or_else(nowhere, Ok)
            }
        }
    }

    fn starts(&self, token: &str) -> bool {
        match self {
            Self::Continued(prefix) => !token.starts_with(prefix),
            Self::Marked(marks) => token.starts_with(&marks[..]),
            Self::Words => true,
        }
    }
}

/// What a step writes for a blank, or one of the steps that it is made of.
fn blank(step: &Value) -> Option<char> {
    let written = match step["type"].as_str()? {
        "Metaspace" => &step["replacement"],
        "Replace" if step["pattern"]["String"] == " " => &step["content"],
        _ => &Value::Null,
    };
    written.as_str().and_then(|written| written.chars().next()).or_else(|| parts(step).find_map(blank))
}

/// The steps that a step is made of, if it is a sequence.
fn parts(step: &Value) -> impl Iterator<Item = &Value> {
    ["pretokenizers", "normalizers"].into_iter().filter_map(|key| step[key].as_array()).flatten()
}

fn kind(json: &Value) -> String {
    match json["model"]["type"].as_str() {
        Some("BPE") if [&json["pre_tokenizer"], &json["normalizer"]].into_iter().any(is_byte_level) => {
            "byte_bpe".into()
        }
        Some(kind) => kind.to_lowercase(),
        None => "unknown".into(),
    }
}

fn is_byte_level(step: &Value) -> bool {
    step["type"] == "ByteLevel" || parts(step).any(is_byte_level)
}

fn lowercases(normalizer: &Value) -> bool {
    normalizer["lowercase"] == true || normalizer["type"] == "Lowercase" || parts(normalizer).any(lowercases)
}
