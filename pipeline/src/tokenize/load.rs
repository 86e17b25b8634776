//! Tokenizer files: `tokenizer.json`, `vocab.txt`, or `vocab.json` with `merges.txt`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use schemas::{SpecialIds, manifest};
use serde_json::{Value, json};

use super::{Facts, HfTokenizer};
use crate::{Error, Result};

/// Reads the tokenizer at `path`: a file, or a folder that holds one. `lowercase` must be said for a `vocab.txt`, and
/// must not contradict another file.
pub fn load(path: &Path, lowercase: Option<bool>) -> Result<HfTokenizer> {
    let file = find(path)?;
    let refuse = |message: String| Error::Tokenizer { path: file.clone(), message };
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let text = read(&file)?;
    if file.extension().is_some_and(|extension| extension == "txt") {
        let lowercase = lowercase.ok_or_else(|| {
            refuse("a vocabulary cannot tell whether text is lowercased; set `lowercase = true` or `false`".into())
        })?;
        from_json(&render(&word_piece(&text, lowercase), refuse)?, refuse)
    } else if name == "vocab.json" {
        let merges = read(&file.with_file_name("merges.txt"))?;
        from_json(&render(&byte_level(&text, &merges).map_err(refuse)?, refuse)?, refuse)
    } else {
        let tokenizer = from_json(text.as_bytes(), refuse)?;
        let found = super::Tokenizer::facts(&tokenizer).manifest.lowercase;
        match lowercase {
            Some(wanted) if wanted != found => {
                Err(refuse(format!("it says lowercase = {found}, the configuration says {wanted}; drop `lowercase`")))
            }
            _ => Ok(tokenizer),
        }
    }
}

/// The file that `path` means.
fn find(path: &Path) -> Result<PathBuf> {
    let refuse = |message: &str| Err(Error::Tokenizer { path: path.to_owned(), message: message.to_owned() });
    if path.is_dir() {
        let known = ["tokenizer.json", "vocab.json", "vocab.txt"].map(|name| path.join(name));
        return known
            .into_iter()
            .find(|file| file.is_file())
            .map_or_else(|| refuse("no `tokenizer.json`, `vocab.json` or `vocab.txt` in this folder"), Ok);
    }
    match path.file_name().and_then(|name| name.to_str()) {
        _ if !path.is_file() => refuse("no such file; check `tokenizer`, or train one with `cloze tokenizer train`"),
        Some("merges.txt") => Ok(path.with_file_name("vocab.json")),
        _ => Ok(path.to_owned()),
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| Error::Tokenizer { path: path.to_owned(), message: error.to_string() })
}

/// The bytes that the crate itself would save, so that equal tokenizers are equal files.
pub(super) fn render(json: &Value, refuse: impl Fn(String) -> Error) -> Result<Vec<u8>> {
    let model = tokenizers::Tokenizer::from_bytes(json.to_string()).map_err(|error| refuse(error.to_string()))?;
    model.to_string(true).map(String::into_bytes).map_err(|error| refuse(error.to_string()))
}

pub(super) fn from_json(bytes: &[u8], refuse: impl Fn(String) -> Error) -> Result<HfTokenizer> {
    let unreadable = |error: &dyn std::fmt::Display| refuse(format!("not a `tokenizer.json`: {error}"));
    let json: Value = serde_json::from_slice(bytes).map_err(|error| unreadable(&error))?;
    let model = tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| unreadable(&error))?;
    let facts = facts(&model, &json, bytes).map_err(refuse)?;
    Ok(HfTokenizer::new(model, &json, facts))
}

/// An added token as `tokenizer.json` lists it.
pub(super) fn added(id: u64, content: &str, lstrip: bool) -> Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": lstrip, "rstrip": false,
           "normalized": false, "special": true})
}

/// BERT's tokenizer around a vocabulary: Devlin et al. 2019; `BasicTokenizer` and `WordpieceTokenizer` of its code.
pub(super) fn word_piece_json(vocab: &BTreeMap<String, u64>, lowercase: bool) -> Value {
    let named = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
    let mut specials: Vec<_> = named.iter().filter_map(|&name| Some((*vocab.get(name)?, name))).collect();
    specials.sort_unstable();
    let template = |name: &str| vocab.get(name).map(|&id| json!([name, id]));
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": specials.iter().map(|&(id, name)| added(id, name, false)).collect::<Vec<_>>(),
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                       "strip_accents": null, "lowercase": lowercase},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": template("[SEP]").zip(template("[CLS]"))
            .map(|(sep, cls)| json!({"type": "BertProcessing", "sep": sep, "cls": cls})),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocab},
    })
}

fn word_piece(text: &str, lowercase: bool) -> Value {
    let vocab = text.lines().map(|line| line.trim_end().to_owned()).zip(0..).collect();
    word_piece_json(&vocab, lowercase)
}

/// GPT-2's byte-level pairs with RoBERTa's special tokens, as far as the vocabulary has them.
pub(super) fn byte_level_json(vocab: &BTreeMap<String, u64>, merges: &[Value]) -> Value {
    let named = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"];
    let mut specials: Vec<_> = named.iter().filter_map(|&name| Some((*vocab.get(name)?, name))).collect();
    specials.sort_unstable();
    let template = |name: &str| vocab.get(name).map(|&id| json!([name, id]));
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        // RoBERTa's `<mask>` takes the space before it, as a word would.
        "added_tokens": specials.iter().map(|&(id, name)| added(id, name, name == "<mask>")).collect::<Vec<_>>(),
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": template("</s>").zip(template("<s>")).map(|(sep, cls)| json!(
            {"type": "RobertaProcessing", "sep": sep, "cls": cls, "trim_offsets": true, "add_prefix_space": false})),
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                  "vocab": vocab, "merges": merges},
    })
}

fn byte_level(vocab: &str, merges: &str) -> Result<Value, String> {
    let vocab: BTreeMap<String, u64> =
        serde_json::from_str(vocab).map_err(|error| format!("not a map of tokens to ids: {error}"))?;
    let lines = merges.lines().filter(|line| !line.starts_with("#version") && !line.is_empty());
    let pair = |line: &str| line.split_once(' ').map(|(left, right)| json!([left, right]));
    let merges: Option<Vec<Value>> = lines.map(pair).collect();
    Ok(byte_level_json(&vocab, &merges.ok_or("its `merges.txt` has a line that is not a pair")?))
}

fn facts(model: &tokenizers::Tokenizer, json: &Value, bytes: &[u8]) -> Result<Facts, String> {
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
    Ok(Facts { json: bytes.to_vec(), tokens, word_starts, manifest })
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

/// BLAKE3 of the tokenizer without padding and truncation, keys sorted: the same for every way of writing it down.
fn fingerprint(json: &Value) -> String {
    let mut text = Vec::new();
    let mut json = json.clone();
    if let Some(object) = json.as_object_mut() {
        object.remove("padding");
        object.remove("truncation");
    }
    write_sorted(&json, &mut text);
    blake3::hash(&text).to_hex().to_string()
}

fn write_sorted(value: &Value, text: &mut Vec<u8>) {
    match value {
        Value::Object(object) => {
            text.push(b'{');
            for (key, value) in object.iter().collect::<BTreeMap<_, _>>() {
                text.extend_from_slice(Value::from(key.as_str()).to_string().as_bytes());
                text.push(b':');
                write_sorted(value, text);
                text.push(b',');
            }
            text.push(b'}');
        }
        Value::Array(items) => {
            text.push(b'[');
            for item in items {
                write_sorted(item, text);
                text.push(b',');
            }
            text.push(b']');
        }
        leaf => text.extend_from_slice(leaf.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Tokenizer as _;
    use super::*;
    use crate::testing::{self, write_all};

    fn refused(home: &Path, name: &str, lowercase: Option<bool>) -> String {
        load(&home.join(name), lowercase).expect_err("refused").to_string()
    }

    #[test]
    fn every_spelling_of_a_tokenizer_has_one_fingerprint() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let vocab = testing::VOCAB.join("\n");
        write_all(home.path(), &[("vocab.txt", vocab)]);
        let plain = load(home.path(), Some(true)).expect("a folder with a vocabulary");
        let mut json: Value = serde_json::from_slice(&plain.facts().json).expect("JSON");
        json["padding"] = json!({"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": null,
                                 "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"});
        write_all(home.path(), &[("other/tokenizer.json", json.to_string())]);
        let other = load(&home.path().join("other"), None).expect("a folder with a tokenizer");
        assert_eq!(plain.facts().manifest, other.facts().manifest);
        assert_eq!((plain.facts().manifest.kind.as_str(), plain.facts().manifest.lowercase), ("wordpiece", true));
        let cased = load(&home.path().join("vocab.txt"), Some(false)).expect("a vocabulary");
        assert_ne!(plain.facts().manifest.fingerprint, cased.facts().manifest.fingerprint);
    }

    #[test]
    fn words_start_where_the_model_says() {
        for (name, token, starts) in [
            ("wordpiece", "##s", false),
            ("wordpiece", "the", true),
            ("byte_bpe", "Ġt", true),
            ("byte_bpe", "t", false),
        ] {
            let tokenizer = testing::tokenizer(name);
            let facts = tokenizer.facts();
            let id = facts.tokens.iter().position(|known| known == token).expect("in the vocabulary");
            assert_eq!((facts.word_starts[id], facts.manifest.kind.as_str()), (starts, name), "{token}");
            assert_eq!(facts.manifest.specials.len(), 5);
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_the_way_out() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let gpt2 = r#"{"a": 0, "<|endoftext|>": 1}"#;
        let files =
            [("vocab.txt", "[PAD]\nthe"), ("b/vocab.json", gpt2), ("b/merges.txt", "#version: 0.2\n"), ("c.json", "{")];
        write_all(home.path(), &files);
        assert!(refused(home.path(), "vocab.txt", None).contains("set `lowercase"));
        assert!(refused(home.path(), "vocab.txt", Some(true)).contains("[CLS], [SEP], [MASK]"));
        assert!(refused(home.path(), "b/merges.txt", None).contains("<mask>"));
        assert!(refused(home.path(), "c.json", None).contains("not a `tokenizer.json`"));
        assert!(refused(home.path(), "absent", None).contains("no such file"));
        write_all(home.path(), &[("d/tokenizer.json", &testing::tokenizer("wordpiece").facts().json)]);
        assert!(refused(home.path(), "d", Some(false)).contains("lowercase = true"));
    }
}
