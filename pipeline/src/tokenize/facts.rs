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
    pub manifest: manifest::Tokenizer,
}

impl Facts {
    /// What a parsed tokenizer and its file tell.
    pub(super) fn of(model: &tokenizers::Tokenizer, json: &Value, bytes: &[u8]) -> Result<Self, String> {
        let ids: BTreeMap<u32, String> = model.get_vocab(true).into_iter().map(|(token, id)| (id, token)).collect();
        let size = ids.last_key_value().map_or(0, |(&id, _)| id + 1);
        // A hole in the numbering is never drawn as a random word, like BERT's own `[unusedN]`.
        let token = |id| ids.get(&id).cloned().unwrap_or_else(|| format!("[unused-id-{id}]"));
        let tokens: Vec<String> = (0..size).map(token).collect();
        let special = special_ids(model)?;
        let added = model.get_added_tokens_decoder();
        let mut specials: Vec<u32> = added.iter().filter(|(_, token)| token.special).map(|(&id, _)| id).collect();
        specials.extend(special.iter());
        specials.sort_unstable();
        specials.dedup();
        let starts = |(id, token): (u32, &String)| specials.binary_search(&id).is_ok() || starts_word(json, token);
        let word_starts = (0..).zip(&tokens).map(starts).collect();
        let manifest = manifest::Tokenizer {
            fingerprint: fingerprint(json),
            kind: kind(json),
            vocab_size: size,
            lowercase: lowercases(&json["normalizer"]),
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

/// The special ids by their two usual spellings; all that are missing are named.
fn special_ids(model: &tokenizers::Tokenizer) -> Result<SpecialIds, String> {
    let find = |names: [&str; 2]| names.iter().find_map(|name| model.token_to_id(name));
    let needed = [["[PAD]", "<pad>"], ["[CLS]", "<s>"], ["[SEP]", "</s>"], ["[MASK]", "<mask>"]];
    let missing: Vec<_> = needed.iter().filter(|names| find(**names).is_none()).map(|names| names[0]).collect();
    if let ([Some(pad), Some(cls), Some(sep), Some(mask)], true) = (needed.map(find), missing.is_empty()) {
        return Ok(SpecialIds { pad, unk: find(["[UNK]", "<unk>"]), cls, sep, mask });
    }
    Err(format!(
        "it has no {}; add what is missing to it as special tokens (or in RoBERTa's spelling: <pad>, <s>, </s>, <mask>)",
        missing.join(", ")
    ))
}

/// Whether a word begins at a token, by the convention of its model.
fn starts_word(json: &Value, token: &str) -> bool {
    match json["model"]["type"].as_str() {
        Some("WordPiece") => {
            let prefix = json["model"]["continuing_subword_prefix"].as_str().unwrap_or("##");
            !token.starts_with(prefix)
        }
        // Byte-level models write space, line feed, tab and carriage return as Ġ Ċ ĉ č.
        Some("BPE") if is_byte_level(&json["pre_tokenizer"]) => token.starts_with(['Ġ', 'Ċ', 'ĉ', 'č']),
        Some("BPE" | "Unigram") => token.starts_with('▁'),
        _ => true,
    }
}

fn kind(json: &Value) -> String {
    match json["model"]["type"].as_str() {
        Some("BPE") if is_byte_level(&json["pre_tokenizer"]) => "byte_bpe".into(),
        Some(kind) => kind.to_lowercase(),
        None => "unknown".into(),
    }
}

fn is_byte_level(pre_tokenizer: &Value) -> bool {
    pre_tokenizer["type"] == "ByteLevel"
        || pre_tokenizer["pretokenizers"].as_array().is_some_and(|steps| steps.iter().any(is_byte_level))
}

fn lowercases(normalizer: &Value) -> bool {
    normalizer["lowercase"] == true
        || normalizer["type"] == "Lowercase"
        || normalizer["normalizers"].as_array().is_some_and(|steps| steps.iter().any(lowercases))
}
