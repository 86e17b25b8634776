//! Settings of `transformers` next to the file of a tokenizer. Each that changes ids is honoured, or refused by its name.
//!
//! They are in `tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json`, and the class of the tokenizer
//! is also in `config.json`. A `tokenizer.json` is complete; settings that contradict it are refused, because
//! `transformers` would follow them.

mod added;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use self::added::{Added, content, entry, items};
use super::facts::Facts;
use super::files::read_object;
use super::transformers::TOKENIZER_CONFIG;
use crate::{Error, Result};

const SPECIAL_TOKENS: &str = "special_tokens_map.json";
const ADDED_TOKENS: &str = "added_tokens.json";

/// Classes that read a `vocab.txt` as BERT does.
const BERT_CLASSES: &[&str] = &[
    "Bert",
    "ConvBert",
    "DistilBert",
    "DPRContextEncoder",
    "DPRQuestionEncoder",
    "DPRReader",
    "Electra",
    "Funnel",
    "LayoutLM",
    "Lxmert",
    "MobileBert",
    "RetriBert",
    "SqueezeBert",
];
/// Classes that read a `vocab.json` and a `merges.txt` as GPT-2 does, with the special tokens of RoBERTa.
const BYTE_CLASSES: &[&str] = &["Bart", "GPT2", "LED", "Longformer", "Roberta"];
/// Classes of a `tokenizer.json`, and of files of which nothing else is known.
const ANY_CLASSES: &[&str] = &["PreTrained", "TokenizersBackend"];

/// Settings of Python classes that split text by other rules, with the value that changes nothing.
const FOREIGN_RULES: &[&str] = &[
    "do_word_tokenize",
    "do_subword_tokenize",
    "jumanpp_kwargs",
    "mecab_kwargs",
    "never_split",
    "subword_tokenizer_type",
    "sudachi_kwargs",
    "word_tokenizer_type",
];

/// Kind of the file of a tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenizerFile {
    VocabTxt,
    VocabJson,
    TokenizerJson,
}

impl TokenizerFile {
    /// Returns the kind of a file that settings belong to. Those of a folder belong to the usual names only.
    pub(super) fn of(path: &Path) -> Option<Self> {
        match path.file_name()?.to_str()? {
            "vocab.txt" => Some(Self::VocabTxt),
            "vocab.json" => Some(Self::VocabJson),
            "tokenizer.json" => Some(Self::TokenizerJson),
            _ => None,
        }
    }
}

/// Settings of a tokenizer.
#[derive(Debug, Default)]
pub(super) struct Settings {
    folder: PathBuf,
    config: Map<String, Value>,
    special_tokens: Map<String, Value>,
    added_tokens: Map<String, Value>,
    class: Option<String>,
}

impl Settings {
    /// Reads the settings next to a file, and refuses those that cannot be honoured. Empty for a file of another name.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let (Some(kind), Some(folder)) = (TokenizerFile::of(path), path.parent()) else { return Ok(Self::default()) };
        let config = read_object(&folder.join(TOKENIZER_CONFIG))?;
        let model = folder.join("config.json");
        // A damaged one is reported by the reader of models.
        let model = read_object(&model).unwrap_or_default();
        let class = [&config, &model].into_iter().find_map(|file| file.get("tokenizer_class")?.as_str());
        let settings = Self {
            class: class.map(str::to_owned),
            special_tokens: read_object(&folder.join(SPECIAL_TOKENS))?,
            added_tokens: read_object(&folder.join(ADDED_TOKENS))?,
            folder: folder.to_owned(),
            config,
        };
        settings.check(kind)?;
        if kind == TokenizerFile::VocabTxt && settings.class.is_none() {
            settings.check_model_type(model.get("model_type").and_then(Value::as_str))?;
        }
        Ok(settings)
    }

    /// Whether text is lowercased, if they say so.
    pub(super) fn lowercase(&self) -> Result<Option<bool>> {
        self.bool("do_lower_case")
    }

    /// Applies the settings to the `tokenizer.json` of a `vocab.txt`.
    pub(super) fn in_word_piece(&self, json: &mut Value) -> Result<()> {
        if let Some(strips) = self.bool("strip_accents")? {
            json["normalizer"]["strip_accents"] = strips.into();
        }
        if let Some(splits) = self.bool("tokenize_chinese_chars")? {
            json["normalizer"]["handle_chinese_chars"] = splits.into();
        }
        self.add_tokens(json)
    }

    /// Applies the settings to the `tokenizer.json` of a `vocab.json` with `merges.txt`.
    pub(super) fn in_byte_level(&self, json: &mut Value) -> Result<()> {
        if let Some(adds) = self.bool("add_prefix_space")? {
            json["pre_tokenizer"]["add_prefix_space"] = adds.into();
            if !json["post_processor"].is_null() {
                json["post_processor"]["add_prefix_space"] = adds.into();
            }
        }
        self.add_tokens(json)
    }

    /// Refuses settings that contradict a `tokenizer.json`: `transformers` follows them, and `cloze` the file.
    pub(super) fn compare(&self, json: &Value) -> Result<()> {
        let rules: &[(&[&str], &str, &str)] = &[
            (BERT_CLASSES, "do_lower_case", "/normalizer/lowercase"),
            (BERT_CLASSES, "strip_accents", "/normalizer/strip_accents"),
            (BERT_CLASSES, "tokenize_chinese_chars", "/normalizer/handle_chinese_chars"),
            (BYTE_CLASSES, "add_prefix_space", "/pre_tokenizer/add_prefix_space"),
        ];
        for (classes, key, pointer) in rules {
            let (Some(says), Some(does)) = (self.config.get(*key), json.pointer(pointer)) else { continue };
            if self.is_of(classes) && says != does {
                return Err(self.contradiction(TOKENIZER_CONFIG, &format!("`{key}` is {says}, and there it is {does}")));
            }
        }
        let added = json["added_tokens"].as_array().map_or(&[][..], Vec::as_slice);
        let vocab = &json["model"]["vocab"];
        for token in self.added()? {
            let is_there = added.iter().any(|it| it["id"] == token.id && it["content"] == *token.content)
                || vocab.get(&token.content).is_some_and(|id| *id == token.id)
                || usize::try_from(token.id)
                    .is_ok_and(|id| vocab.pointer(&format!("/{id}/0")) == Some(&token.content.as_str().into()));
            if !is_there {
                let message = format!("the token `{}` has the id {}, and there it has not", token.content, token.id);
                return Err(self.contradiction(token.file, &message));
            }
        }
        for (file, content) in self.further_special() {
            if !added.iter().any(|it| it["content"] == *content) {
                let message = format!("`{content}` is a special token, and there it is not");
                return Err(self.contradiction(file, &message));
            }
        }
        Ok(())
    }

    /// Refuses special tokens with other names than those that the tokenizer was found to have.
    pub(super) fn compare_special(&self, facts: &Facts) -> Result<()> {
        let special = facts.special();
        let roles = [
            ("pad_token", special.pad),
            ("cls_token", special.cls),
            ("sep_token", special.sep),
            ("mask_token", special.mask),
        ];
        for (role, id) in roles {
            let found = &facts.tokens[id as usize];
            if let Some((file, named)) = self.named(role).filter(|(_, named)| named != found) {
                let problem = format!(
                    "`{role}` is `{named}`; `cloze` knows special tokens by the names of BERT and RoBERTa, and would use \
                     `{found}`; rename the token in a `tokenizer.json`"
                );
                return Err(self.refuse(file, problem));
            }
        }
        Ok(())
    }

    /// Refuses classes and settings with other rules than those of the kind of file.
    fn check(&self, kind: TokenizerFile) -> Result<()> {
        if self.bool("split_special_tokens")? == Some(true) {
            return Err(self.refuse(
                TOKENIZER_CONFIG,
                "`split_special_tokens` is not supported: special tokens in a text are never split; set it to false"
                    .to_owned(),
            ));
        }
        let classes = match kind {
            TokenizerFile::TokenizerJson => return Ok(()),
            TokenizerFile::VocabTxt => BERT_CLASSES,
            TokenizerFile::VocabJson => BYTE_CLASSES,
        };
        if let Some(class) = self.class.as_deref().filter(|_| !self.is_of(classes) && !self.is_of(ANY_CLASSES)) {
            return Err(self.unsupported(&format!("`tokenizer_class` is `{class}`")));
        }
        if self.config.get("auto_map").is_some_and(|map| !map["AutoTokenizer"].is_null()) {
            return Err(self.unsupported("`auto_map` names other Python code"));
        }
        let is_set = |key: &&&str| self.config.get(**key).is_some_and(|value| !is_empty(value));
        if let Some(key) = FOREIGN_RULES.iter().find(is_set) {
            return Err(self.unsupported(&format!("`{key}` is {}", self.config[*key])));
        }
        for (key, usual) in [("do_basic_tokenize", json!(true)), ("wordpieces_prefix", json!("##"))] {
            if self.config.get(key).is_some_and(|value| !value.is_null() && *value != usual) {
                return Err(self.unsupported(&format!("`{key}` is {}", self.config[key])));
            }
        }
        let unk = if kind == TokenizerFile::VocabTxt { "[UNK]" } else { return Ok(()) };
        match self.named("unk_token") {
            Some((_, named)) if named != unk => {
                Err(self.unsupported(&format!("`unk_token` is `{named}`, not `{unk}`")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses models whose usual tokenizer reads a `vocab.txt` by other rules.
    fn check_model_type(&self, model_type: Option<&str>) -> Result<()> {
        let Some(kind) = model_type else { return Ok(()) };
        let known = BERT_CLASSES.iter().any(|class| class.eq_ignore_ascii_case(&kind.replace('-', "")));
        if known || kind == "cloze" {
            return Ok(());
        }
        Err(self.unsupported(&format!("`model_type` of `config.json` is `{kind}`")))
    }

    fn is_of(&self, classes: &[&str]) -> bool {
        let class = self.class.as_deref().unwrap_or_default();
        let class = class.strip_suffix("Fast").unwrap_or(class);
        let class = class.strip_suffix("Tokenizer").unwrap_or(class);
        classes.contains(&class)
    }

    /// Adds tokens to a rendered tokenizer. Those of the usual special tokens replace its own.
    fn add_tokens(&self, json: &mut Value) -> Result<()> {
        let has_normalizer = !json["normalizer"].is_null();
        let vocab = json["model"]["vocab"].as_object().cloned().unwrap_or_default();
        let mut tokens: BTreeMap<u64, Value> = BTreeMap::new();
        for token in json["added_tokens"].as_array().into_iter().flatten() {
            tokens.insert(token["id"].as_u64().unwrap_or_default(), token.clone());
        }
        let size = vocab.values().filter_map(Value::as_u64).max().map_or(0, |last| last + 1);
        let by_id: BTreeMap<u64, &String> =
            vocab.iter().filter_map(|(token, id)| Some((id.as_u64()?, token))).collect();
        for token in self.added()? {
            if by_id.get(&token.id).is_some_and(|known| **known != token.content)
                || vocab.get(&token.content).is_some_and(|id| *id != token.id)
            {
                let message =
                    format!("the token `{}` has the id {}, and not in the vocabulary", token.content, token.id);
                return Err(self.contradiction(token.file, &message));
            }
            let mut entry = token.entry;
            if !has_normalizer {
                entry["normalized"] = false.into();
            }
            tokens.insert(token.id, entry);
        }
        let is_known =
            |tokens: &BTreeMap<u64, Value>, content: &str| tokens.values().any(|it| it["content"] == *content);
        for (file, content) in self.further_special() {
            if is_known(&tokens, &content) {
                continue;
            }
            let Some(id) = vocab.get(&content).and_then(Value::as_u64) else {
                return Err(
                    self.refuse(file, format!("`{content}` is a special token without an id; {}", self.way_out()))
                );
            };
            tokens.insert(id, entry(id, &content, true));
        }
        let outside = tokens.keys().filter(|id| **id >= size);
        if let Some((at, id)) = (size..).zip(outside).find(|(at, id)| at != *id) {
            let message = format!(
                "no token has the id {at}, and `{}` has {id}",
                tokens[id]["content"].as_str().unwrap_or_default()
            );
            return Err(self.contradiction(ADDED_TOKENS, &message));
        }
        json["added_tokens"] = tokens.into_values().collect();
        Ok(())
    }

    /// Returns the tokens that were added to the vocabulary, of both files.
    fn added(&self) -> Result<Vec<Added>> {
        let mut found: BTreeMap<u64, Added> = BTreeMap::new();
        let special: Vec<String> = self.all_special().collect();
        for (content, id) in &self.added_tokens {
            let Some(id) = id.as_u64() else {
                return Err(self.refuse(ADDED_TOKENS, format!("the id of `{content}` is {id}, not a number")));
            };
            let entry = entry(id, content, special.contains(content));
            found.insert(id, Added { id, content: content.clone(), entry, file: ADDED_TOKENS });
        }
        let decoder = self.config.get("added_tokens_decoder").and_then(Value::as_object);
        for (id, token) in decoder.into_iter().flatten() {
            let (Ok(id), Some(content)) = (id.parse(), token["content"].as_str()) else {
                let problem = format!("`added_tokens_decoder` has `{id}` with {token}, which is no id with a token");
                return Err(self.refuse(TOKENIZER_CONFIG, problem));
            };
            let mut entry = entry(id, content, token["special"] == true);
            for flag in ["single_word", "lstrip", "rstrip", "normalized"] {
                if let Some(value) = token[flag].as_bool() {
                    entry[flag] = value.into();
                }
            }
            found.insert(id, Added { id, content: content.to_owned(), entry, file: TOKENIZER_CONFIG });
        }
        Ok(found.into_values().collect())
    }

    /// Returns the text of a special token by its role, and the file that names it.
    fn named(&self, role: &str) -> Option<(&'static str, String)> {
        let files = [(TOKENIZER_CONFIG, &self.config), (SPECIAL_TOKENS, &self.special_tokens)];
        files.into_iter().find_map(|(file, keys)| Some((file, content(keys.get(role)?)?)))
    }

    /// Returns the special tokens without a role, each with the file that names it.
    fn further_special(&self) -> impl Iterator<Item = (&'static str, String)> {
        let files = [(TOKENIZER_CONFIG, &self.config), (SPECIAL_TOKENS, &self.special_tokens)];
        files.into_iter().flat_map(|(file, keys)| {
            let lists =
                ["additional_special_tokens", "extra_special_tokens"].into_iter().filter_map(|key| keys.get(key));
            lists.flat_map(items).filter_map(content).map(move |content| (file, content))
        })
    }

    fn all_special(&self) -> impl Iterator<Item = String> {
        let roles = [&self.config, &self.special_tokens].into_iter().flatten();
        let roles = roles.filter(|(key, _)| key.ends_with("_token")).filter_map(|(_, value)| content(value));
        roles.chain(self.further_special().map(|(_, content)| content))
    }

    fn bool(&self, key: &str) -> Result<Option<bool>> {
        match self.config.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(value) => Err(self.refuse(TOKENIZER_CONFIG, format!("`{key}` is {value}, neither true nor false"))),
        }
    }

    fn refuse(&self, file: &str, message: String) -> Error {
        Error::Tokenizer { path: self.folder.join(file), message }
    }

    fn unsupported(&self, what: &str) -> Error {
        self.refuse(
            TOKENIZER_CONFIG,
            format!("{what}: this tokenizer has other rules than the one of the vocabulary; {}", self.way_out()),
        )
    }

    fn contradiction(&self, file: &str, what: &str) -> Error {
        let of = "it and the tokenizer next to it differ";
        let hint = format!("make them equal, or copy the tokenizer to a folder without `{file}`");
        self.refuse(file, format!("{of}: {what}; {hint}"))
    }

    /// Returns the command that writes a `tokenizer.json`.
    fn way_out(&self) -> String {
        format!(
            "if `transformers` has a fast form of it, this writes a `tokenizer.json`: python -c \"import sys; from \
             transformers import AutoTokenizer as T; T.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[1] + \
             '-tokenizer')\" {}",
            schemas::shell_quoted(&self.folder)
        )
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}

#[cfg(test)]
mod tests;
