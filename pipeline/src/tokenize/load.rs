//! Tokenizer files: `tokenizer.json`, `vocab.txt`, or `vocab.json` with `merges.txt`.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::HfTokenizer;
use super::describe::{byte_level, render, word_piece};
use super::facts::{Facts, tokens};
use super::files::read_text;
use super::fingerprint::fingerprint;
use super::settings::Settings;
use crate::{Error, Result};

/// Reads the tokenizer at `path`: a file, or a folder that contains one. `lowercase` is required for a `vocab.txt` without
/// `do_lower_case` in a `tokenizer_config.json`, and must not contradict the files.
pub fn load(path: &Path, lowercase: Option<bool>) -> Result<HfTokenizer> {
    load_or_default(path, lowercase, None)
}

/// Reads the tokenizer of the folder of a `transformers` model.
///
/// Text of a `vocab.txt` is lowercased unless `do_lower_case` says otherwise, as in `transformers`.
pub fn load_from_model(folder: &Path) -> Result<HfTokenizer> {
    load_or_default(folder, None, Some(true))
}

/// Whether the files at `path` say whether text is lowercased. A tokenizer that cannot be read says so when it is loaded.
#[must_use]
pub fn knows_lowercase(path: &Path) -> bool {
    let Ok(file) = find(path) else { return true };
    !is_list(&file)
        || Settings::read(&file).and_then(|settings| settings.lowercase()).is_ok_and(|found| found.is_some())
}

fn is_list(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "txt")
}

/// Reads a tokenizer. `default` says whether text of a `vocab.txt` is lowercased if nothing else does.
fn load_or_default(path: &Path, lowercase: Option<bool>, default: Option<bool>) -> Result<HfTokenizer> {
    let file = find(path)?;
    let refuse = |message: String| Error::Tokenizer { path: file.clone(), message };
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let settings = Settings::read(&file)?;
    let text = read_text(&file)?;
    let tokenizer = if is_list(&file) {
        let found = settings.lowercase()?;
        if let (Some(found), Some(wanted)) = (found, lowercase.filter(|wanted| Some(*wanted) != found)) {
            return Err(refuse(format!(
                "`do_lower_case` of its `tokenizer_config.json` is {found}, the configuration says {wanted}; drop \
                 `prepare.lowercase`"
            )));
        }
        let lowercase = found.or(lowercase).or(default).ok_or_else(|| {
            refuse(
                "a vocabulary cannot tell whether text is lowercased; set `prepare.lowercase = true` or `false`".into(),
            )
        })?;
        let mut json = word_piece(&text, lowercase);
        settings.in_word_piece(&mut json)?;
        from_json(&render(&json, refuse)?, refuse)?
    } else if name == "vocab.json" {
        let merges = read_text(&file.with_file_name("merges.txt"))?;
        let mut json = byte_level(&text, &merges).map_err(refuse)?;
        settings.in_byte_level(&mut json)?;
        from_json(&render(&json, refuse)?, refuse)?
    } else {
        let tokenizer = from_json(text.as_bytes(), refuse)?;
        let found = super::Tokenizer::facts(&tokenizer).manifest.lowercase;
        if let Some(wanted) = lowercase.filter(|wanted| *wanted != found) {
            return Err(refuse(format!(
                "it says lowercase = {found}, the configuration says {wanted}; drop `prepare.lowercase`"
            )));
        }
        settings.compare(&serde_json::from_str(&text).expect("it was read as JSON"))?;
        tokenizer
    };
    settings.compare_special(super::Tokenizer::facts(&tokenizer))?;
    Ok(tokenizer)
}

/// Parses a `tokenizer.json` that was read from `place`.
pub fn of_json(bytes: &[u8], place: &str) -> Result<HfTokenizer> {
    from_json(bytes, |message| Error::Tokenizer { path: place.into(), message })
}

/// Returns the file that `path` refers to.
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
        _ if !path.is_file() => {
            refuse("no such file; check `prepare.tokenizer`, or train one with `cloze tokenizer train`")
        }
        Some("merges.txt") => Ok(path.with_file_name("vocab.json")),
        _ => Ok(path.to_owned()),
    }
}

fn from_json(bytes: &[u8], refuse: impl Fn(String) -> Error) -> Result<HfTokenizer> {
    let unreadable = |error: &dyn std::fmt::Display| refuse(format!("not a `tokenizer.json`: {error}"));
    // Before the crate parses it, which panics at some invalid texts.
    let json: Value = serde_json::from_slice(bytes).map_err(|error| unreadable(&error))?;
    let model = tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| unreadable(&error))?;
    let tokens = tokens(&model).map_err(&refuse)?;
    // A file may omit derivable fields, such as the type of its model.
    let meant = model.to_string(false).map_err(|error| unreadable(&error))?;
    let meant = serde_json::from_str::<Serialized>(&meant).map_err(|error| unreadable(&error))?.into_value();
    let facts = Facts::new(&model, tokens, fingerprint(&json), &meant, bytes).map_err(&refuse)?;
    Ok(HfTokenizer::new(model, &meant, facts))
}

/// Serialization of a tokenizer by the crate. The vocabulary is left out: parsing it would take most of the time.
#[derive(Deserialize)]
struct Serialized {
    model: SerializedModel,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Deserialize)]
struct SerializedModel {
    #[serde(rename = "vocab")]
    _vocab: IgnoredAny,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Serialized {
    fn into_value(self) -> Value {
        let mut json = self.rest;
        json.insert("model".into(), Value::Object(self.model.rest));
        Value::Object(json)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
    fn word_starts_are_those_of_the_model() {
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

    /// Returns a small tokenizer with a modified field.
    fn changed(name: &str, change: impl FnOnce(&mut Value)) -> Result<HfTokenizer> {
        let mut json: Value = serde_json::from_slice(&testing::tokenizer(name).facts().json).expect("JSON");
        change(&mut json);
        of_json(json.to_string().as_bytes(), "tokenizer.json")
    }

    fn refusal(name: &str, change: impl FnOnce(&mut Value)) -> String {
        changed(name, change).expect_err("refused").to_string()
    }

    #[test]
    fn words_start_there_also_where_the_file_does_not_name_its_model() {
        for name in testing::TOKENIZERS {
            let without = changed(name, |json| {
                json["model"].as_object_mut().expect("an object").remove("type").expect("it names it");
            });
            let named = testing::tokenizer(name);
            let without = without.expect("the crate reads it");
            assert_eq!(without.facts().word_starts, named.facts().word_starts, "{name}");
            assert!(without.facts().word_starts.contains(&false), "{name}");
            assert_eq!(without.facts().manifest.kind, name);
        }
    }

    #[test]
    fn sentence_pieces_begin_words_with_their_blank() {
        let unigram = |json: &mut Value| {
            let mut vocab: Vec<Value> = testing::VOCAB.iter().map(|token| json!([token, -1.0])).collect();
            vocab.extend([json!(["▁the", -1.0]), json!(["_the", -1.0])]);
            json["model"] = json!({"type": "Unigram", "unk_id": 1, "vocab": vocab, "byte_fallback": false});
            json["normalizer"] = Value::Null;
            json["post_processor"] = Value::Null;
        };
        for mark in ["▁", "_"] {
            let metaspace =
                json!({"type": "Metaspace", "replacement": mark, "prepend_scheme": "always", "split": true});
            let tokenizer = changed("wordpiece", |json| {
                unigram(json);
                json["pre_tokenizer"] =
                    json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]});
            });
            let tokenizer = tokenizer.expect("as the crate writes it");
            let starts = |word: &str| {
                let id = tokenizer.facts().tokens.iter().position(|token| token == word).expect("there");
                tokenizer.facts().word_starts[id]
            };
            assert_eq!([starts("▁the"), starts("_the"), starts("the")], [mark == "▁", mark == "_", false]);
        }
        let error = refusal("wordpiece", |json| {
            unigram(json);
            json["pre_tokenizer"] = json!({"type": "WhitespaceSplit"});
        });
        assert!(error.contains("its Unigram model is fed by neither") && error.contains("`Metaspace` do"), "{error}");
    }

    #[test]
    fn tokenizers_without_word_boundaries_or_ids_are_refused_by_name() {
        let suffix = |json: &mut Value| json["model"]["end_of_word_suffix"] = json!("</w>");
        assert!(refusal("byte_bpe", suffix).contains("marks where words end"));
        let dropout = |json: &mut Value| json["model"]["dropout"] = json!(0.1);
        assert!(refusal("byte_bpe", dropout).contains("`dropout` = 0.1"));
        let shared = |json: &mut Value| {
            json["model"]["vocab"]["[SEP]"] = json!(2);
            json["model"]["vocab"]["[CLS]"] = json!(2);
            json["added_tokens"] = json!([]);
            json["post_processor"] = Value::Null;
        };
        assert!(refusal("wordpiece", shared).contains("share the id 2"));
        for far in [1_u64 << 30, (1 << 32) - 1] {
            let hole = |json: &mut Value| json["model"]["vocab"]["far"] = json!(far);
            assert!(refusal("wordpiece", hole).contains(&format!("its largest id is {far}")));
        }
        let only_specials = |json: &mut Value| {
            let vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]"];
            json["model"]["vocab"] = vocab.iter().zip(0..).map(|(&token, id)| (token.to_owned(), json!(id))).collect();
        };
        assert!(refusal("wordpiece", only_specials).contains("special or unused"));
    }

    #[test]
    fn unusable_tokenizers_are_refused_with_a_hint() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let gpt2 = r#"{"a": 0, "<|endoftext|>": 1}"#;
        let files =
            [("vocab.txt", "[PAD]\nthe"), ("b/vocab.json", gpt2), ("b/merges.txt", "#version: 0.2\n"), ("c.json", "{")];
        write_all(home.path(), &files);
        assert!(refused(home.path(), "vocab.txt", None).contains("set `prepare.lowercase"));
        assert!(refused(home.path(), "vocab.txt", Some(true)).contains("[CLS], [SEP], [MASK]"));
        assert!(refused(home.path(), "b/merges.txt", None).contains("<mask>"));
        assert!(refused(home.path(), "c.json", None).contains("not a `tokenizer.json`"));
        assert!(refused(home.path(), "absent", None).contains("no such file"));
        write_all(home.path(), &[("d/tokenizer.json", &testing::tokenizer("wordpiece").facts().json)]);
        assert!(refused(home.path(), "d", Some(false)).contains("lowercase = true"));
        let vocab = "[PAD]\n[CLS]\n[SEP]\n[MASK]\nthe\n";
        write_all(home.path(), &[("e/vocab.txt", vocab)]);
        assert!(refused(home.path(), "e/vocab.txt", Some(true)).contains("no unknown token"));
    }
}
