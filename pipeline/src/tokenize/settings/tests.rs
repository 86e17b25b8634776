use std::path::Path;

use serde_json::{Value, json};

use super::super::{HfTokenizer, Tokenizer as _, load, load_from_model, prepared_config};
use super::*;
use crate::testing::{self, write_all};

/// Writes a folder with a `vocab.txt` and other files.
fn folder(words: &[&str], files: &[(&str, Value)]) -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a temporary folder");
    let vocab = testing::VOCAB.iter().chain(words).copied().collect::<Vec<_>>().join("\n");
    write_all(home.path(), &[("vocab.txt", vocab)]);
    for (name, content) in files {
        write_all(home.path(), &[(*name, content.to_string())]);
    }
    home
}

fn tokens(tokenizer: &HfTokenizer, text: &str) -> Vec<String> {
    let ids = tokenizer.ids(text).expect("ids");
    ids.iter().map(|&id| tokenizer.facts().tokens[id as usize].clone()).collect()
}

fn refused(path: &Path) -> String {
    load_from_model(path).expect_err("refused").to_string()
}

#[test]
fn settings_of_a_vocabulary_change_the_ids_as_in_transformers() {
    let words = ["möchte", "mochte", "中文"];
    let config = |config: Value| folder(&words, &[("tokenizer_config.json", config)]);
    for (settings, expected) in [
        (json!({}), ["mochte", "中", "文"].as_slice()),
        (json!({"strip_accents": false}), &["möchte", "中", "文"]),
        (json!({"do_lower_case": false, "strip_accents": true}), &["[UNK]", "中", "文"]),
        (json!({"tokenize_chinese_chars": false}), &["mochte", "中文"]),
        (json!({"strip_accents": null, "tokenize_chinese_chars": null}), &["mochte", "中", "文"]),
    ] {
        let tokenizer = load_from_model(config(settings.clone()).path()).expect("a tokenizer");
        assert_eq!(tokens(&tokenizer, "Möchte 中文"), expected, "{settings}");
    }
    let cased = config(json!({"do_lower_case": false}));
    assert!(!load(cased.path(), None).expect("the settings say it").facts().manifest.lowercase);
    let error = load(&cased.path().join("vocab.txt"), Some(true)).expect_err("a contradiction").to_string();
    assert!(error.contains("`do_lower_case`") && error.contains("drop `prepare.lowercase`"), "{error}");
}

#[test]
fn tokens_added_to_a_vocabulary_are_one_token_each() {
    let size = testing::VOCAB.len();
    let added = json!({"covid": size, "mrna": size + 1, "[DRUG]": size + 2});
    let special = json!({"additional_special_tokens": ["[DRUG]"], "mask_token": "[MASK]"});
    let files = [("added_tokens.json", added), ("special_tokens_map.json", special)];
    let of_file = load(folder(&[], &files).path(), Some(true)).expect("a tokenizer");
    let decoder = json!({"added_tokens_decoder": {
        (size.to_string()): {"content": "covid", "special": false, "normalized": true},
        ((size + 1).to_string()): {"content": "mrna", "special": false, "normalized": true},
        ((size + 2).to_string()): {"content": "[DRUG]", "special": true, "normalized": false},
    }});
    let of_decoder = load(folder(&[], &[("tokenizer_config.json", decoder)]).path(), Some(true)).expect("a tokenizer");
    for tokenizer in [of_file, of_decoder] {
        let found = tokens(&tokenizer, "the COVID [DRUG] [drug] mrna");
        assert_eq!(found[..3], ["the", "covid", "[DRUG]"]);
        assert_eq!(found.last().map(String::as_str), Some("mrna"), "{found:?}");
        assert_eq!(found.iter().filter(|token| *token == "[DRUG]").count(), 1, "special tokens have their case");
        let facts = tokenizer.facts();
        assert_eq!(facts.tokens.len(), size + 3);
        assert!(facts.manifest.specials.contains(&u32::try_from(size + 2).expect("small")));
        assert!(!facts.manifest.specials.contains(&u32::try_from(size).expect("small")));
    }
}

#[test]
fn tokenizers_with_other_rules_are_refused_by_name_with_a_way_out() {
    for (config, words) in [
        (json!({"tokenizer_class": "BertJapaneseTokenizer"}), "`tokenizer_class` is `BertJapaneseTokenizer`"),
        (json!({"word_tokenizer_type": "mecab"}), "`word_tokenizer_type`"),
        (json!({"auto_map": {"AutoTokenizer": ["a.B", null]}}), "`auto_map`"),
        (json!({"do_basic_tokenize": false}), "`do_basic_tokenize`"),
        (json!({"never_split": ["covid"]}), "`never_split`"),
        (json!({"wordpieces_prefix": "@@"}), "`wordpieces_prefix`"),
        (json!({"unk_token": "<unk>"}), "`unk_token`"),
    ] {
        let home = folder(&[], &[("tokenizer_config.json", config)]);
        let error = refused(home.path());
        assert!(error.contains(words) && error.contains("tokenizer_config.json"), "{error}");
        assert!(error.contains("save_pretrained"), "{error}");
    }
    let model = folder(&[], &[("config.json", json!({"tokenizer_class": "PhobertTokenizer"}))]);
    assert!(refused(model.path()).contains("`PhobertTokenizer`"));
    let model = folder(&[], &[("config.json", json!({"model_type": "mpnet"}))]);
    assert!(refused(model.path()).contains("`model_type` of `config.json` is `mpnet`"));
    for (file, content, words) in [
        ("tokenizer_config.json", json!({"strip_accents": "no"}), "neither true nor false"),
        ("tokenizer_config.json", json!({"split_special_tokens": true}), "`split_special_tokens`"),
        ("tokenizer_config.json", json!({"pad_token": "the"}), "`pad_token` is `the`"),
        ("special_tokens_map.json", json!({"mask_token": {"content": "the"}}), "`mask_token` is `the`"),
        ("special_tokens_map.json", json!({"additional_special_tokens": ["[X]"]}), "`[X]` is a special token"),
        ("added_tokens.json", json!({"covid": 99}), "`covid` has 99"),
        ("added_tokens.json", json!({"the": 99}), "`the` has the id 99"),
        ("added_tokens.json", json!([]), "not an object in JSON"),
    ] {
        let error = refused(folder(&[], &[(file, content)]).path());
        assert!(error.contains(words) && error.contains(file), "{error}");
    }
}

#[test]
fn settings_that_do_not_change_ids_are_accepted() {
    let config = json!({
        "tokenizer_class": "BertTokenizer", "model_max_length": 512, "padding_side": "left", "never_split": null,
        "do_basic_tokenize": true, "wordpieces_prefix": "##", "clean_up_tokenization_spaces": true, "do_lower_case": true,
        "unk_token": "[UNK]", "pad_token": {"content": "[PAD]"}, "added_tokens_decoder": {
            "0": {"content": "[PAD]", "lstrip": false, "normalized": false, "rstrip": false, "single_word": false,
                  "special": true},
        },
    });
    let home = folder(&[], &[("tokenizer_config.json", config), ("config.json", json!({"model_type": "bert"}))]);
    let found = load_from_model(home.path()).expect("a tokenizer");
    assert_eq!(found.facts().manifest, testing::tokenizer("wordpiece").facts().manifest);
}

#[test]
fn a_tokenizer_file_is_refused_if_the_settings_next_to_it_contradict_it() {
    let tokenizer = |name: &str, files: &[(&str, Value)]| {
        let home = tempfile::tempdir().expect("a temporary folder");
        write_all(home.path(), &[("tokenizer.json", &testing::tokenizer(name).facts().json)]);
        for (file, content) in files {
            write_all(home.path(), &[(*file, content.to_string())]);
        }
        home
    };
    let size = testing::VOCAB.len();
    for (name, file, content, words) in [
        (
            "wordpiece",
            "tokenizer_config.json",
            json!({"tokenizer_class": "BertTokenizer", "do_lower_case": false}),
            "`do_lower_case` is false",
        ),
        (
            "wordpiece",
            "tokenizer_config.json",
            json!({"tokenizer_class": "ElectraTokenizerFast", "strip_accents": false}),
            "`strip_accents` is false",
        ),
        (
            "byte_bpe",
            "tokenizer_config.json",
            json!({"tokenizer_class": "RobertaTokenizer", "add_prefix_space": true}),
            "`add_prefix_space` is true",
        ),
        ("wordpiece", "added_tokens.json", json!({"covid": size}), "`covid` has the id"),
        ("wordpiece", "special_tokens_map.json", json!({"additional_special_tokens": ["the"]}), "`the` is a special"),
        ("wordpiece", "tokenizer_config.json", json!({"cls_token": "the"}), "`cls_token` is `the`"),
    ] {
        let home = tokenizer(name, &[(file, content)]);
        let error = refused(home.path());
        assert!(error.contains(words) && error.contains(file), "{error}");
        // The hint of the error.
        std::fs::remove_file(home.path().join(file)).expect("there");
        load_from_model(home.path()).expect("accepted without the settings");
    }
    let own = testing::tokenizer("wordpiece");
    let config = prepared_config(own.facts(), 64).parse().expect("JSON");
    let home = tokenizer("wordpiece", &[("tokenizer_config.json", config)]);
    load_from_model(home.path()).expect("what `cloze` writes");
}

#[test]
fn settings_of_byte_pairs_change_the_ids_as_in_transformers() {
    let facts = testing::tokenizer("byte_bpe");
    let json: Value = serde_json::from_slice(&facts.facts().json).expect("JSON");
    let home = tempfile::tempdir().expect("a temporary folder");
    let pair = |pair: &Value| match pair {
        Value::String(pair) => pair.clone(),
        pair => pair.as_array().expect("a pair").iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
    };
    let merges: Vec<String> = json["model"]["merges"].as_array().expect("merges").iter().map(pair).collect();
    write_all(home.path(), &[("vocab.json", json["model"]["vocab"].to_string()), ("merges.txt", merges.join("\n"))]);
    let plain = load_from_model(home.path()).expect("a tokenizer");
    write_all(home.path(), &[("tokenizer_config.json", r#"{"add_prefix_space": true}"#)]);
    let spaced = load_from_model(home.path()).expect("a tokenizer");
    assert_ne!(tokens(&plain, "the the"), tokens(&spaced, "the the"));
    assert_eq!(tokens(&plain, " the the"), tokens(&spaced, "the the"));
    write_all(home.path(), &[("tokenizer_config.json", r#"{"tokenizer_class": "HerbertTokenizer"}"#)]);
    assert!(refused(home.path()).contains("`HerbertTokenizer`"));
}

#[test]
fn special_tokens_are_those_that_a_vocabulary_with_both_spellings_uses() {
    // The vocabulary of MPNet: that of BERT between RoBERTa's special tokens.
    let mut json: Value = serde_json::from_slice(&testing::tokenizer("wordpiece").facts().json).expect("JSON");
    let size = testing::VOCAB.len();
    let names = ["<s>", "<pad>", "</s>", "<mask>"];
    for (id, name) in (size..).zip(names) {
        json["model"]["vocab"][name] = id.into();
    }
    json["added_tokens"] = (size..).zip(names).map(|(id, name)| entry(id as u64, name, true)).collect();
    json["post_processor"] = Value::Null;
    let tokenizer = super::super::of_json(json.to_string().as_bytes(), "tokenizer.json").expect("a tokenizer");
    let facts = tokenizer.facts();
    let special = facts.special();
    let found = [special.cls, special.pad, special.sep, special.mask].map(|id| facts.tokens[id as usize].as_str());
    assert_eq!(found, names);
}
