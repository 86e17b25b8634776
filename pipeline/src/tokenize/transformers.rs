//! Files with which `transformers` reads a tokenizer as the rows of `cloze` are made: `tokenizer_config.json`, and a
//! `tokenizer.json` that frames texts and pairs like the rows.

use schemas::manifest::TokenizerInfo;
use serde::Deserialize;
use serde_json::{Value, json};

use super::facts::{Facts, is_byte_level};
use crate::{Error, Result};

/// File that `AutoTokenizer` requires in addition to `tokenizer.json`.
pub const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

/// Special tokens around texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Separators between two texts.
    pub separators: usize,
    /// Whether the second text is a second segment.
    pub has_segments: bool,
}

impl Framing {
    /// Framing of BERT: one separator, two segments.
    pub const BERT: Self = Self { separators: 1, has_segments: true };
    /// Framing of RoBERTa: two separators, one segment.
    pub const ROBERTA: Self = Self { separators: 2, has_segments: false };

    /// Returns the framing that a vocabulary is known for, by the text of its first special token.
    #[must_use]
    pub fn usual(cls: &str) -> Self {
        if cls == "<s>" { Self::ROBERTA } else { Self::BERT }
    }
}

/// Returns the content of [`TOKENIZER_CONFIG`] for a `tokenizer.json` with the content `json`; `token` is the text of an id.
///
/// Versions 4 and 5 of `transformers` have different defaults for the inputs of a model, so they are written. Version 4
/// changes `add_prefix_space` of the tokenizer to false if it is not.
pub fn tokenizer_config<'a>(
    info: &TokenizerInfo,
    json: &[u8],
    token: impl Fn(u32) -> &'a str,
    max_length: u32,
    reads_token_types: bool,
) -> String {
    let special = info.special;
    let inputs: &[&str] = if reads_token_types {
        &["input_ids", "token_type_ids", "attention_mask"]
    } else {
        &["input_ids", "attention_mask"]
    };
    let mut config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": inputs,
        "model_max_length": max_length,
        "do_lower_case": info.lowercase,
        "pad_token": token(special.pad),
        "cls_token": token(special.cls),
        "sep_token": token(special.sep),
        "mask_token": token(special.mask),
    });
    if let Some(unk) = special.unk {
        config["unk_token"] = token(unk).into();
    }
    if let Some(adds) = serde_json::from_slice(json).ok().and_then(|steps: Steps| steps.pre_tokenizer?.add_prefix_space)
    {
        config["add_prefix_space"] = adds.into();
    }
    format!("{config:#}\n")
}

/// Returns [`TOKENIZER_CONFIG`] of a prepared folder, with which `transformers` knows its special tokens.
pub(crate) fn prepared_config(facts: &Facts, max_seq_len: u32) -> String {
    let token = |id: u32| facts.tokens[id as usize].as_str();
    let framing = Framing::usual(token(facts.special().cls));
    tokenizer_config(&facts.manifest, &facts.json, token, max_seq_len, framing.has_segments)
}

/// Steps of a `tokenizer.json`.
#[derive(Deserialize)]
struct Steps {
    pre_tokenizer: Option<PreTokenizer>,
}

#[derive(Deserialize)]
struct PreTokenizer {
    add_prefix_space: Option<bool>,
}

/// Returns a `tokenizer.json` that frames texts and pairs in this way: the same bytes if it already does.
///
/// # Errors
/// If the bytes are no tokenizer.
pub fn with_framing(bytes: Vec<u8>, info: &TokenizerInfo, framing: Framing) -> Result<Vec<u8>> {
    let refuse =
        |error: &dyn std::fmt::Display| Error::Tokenizer { path: "tokenizer.json".into(), message: error.to_string() };
    let mut model = tokenizers::Tokenizer::from_bytes(&bytes).map_err(|error| refuse(&error))?;
    model.with_padding(None);
    model.with_truncation(None).map_err(|error| refuse(&error))?;
    let [cls, sep] = [info.special.cls, info.special.sep];
    let segment = u32::from(framing.has_segments);
    let single = Frame { ids: vec![cls, sep], segments: vec![0, 0] };
    let mut pair = single.clone();
    pair.ids.extend(vec![sep; framing.separators]);
    pair.segments.extend(vec![0; framing.separators - 1]);
    pair.segments.push(segment);
    let is_framed =
        Frame::of(model.encode("", true)) == Some(single) && Frame::of(model.encode(("", ""), true)) == Some(pair);
    if is_framed {
        return Ok(bytes);
    }
    let token = |id: u32| model.id_to_token(id).expect("a special token is in the vocabulary");
    let mut json: Value = serde_json::from_slice(&bytes).map_err(|error| refuse(&error))?;
    let frame = template([(cls, token(cls)), (sep, token(sep))], framing);
    // Offsets of byte-level tokens begin after their blank.
    let is_trimmed = is_byte_level(&json["pre_tokenizer"]);
    json["post_processor"] = if is_trimmed {
        let trim = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
        json!({"type": "Sequence", "processors": [trim, frame]})
    } else {
        frame
    };
    serde_json::to_vec_pretty(&json).map_err(|error| refuse(&error))
}

/// Special tokens that a tokenizer puts around empty texts.
#[derive(Clone, PartialEq)]
struct Frame {
    ids: Vec<u32>,
    segments: Vec<u32>,
}

impl Frame {
    fn of(encoding: tokenizers::Result<tokenizers::Encoding>) -> Option<Self> {
        let encoding = encoding.ok()?;
        Some(Self { ids: encoding.get_ids().to_vec(), segments: encoding.get_type_ids().to_vec() })
    }
}

/// Returns the post-processor of a framing.
fn template([(cls_id, cls), (sep_id, sep)]: [(u32, String); 2], framing: Framing) -> Value {
    let special = |token: &str, segment: u32| json!({"SpecialToken": {"id": token, "type_id": segment}});
    let text = |name: &str, segment: u32| json!({"Sequence": {"id": name, "type_id": segment}});
    let segment = u32::from(framing.has_segments);
    let single = [special(&cls, 0), text("A", 0), special(&sep, 0)];
    let mut pair = single.to_vec();
    pair.extend(vec![special(&sep, 0); framing.separators - 1]);
    pair.extend([text("B", segment), special(&sep, segment)]);
    json!({
        "type": "TemplateProcessing",
        "single": single,
        "pair": pair,
        "special_tokens": {
            &cls: {"id": cls, "ids": [cls_id], "tokens": [cls]},
            &sep: {"id": sep, "ids": [sep_id], "tokens": [sep]},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::Tokenizer as _;
    use super::*;
    use crate::testing;

    #[test]
    fn the_blank_before_a_text_is_said_twice() {
        for (name, expected) in [("wordpiece", Value::Null), ("byte_bpe", json!(false))] {
            let tokenizer = testing::tokenizer(name);
            let config: Value = prepared_config(tokenizer.facts(), 64).parse().expect("JSON");
            assert_eq!(config["add_prefix_space"], expected);
            assert_eq!(config["model_max_length"], 64);
        }
    }

    #[test]
    fn pairs_are_framed_like_rows_whatever_the_post_processor_was() {
        for name in testing::TOKENIZERS {
            let tokenizer = testing::tokenizer(name);
            let facts = tokenizer.facts();
            let special = facts.special();
            let usual = Framing::usual(&facts.tokens[special.cls as usize]);
            let kept = with_framing(facts.json.clone(), &facts.manifest, usual).expect("a tokenizer");
            assert!(kept == facts.json, "{name}: nothing to change");
            for removed in ["null", r#"{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true}"#] {
                let mut json: Value = serde_json::from_slice(&facts.json).expect("JSON");
                json["post_processor"] = serde_json::from_str(removed).expect("JSON");
                for framing in [Framing::BERT, Framing::ROBERTA] {
                    let bytes = with_framing(json.to_string().into_bytes(), &facts.manifest, framing);
                    let model = tokenizers::Tokenizer::from_bytes(bytes.expect("a tokenizer")).expect("readable");
                    let pair = model.encode(("the cat", "the"), true).expect("a pair");
                    let texts = ["the cat", "the"].map(|text| model.encode(text, false).expect("a text"));
                    let [a, b] = texts.each_ref().map(tokenizers::Encoding::get_ids);
                    let between = vec![special.sep; framing.separators];
                    let ids = [&[special.cls], a, &between, b, &[special.sep]].concat();
                    assert_eq!(pair.get_ids(), ids, "{name} {framing:?}");
                    let second = if framing.has_segments { b.len() + 1 } else { 0 };
                    let segments: Vec<u32> = (0..ids.len()).map(|at| u32::from(at + second >= ids.len())).collect();
                    assert_eq!(pair.get_type_ids(), segments, "{name} {framing:?}");
                }
            }
        }
    }
}
