//! `config.json` of a BERT.

use serde::{Deserialize, Serialize};

use crate::parameters::INITIAL_DEVIATION;
use crate::plan::{EncoderConfig, Gelu, VocabFacts};

/// The keys that matter; defaults are those of `BertConfig` in `transformers`.
#[derive(Serialize, Deserialize)]
pub(super) struct BertConfig {
    #[serde(default)]
    architectures: Vec<String>,
    model_type: String,
    vocab_size: u32,
    hidden_size: u32,
    num_hidden_layers: u32,
    num_attention_heads: u32,
    intermediate_size: u32,
    #[serde(default = "gelu")]
    hidden_act: String,
    #[serde(default = "tenth")]
    hidden_dropout_prob: f64,
    #[serde(default = "tenth")]
    attention_probs_dropout_prob: f64,
    max_position_embeddings: u32,
    #[serde(default = "two")]
    type_vocab_size: u32,
    #[serde(default)]
    initializer_range: f64,
    #[serde(default = "norm_eps")]
    layer_norm_eps: f64,
    #[serde(default)]
    pad_token_id: Option<u32>,
    #[serde(default = "absolute")]
    position_embedding_type: String,
    #[serde(default = "yes")]
    tie_word_embeddings: bool,
    #[serde(default)]
    is_decoder: bool,
    #[serde(default)]
    torch_dtype: Option<String>,
}

fn gelu() -> String {
    "gelu".to_owned()
}

fn absolute() -> String {
    "absolute".to_owned()
}

fn tenth() -> f64 {
    0.1
}

fn norm_eps() -> f64 {
    1e-12
}

fn two() -> u32 {
    2
}

fn yes() -> bool {
    true
}

impl BertConfig {
    pub(super) fn of(encoder: &EncoderConfig, vocab: &VocabFacts) -> Self {
        let hidden_act = match encoder.gelu {
            Gelu::Erf => "gelu",
            Gelu::Tanh => "gelu_new",
        };
        Self {
            architectures: vec!["BertForMaskedLM".to_owned()],
            model_type: "bert".to_owned(),
            vocab_size: vocab.size,
            hidden_size: encoder.hidden,
            num_hidden_layers: encoder.layers,
            num_attention_heads: encoder.heads,
            intermediate_size: encoder.feed_forward,
            hidden_act: hidden_act.to_owned(),
            hidden_dropout_prob: encoder.dropout,
            attention_probs_dropout_prob: encoder.dropout,
            max_position_embeddings: encoder.positions,
            type_vocab_size: two(),
            initializer_range: INITIAL_DEVIATION,
            layer_norm_eps: encoder.layer_norm_eps,
            pad_token_id: Some(vocab.special.pad),
            position_embedding_type: absolute(),
            tie_word_embeddings: true,
            is_decoder: false,
            torch_dtype: Some("float32".to_owned()),
        }
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec_pretty(self).expect("a config has string keys and finite numbers");
        json.push(b'\n');
        json
    }

    /// Parses the file of a model that this project's encoder can be.
    pub(super) fn parse(json: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Kind {
            #[serde(default)]
            model_type: String,
        }
        let syntax = |error: serde_json::Error| format!("`config.json`: {error}");
        let kind: Kind = serde_json::from_slice(json).map_err(syntax)?;
        if kind.model_type != "bert" {
            return Err(format!("it is a `{}` model; `bert` models can be read", kind.model_type));
        }
        let config: Self = serde_json::from_slice(json).map_err(syntax)?;
        let rules = [
            (config.position_embedding_type == "absolute", "its positions are relative"),
            (config.tie_word_embeddings, "its decoder is not tied to its word table"),
            (!config.is_decoder, "it is a decoder"),
            (config.type_vocab_size == 2, "it does not have two token types"),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, problem)) => Err(format!("{problem}; only the original form of BERT can be read")),
            None => Ok(config),
        }
    }

    /// How a run must change to start from this model, one sentence for each key.
    pub(super) fn differences(&self, encoder: &EncoderConfig, vocab: &VocabFacts) -> Vec<String> {
        let gelu = match self.hidden_act.as_str() {
            "gelu" => Some(Gelu::Erf),
            "gelu_new" | "gelu_pytorch_tanh" => Some(Gelu::Tanh),
            _ => None,
        };
        let sizes = [
            ("layers", self.num_hidden_layers, encoder.layers),
            ("hidden", self.hidden_size, encoder.hidden),
            ("heads", self.num_attention_heads, encoder.heads),
            ("feed_forward", self.intermediate_size, encoder.feed_forward),
            ("positions", self.max_position_embeddings, encoder.positions),
        ];
        let differs = sizes.into_iter().filter(|(_, theirs, ours)| theirs != ours);
        let mut differences: Vec<String> =
            differs.map(|(key, theirs, ours)| format!("`encoder.{key}` is {ours}, the model has {theirs}")).collect();
        if gelu != Some(encoder.gelu) {
            differences.push(match gelu {
                Some(Gelu::Erf) => "`encoder.gelu` is `tanh`, the model has `erf`".to_owned(),
                Some(Gelu::Tanh) => "`encoder.gelu` is `erf`, the model has `tanh`".to_owned(),
                None => format!("the model's activation is `{}`, an encoder here has a gelu", self.hidden_act),
            });
        }
        // Written and read as decimal text: equal or meant to be different.
        if (self.layer_norm_eps - encoder.layer_norm_eps).abs() > 1e-6 * encoder.layer_norm_eps {
            let (ours, theirs) = (encoder.layer_norm_eps, self.layer_norm_eps);
            differences.push(format!("`encoder.layer_norm_eps` is {ours:e}, the model has {theirs:e}"));
        }
        if self.vocab_size != vocab.size {
            differences.push(format!(
                "the data has a vocabulary of {} ids, the model of {}: prepare the corpus with the tokenizer of that \
                 folder",
                vocab.size, self.vocab_size
            ));
        }
        differences
    }
}
