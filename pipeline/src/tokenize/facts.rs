//! Facts about a tokenizer that other modules use.

use schemas::{SpecialIds, Vocab, manifest};
use serde_json::Value;
use tokenizers::Model as _;

/// Facts about a tokenizer that are known without running it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Content of the file in the prepared folder.
    pub json: Vec<u8>,
    /// Text of each id.
    pub tokens: Vec<String>,
    /// True for each id that begins a word.
    pub word_starts: Vec<bool>,
    /// Summary for the manifest.
    pub manifest: manifest::TokenizerInfo,
}

impl Facts {
    /// Extracts the facts of a tokenizer: `tokens` are those of [`tokens`], `meant` is the crate's own serialization,
    /// `bytes` the file as written, with that fingerprint.
    pub(super) fn new(
        model: &tokenizers::Tokenizer,
        tokens: Vec<String>,
        fingerprint: String,
        meant: &Value,
        bytes: &[u8],
    ) -> Result<Self, String> {
        refuse_chance(meant)?;
        let special = special_ids(model)?;
        refuse_without_unknown(model, meant)?;
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
            fingerprint,
            kind: kind(meant),
            vocab_size: u32::try_from(tokens.len()).expect("checked by `tokens`"),
            lowercase: lowercases(&meant["normalizer"]),
            special,
            specials,
        };
        Ok(Self { json: bytes.to_vec(), tokens, word_starts, manifest })
    }

    /// Returns the special ids.
    #[must_use]
    pub fn special(&self) -> SpecialIds {
        self.manifest.special
    }

    /// Returns the vocabulary with counts, for views.
    #[must_use]
    pub fn vocab(&self, counts: Vec<u64>) -> Vocab {
        let specials = &self.manifest.specials;
        Vocab::new(self.tokens.clone(), self.word_starts.clone(), counts, self.special(), specials)
    }
}

/// Maximum number of unused ids.
const HOLES_MAX: u64 = 1000;

/// Returns the text of each id. Each id costs memory and, in the crate, time, even if no token has it.
pub(super) fn tokens(model: &tokenizers::Tokenizer) -> Result<Vec<String>, String> {
    let ids = model.get_vocab(true);
    let known = ids.len() as u64;
    let largest = ids.values().copied().max().unwrap_or(0);
    let size = if known == 0 { 0 } else { u64::from(largest) + 1 };
    if u32::try_from(size).is_err() || size > 2 * known + HOLES_MAX {
        return Err(format!("its largest id is {largest}, and it has {known} tokens; ids must be consecutive"));
    }
    let mut tokens = vec![None; usize::try_from(size).expect("it fits into 32 bits")];
    #[expect(clippy::iter_over_hash_type, reason = "each token has its own place, or the lesser one wins")]
    for (token, id) in ids {
        let first: &mut Option<String> = &mut tokens[id as usize];
        // Which of several tokens with one id is shown does not depend on the order of the map.
        if first.as_ref().is_none_or(|first| token < *first) {
            *first = Some(token);
        }
    }
    // An unused number is never drawn as a random word, like BERT's own `[unusedN]`.
    let named = (0..).zip(tokens).map(|(id, token): (u32, _)| token.unwrap_or_else(|| format!("[unused-id-{id}]")));
    Ok(named.collect())
}

/// Returns the special ids by their two usual spellings; the error names all missing ones.
fn special_ids(model: &tokenizers::Tokenizer) -> Result<SpecialIds, String> {
    let added = model.get_added_tokens_decoder();
    // MPNet's vocabulary has both spellings, of which one is used.
    let is_used = |id: &u32| added.get(id).is_some_and(|token| token.special);
    let find = |names: [&str; 2]| {
        let ids = || names.iter().filter_map(|name| model.token_to_id(name));
        ids().find(is_used).or_else(|| ids().next())
    };
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

/// Returns an error for randomized models: their ids would depend on workers and chance.
fn refuse_chance(meant: &Value) -> Result<(), String> {
    match meant["model"]["dropout"].as_f64() {
        Some(rate) if rate > 0.0 => {
            Err(format!("its model has `dropout` = {rate}, so that ids are a matter of chance; set it to null"))
        }
        _ => Ok(()),
    }
}

/// Returns an error for models that fail on an unknown character: the first one may be hours into a corpus.
fn refuse_without_unknown(model: &tokenizers::Tokenizer, meant: &Value) -> Result<(), String> {
    let meant = &meant["model"];
    let kind = meant["type"].as_str().unwrap_or_default();
    let missing = match kind {
        "WordPiece" | "WordLevel" => {
            let name = meant["unk_token"].as_str().unwrap_or("[UNK]");
            model.get_model().token_to_id(name).is_none().then(|| format!("`{name}` to the vocabulary"))
        }
        "Unigram" => (!meant["unk_id"].is_u64() && meant["byte_fallback"] != true)
            .then(|| "`<unk>` to the vocabulary, and its id as `unk_id` of the model".to_owned()),
        _ => None,
    };
    missing.map_or(Ok(()), |missing| {
        Err(format!(
            "its {kind} model has no unknown token, so a text with an unknown character could not be tokenized; add \
             {missing}"
        ))
    })
}

/// Convention by which a token marks that it begins a word.
enum Borders {
    /// All tokens begin a word except those with this prefix: WordPiece.
    Continued(String),
    /// Tokens with one of these first characters begin a word: byte-level and sentence-piece models, which encode
    /// blanks.
    Marked(Vec<char>),
    /// Every token is a word.
    Words,
}

impl Borders {
    /// Returns the convention of a model from the crate's serialization: published files may omit derivable fields.
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

/// Returns the character that a step, or one of its parts, writes for a blank.
fn blank(step: &Value) -> Option<char> {
    let written = match step["type"].as_str()? {
        "Metaspace" => &step["replacement"],
        "Replace" if step["pattern"]["String"] == " " => &step["content"],
        _ => &Value::Null,
    };
    written.as_str().and_then(|written| written.chars().next()).or_else(|| parts(step).find_map(blank))
}

/// Returns the parts of a step that is a sequence.
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

pub(super) fn is_byte_level(step: &Value) -> bool {
    step["type"] == "ByteLevel" || parts(step).any(is_byte_level)
}

fn lowercases(normalizer: &Value) -> bool {
    normalizer["lowercase"] == true || normalizer["type"] == "Lowercase" || parts(normalizer).any(lowercases)
}
