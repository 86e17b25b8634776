//! Generation of `tokenizer.json` files from vocabularies, for the two families of BERT-style models.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{Error, Result};

/// Returns the bytes that the crate itself would save, so that equal tokenizers are equal files.
pub(crate) fn render(json: &Value, refuse: impl Fn(String) -> Error) -> Result<Vec<u8>> {
    let model = tokenizers::Tokenizer::from_bytes(json.to_string()).map_err(|error| refuse(error.to_string()))?;
    model.to_string(true).map(String::into_bytes).map_err(|error| refuse(error.to_string()))
}

/// Returns an added token in the format of `tokenizer.json`.
fn added(id: u64, content: &str, lstrip: bool) -> Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": lstrip, "rstrip": false,
           "normalized": false, "special": true})
}

/// Returns BERT's tokenizer for a vocabulary: Devlin et al. 2019; `BasicTokenizer` and `WordpieceTokenizer` of its
/// code.
pub(crate) fn word_piece_json(vocab: &BTreeMap<String, u64>, lowercase: bool) -> Value {
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

pub(crate) fn word_piece(text: &str, lowercase: bool) -> Value {
    let vocab = text.lines().map(|line| line.trim_end().to_owned()).zip(0..).collect();
    word_piece_json(&vocab, lowercase)
}

/// Returns a byte-level BPE tokenizer of GPT-2 with those of RoBERTa's special tokens that the vocabulary has.
pub(crate) fn byte_level_json(vocab: &BTreeMap<String, u64>, merges: &[Value]) -> Value {
    let named = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"];
    let mut specials: Vec<_> = named.iter().filter_map(|&name| Some((*vocab.get(name)?, name))).collect();
    specials.sort_unstable();
    let template = |name: &str| vocab.get(name).map(|&id| json!([name, id]));
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        // RoBERTa's `<mask>` includes the space before it, as a word would.
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

pub(crate) fn byte_level(vocab: &str, merges: &str) -> Result<Value, String> {
    let vocab: BTreeMap<String, u64> =
        serde_json::from_str(vocab).map_err(|error| format!("not a map of tokens to ids: {error}"))?;
    let lines = merges.lines().filter(|line| !line.starts_with("#version") && !line.is_empty());
    let pair = |line: &str| line.split_once(' ').map(|(left, right)| json!([left, right]));
    let merges: Option<Vec<Value>> = lines.map(pair).collect();
    Ok(byte_level_json(&vocab, &merges.ok_or("its `merges.txt` has a line that is not a pair")?))
}
