//! `config.json` of a model.

use serde::{Deserialize, Serialize};

use super::architecture::HeadRole;
use super::layout::Layout;
use super::target::Target;
use crate::config::ModelFamily;
use crate::encoder::{EncoderConfig, Gelu, VocabFacts};
use crate::weights::INITIAL_DEVIATION;

/// The keys that matter; defaults are those of `transformers`.
#[derive(Serialize, Deserialize)]
pub struct ModelConfig {
    #[serde(default)]
    architectures: Vec<String>,
    model_type: String,
    vocab_size: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    embedding_size: Option<u32>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bos_token_id: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    eos_token_id: Option<u32>,
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

impl ModelConfig {
    /// The config of a model that is written.
    pub fn of(layout: &Layout<'_>, class: &str, vocab: &VocabFacts) -> Self {
        let (architecture, encoder, special) = (layout.architecture, layout.encoder, vocab.special);
        let hidden_act = match encoder.gelu {
            Gelu::Erf => "gelu",
            Gelu::Tanh => "gelu_new",
        };
        // RoBERTa's defaults are the ids of its own vocabulary.
        let framed = architecture == ModelFamily::Roberta;
        let has_width = architecture == ModelFamily::Electra;
        Self {
            architectures: vec![class.to_owned()],
            model_type: architecture.model_types()[0].to_owned(),
            vocab_size: vocab.size,
            embedding_size: has_width.then(|| encoder.embedding.unwrap_or(encoder.hidden)),
            hidden_size: encoder.hidden,
            num_hidden_layers: encoder.layers,
            num_attention_heads: encoder.heads,
            intermediate_size: encoder.feed_forward,
            hidden_act: hidden_act.to_owned(),
            hidden_dropout_prob: encoder.dropout,
            attention_probs_dropout_prob: encoder.dropout,
            max_position_embeddings: encoder.max_positions + layout.first_position,
            type_vocab_size: layout.token_types,
            initializer_range: INITIAL_DEVIATION,
            layer_norm_eps: encoder.layer_norm_eps,
            pad_token_id: Some(special.pad),
            bos_token_id: framed.then_some(special.cls),
            eos_token_id: framed.then_some(special.sep),
            position_embedding_type: absolute(),
            tie_word_embeddings: true,
            is_decoder: false,
            torch_dtype: Some("float32".to_owned()),
        }
    }

    /// The text of `config.json`.
    pub fn to_json(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec_pretty(self).expect("a config has string keys and finite numbers");
        json.push(b'\n');
        json
    }

    /// Parses the file of a model that this project's encoder can be.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Kind {
            #[serde(default)]
            model_type: String,
        }
        let syntax = |error: serde_json::Error| format!("`config.json`: {error}");
        let kind: Kind = serde_json::from_slice(json).map_err(syntax)?;
        ModelFamily::of(&kind.model_type)?;
        let config: Self = serde_json::from_slice(json).map_err(syntax)?;
        let rules = [
            (config.position_embedding_type == "absolute", "its positions are relative"),
            (config.tie_word_embeddings, "its decoder is not tied to its word table"),
            (!config.is_decoder, "it is a decoder"),
            ((1..=2).contains(&config.type_vocab_size), "it does not have one or two token types"),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, problem)) => Err(format!("{problem}; only the original form of the architecture can be read")),
            None => Ok(config),
        }
    }

    /// The architecture that `model_type` names.
    pub fn architecture(&self) -> ModelFamily {
        ModelFamily::of(&self.model_type).expect("parsed")
    }

    /// Where the positions of rows begin.
    pub fn first_position(&self) -> u32 {
        const PAD: u32 = 1;
        self.architecture().first_position(self.pad_token_id.unwrap_or(PAD))
    }

    /// Segments that the model knows.
    pub fn token_types(&self) -> u32 {
        self.type_vocab_size
    }

    /// The class that was saved, if the file says so.
    pub fn class(&self) -> Option<&str> {
        self.architectures.first().map(String::as_str)
    }

    fn embedding_width(&self) -> u32 {
        const ELECTRA: u32 = 128;
        match self.architecture() {
            ModelFamily::Electra => self.embedding_size.unwrap_or(ELECTRA),
            ModelFamily::Bert | ModelFamily::Roberta => self.hidden_size,
        }
    }

    /// How a run must change to start from this model, one sentence for each key.
    pub fn differences(&self, target: &Target<'_>) -> Vec<String> {
        let (encoder, vocab) = (&target.encoder, target.vocab);
        let mut differences = self.size_differences(&target.section, encoder);
        differences.extend(self.gelu_difference(encoder));
        // Written and read as decimal text: equal or meant to be different.
        if (self.layer_norm_eps - encoder.layer_norm_eps).abs() > 1e-6 * encoder.layer_norm_eps {
            let (ours, theirs) = (encoder.layer_norm_eps, self.layer_norm_eps);
            differences.push(format!("`encoder.layer_norm_eps` is {ours:e}, the model has {theirs:e}"));
        }
        if encoder.relative_positions.buckets().is_some() {
            differences.push("`encoder.relative_positions` is set, the model has none".to_owned());
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

    fn size_differences(&self, section: &str, encoder: &EncoderConfig) -> Vec<String> {
        let positions = self.max_position_embeddings.saturating_sub(self.first_position());
        let sizes = [
            (section, "layers", self.num_hidden_layers, encoder.layers),
            (section, "hidden", self.hidden_size, encoder.hidden),
            (section, "heads", self.num_attention_heads, encoder.heads),
            (section, "feed_forward", self.intermediate_size, encoder.feed_forward),
            ("encoder", "max_positions", positions, encoder.max_positions),
            ("encoder", "embedding", self.embedding_width(), encoder.embedding.unwrap_or(encoder.hidden)),
        ];
        let differs = sizes.into_iter().filter(|(_, _, theirs, ours)| theirs != ours);
        differs
            .map(|(section, key, theirs, ours)| format!("`{section}.{key}` is {ours}, the model has {theirs}"))
            .collect()
    }

    fn gelu_difference(&self, encoder: &EncoderConfig) -> Option<String> {
        let gelu = match self.hidden_act.as_str() {
            "gelu" => Some(Gelu::Erf),
            "gelu_new" | "gelu_pytorch_tanh" => Some(Gelu::Tanh),
            _ => None,
        };
        let difference = match gelu {
            Some(gelu) if gelu == encoder.gelu => return None,
            Some(Gelu::Erf) => "`encoder.gelu` is `tanh`, the model has `erf`".to_owned(),
            Some(Gelu::Tanh) => "`encoder.gelu` is `erf`, the model has `tanh`".to_owned(),
            None => format!("the model's activation is `{}`, an encoder here has a gelu", self.hidden_act),
        };
        Some(difference)
    }
}

/// Why a run of this shape cannot be written as that architecture, if it cannot.
pub(super) fn refusal(architecture: ModelFamily, form: HeadRole, encoder: &EncoderConfig) -> Option<&'static str> {
    let is_narrow = encoder.embedding_width() != i64::from(encoder.hidden);
    if encoder.relative_positions.buckets().is_some() {
        Some("no model of `transformers` has its relative positions")
    } else if is_narrow && architecture != ModelFamily::Electra {
        Some("its embedding tables are not as wide as its hidden states; export it as `electra`")
    } else if encoder.gelu == Gelu::Tanh && architecture.has_fixed_gelu(form) {
        Some("its head's gelu is `tanh`, that architecture's is always `erf`; export it as `bert`")
    } else {
        None
    }
}
