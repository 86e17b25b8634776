//! Ids of a tokenizer for an architecture that requires another padding id.
//!
//! The padding token and the token with the required id change places in every file of the export. The weights change
//! places with them (`trainer::hf`).

use anyhow::Context as _;
use serde_json::{Map, Value, json};
use trainer_plan::hf::exchanged;

/// Exchange of the padding id. If both ids are equal, nothing changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct SwappedIds {
    /// Padding id of the run.
    pub(super) pad: u32,
    /// Padding id of the exported model.
    pub(super) exported: u32,
}

impl SwappedIds {
    /// Returns the id of the exported model for an id of the run, and the reverse.
    pub(super) fn exchange(self, id: u32) -> u32 {
        exchanged(id, (self.pad, self.exported))
    }

    /// Returns a `tokenizer.json` with exchanged ids.
    pub(super) fn in_tokenizer(self, tokenizer: Vec<u8>) -> anyhow::Result<Vec<u8>> {
        if self.pad == self.exported {
            return Ok(tokenizer);
        }
        let mut json: Value = serde_json::from_slice(&tokenizer).context("`tokenizer.json`")?;
        adopt_added_tokens(&mut json);
        match json.pointer_mut("/model/vocab") {
            Some(Value::Object(ids)) => ids.values_mut().for_each(|id| self.exchange_in(id)),
            Some(Value::Array(tokens)) => {
                let [pad, exported] = [self.pad, self.exported].map(|id| id as usize);
                if pad.max(exported) < tokens.len() {
                    tokens.swap(pad, exported);
                }
            }
            _ => {}
        }
        for pointer in ["/model/unk_id", "/padding/pad_id"] {
            json.pointer_mut(pointer).into_iter().for_each(|id| self.exchange_in(id));
        }
        if let Some(tokens) = json.pointer_mut("/added_tokens").and_then(Value::as_array_mut) {
            for token in tokens.iter_mut() {
                token.get_mut("id").into_iter().for_each(|id| self.exchange_in(id));
            }
            // The order of the file is that of the ids.
            tokens.sort_by_key(|token| token["id"].as_u64());
        }
        json.get_mut("post_processor").into_iter().for_each(|processor| self.in_post_processor(processor));
        Ok(serde_json::to_vec_pretty(&json)?)
    }

    /// Exchanges the ids of the tokens that frame a text.
    fn in_post_processor(self, processor: &mut Value) {
        for inner in processor.get_mut("processors").and_then(Value::as_array_mut).into_iter().flatten() {
            self.in_post_processor(inner);
        }
        for frame in ["cls", "sep"] {
            // A pair of text and id.
            if let Some(id) = processor.get_mut(frame).and_then(|pair| pair.get_mut(1)) {
                self.exchange_in(id);
            }
        }
        let tokens = processor.get_mut("special_tokens").and_then(Value::as_object_mut);
        for token in tokens.into_iter().flat_map(Map::values_mut) {
            for id in token.get_mut("ids").and_then(Value::as_array_mut).into_iter().flatten() {
                self.exchange_in(id);
            }
        }
    }

    fn exchange_in(self, id: &mut Value) {
        if let Some(number) = id.as_u64().and_then(|id| u32::try_from(id).ok()) {
            *id = self.exchange(number).into();
        }
    }
}

/// Adds the tokens after the end of the model's vocabulary to it. Readers number such tokens themselves, in their order.
fn adopt_added_tokens(json: &mut Value) {
    let added = json.get("added_tokens").and_then(Value::as_array).cloned().unwrap_or_default();
    let tokens = added.iter().filter_map(|token| Some((token["id"].as_u64()?, token["content"].as_str()?)));
    let mut tokens: Vec<(u64, &str)> = tokens.collect();
    tokens.sort_unstable();
    for (id, content) in tokens {
        match json.pointer_mut("/model/vocab") {
            Some(Value::Object(ids)) if ids.len() as u64 == id => {
                ids.insert(content.to_owned(), id.into());
            }
            Some(Value::Array(tokens)) if tokens.len() as u64 == id => tokens.push(json!([content, 0.0])),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWAPPED: SwappedIds = SwappedIds { pad: 0, exported: 1 };

    #[test]
    fn every_id_of_a_tokenizer_is_exchanged() {
        let tokenizer = json!({
            "version": "1.0",
            "padding": { "pad_id": 0, "pad_token": "[PAD]" },
            "added_tokens": [{ "id": 0, "content": "[PAD]" }, { "id": 1, "content": "[UNK]" }],
            "post_processor": { "type": "Sequence", "processors": [
                { "type": "BertProcessing", "sep": ["[SEP]", 1], "cls": ["[CLS]", 2] },
                { "type": "TemplateProcessing", "special_tokens": { "[UNK]": { "id": "[UNK]", "ids": [1] } } },
            ]},
            "model": { "type": "WordPiece", "vocab": { "[PAD]": 0, "[UNK]": 1, "[CLS]": 2 } },
        });
        let bytes = SWAPPED.in_tokenizer(serde_json::to_vec(&tokenizer).expect("JSON")).expect("a tokenizer");
        let found: Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(found["padding"]["pad_id"], 1);
        assert_eq!(found["added_tokens"][0], json!({ "id": 0, "content": "[UNK]" }));
        assert_eq!(found["added_tokens"][1], json!({ "id": 1, "content": "[PAD]" }));
        let processors = &found["post_processor"]["processors"];
        assert_eq!((&processors[0]["sep"][1], &processors[0]["cls"][1]), (&json!(0), &json!(2)));
        assert_eq!(processors[1]["special_tokens"]["[UNK]"]["ids"], json!([0]));
        assert_eq!(found["model"]["vocab"], json!({ "[PAD]": 1, "[UNK]": 0, "[CLS]": 2 }));
    }

    #[test]
    fn a_padding_token_after_the_vocabulary_joins_it() {
        let swapped = SwappedIds { pad: 3, exported: 1 };
        let tokenizer = json!({
            "added_tokens": [{ "id": 2, "content": "[CLS]" }, { "id": 3, "content": "[PAD]" }],
            "model": { "type": "Unigram", "unk_id": 1, "vocab": [["a", -1.0], ["<unk>", 0.0]] },
        });
        let bytes = swapped.in_tokenizer(serde_json::to_vec(&tokenizer).expect("JSON")).expect("a tokenizer");
        let found: Value = serde_json::from_slice(&bytes).expect("JSON");
        let tokens = json!([["a", -1.0], ["[PAD]", 0.0], ["[CLS]", 0.0], ["<unk>", 0.0]]);
        assert_eq!((&found["model"]["vocab"], &found["model"]["unk_id"]), (&tokens, &json!(3)));
        assert!(found["padding"].is_null() && found["post_processor"].is_null(), "{found}");
    }

    #[test]
    fn an_equal_padding_id_changes_no_byte() {
        let same = SwappedIds { pad: 1, exported: 1 };
        assert_eq!(same.in_tokenizer(b"not JSON".to_vec()).expect("unread"), b"not JSON");
    }
}
