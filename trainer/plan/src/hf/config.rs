//! `config.json` of a `transformers` model.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::choice::ExportChoice;
use super::heads::{HeadPlace, HeadRole};
use super::layout::{Layout, exchanged};
use super::numbers::{CONFIG, number_problem};
use super::target::Target;
use crate::config::ModelFamily;
use crate::encoder::{EncoderConfig, Gelu, RelativeForm, RelativePositions, VocabFacts};
use crate::objectives::Activation;
use crate::objectives::replaced_token::DetectionForm;
use crate::relative_positions::Buckets;
use crate::weights::INITIAL_DEVIATION;

/// Python file with our own classes, written next to the weights of models that `transformers` has no class for.
pub const OWN_CODE: &str = "modeling_cloze.py";

/// Keys of `config.json` that this project uses. The defaults are those of `transformers`.
#[derive(Serialize, Deserialize)]
pub struct ModelConfig {
    #[serde(default)]
    architectures: Vec<String>,
    model_type: String,
    vocab_size: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    embedding_size: Option<u32>,
    pub(super) hidden_size: u32,
    pub(super) num_hidden_layers: u32,
    num_attention_heads: u32,
    intermediate_size: u32,
    #[serde(default = "gelu")]
    hidden_act: String,
    #[serde(default = "tenth")]
    hidden_dropout_prob: f64,
    #[serde(default = "tenth")]
    attention_probs_dropout_prob: f64,
    max_position_embeddings: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    type_vocab_size: Option<u32>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    relative_attention_kind: Option<RelativeForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    relative_attention_num_buckets: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    relative_attention_max_distance: Option<u16>,
    /// Whether our own class has a transform before the word table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lm_head_transform: Option<bool>,
    /// Detection head of our own class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detection_head: Option<DetectionForm>,
    /// Activation of the head for labelled rows of our own class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    classifier_activation: Option<Activation>,
    /// Names of the classes by their numbers.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    id2label: Option<BTreeMap<u32, String>>,
    /// Numbers of the classes by their names.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    label2id: Option<BTreeMap<String, u32>>,
    /// Loss of a head for labelled rows.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    problem_type: Option<&'static str>,
    /// Classes of our own code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    auto_map: Option<BTreeMap<String, String>>,
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

fn yes() -> bool {
    true
}

impl ModelConfig {
    /// Creates the configuration of an exported model.
    pub fn new(layout: &Layout<'_>, choice: &ExportChoice, vocab: &VocabFacts) -> Self {
        let architecture = layout.architecture;
        let encoder = layout.encoder;
        let special = vocab.special;
        let id = |id: u32| layout.swapped_ids.map_or(id, |ids| exchanged(id, ids));
        let has = |form: HeadRole| choice.heads.iter().any(|head| head.form == form);
        let relative = encoder.relative_positions;
        let is_relative = relative.kind != RelativeForm::None;
        let is_own = architecture.has_own_code();
        let row_head = choice.heads.iter().find(|head| head.form == HeadRole::LabelRow);
        let id2label = id2label(choice);
        let label2id = id2label.as_ref().map(|names| names.iter().map(|(id, name)| (name.clone(), *id)).collect());
        let detection_head = if has(HeadRole::Detect) {
            Some(DetectionForm::DenseGelu)
        } else {
            choice.detects().then_some(DetectionForm::Linear)
        };
        let hidden_act = match encoder.gelu {
            Gelu::Erf => "gelu",
            Gelu::Tanh => "gelu_new",
        };
        // The default ids in `transformers` are those of RoBERTa's published vocabulary, so other ids must be written.
        let framed = matches!(architecture, ModelFamily::Roberta | ModelFamily::Mpnet);
        let has_width = matches!(architecture, ModelFamily::Electra | ModelFamily::Cloze);
        Self {
            architectures: vec![choice.class.to_owned()],
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
            type_vocab_size: (layout.token_types > 0).then_some(layout.token_types),
            initializer_range: INITIAL_DEVIATION,
            layer_norm_eps: encoder.layer_norm_eps,
            pad_token_id: Some(id(special.pad)),
            bos_token_id: framed.then(|| id(special.cls)),
            eos_token_id: framed.then(|| id(special.sep)),
            position_embedding_type: absolute(),
            tie_word_embeddings: !has(HeadRole::PredictUntied),
            is_decoder: false,
            torch_dtype: Some("float32".to_owned()),
            relative_attention_kind: is_own.then_some(relative.kind),
            relative_attention_num_buckets: is_relative.then_some(relative.num_buckets),
            relative_attention_max_distance: (is_own && is_relative).then_some(relative.max_distance),
            lm_head_transform: is_own.then(|| has(HeadRole::Predict)),
            detection_head: detection_head.filter(|_| is_own),
            classifier_activation: row_head.filter(|_| is_own).and_then(|head| head.activation),
            id2label,
            label2id,
            problem_type: row_head
                .map(|head| if head.outputs == 1 { "regression" } else { "single_label_classification" }),
            auto_map: is_own.then(own_classes),
        }
    }

    /// Returns the content of `config.json`.
    pub fn to_json(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec_pretty(self).expect("a config has string keys and finite numbers");
        json.push(b'\n');
        json
    }

    /// Parses the file of a model that this project's encoder can represent.
    ///
    /// # Errors
    /// A message for a syntax error, an unsupported type or an unsupported variant of the architecture.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Kind {
            #[serde(default)]
            model_type: String,
        }
        let syntax = |error: serde_json::Error| format!("`{CONFIG}`: {error}");
        if json.starts_with(b"\xef\xbb\xbf") {
            return Err(format!("`{CONFIG}`: it begins with a byte-order mark; save it without"));
        }
        let mut keys: serde_json::Value = serde_json::from_slice(json).map_err(syntax)?;
        let Some(named) = keys.as_object_mut() else {
            return Err(format!("`{CONFIG}`: expected a JSON object with `model_type`"));
        };
        // As `transformers` reads it: a key without a value has its default.
        named.retain(|_, value| !value.is_null());
        if !named.contains_key("model_type") {
            return Err(format!(
                "`{CONFIG}`: it has no `model_type`, as files before 2020; add the type of the model, such as \
                 `\"model_type\": \"bert\"`"
            ));
        }
        let json = keys.to_string();
        let kind: Kind = serde_json::from_str(&json).map_err(syntax)?;
        ModelFamily::from_model_type(&kind.model_type)?;
        if let Some(problem) = number_problem(&keys) {
            return Err(problem);
        }
        let config: Self = serde_json::from_str(&json).map_err(syntax)?;
        if !config.hidden_size.is_multiple_of(config.num_attention_heads) {
            return Err(format!(
                "`{CONFIG}`: `hidden_size` = {} is not a multiple of `num_attention_heads` = {}",
                config.hidden_size, config.num_attention_heads
            ));
        }
        if config.max_position_embeddings <= config.first_position() {
            return Err(format!(
                "`{CONFIG}`: `max_position_embeddings` = {} leaves no position after `pad_token_id` = {}",
                config.max_position_embeddings,
                config.first_position() - 1
            ));
        }
        let rules = [
            (config.position_embedding_type == "absolute", "its positions are not absolute"),
            (
                config.tie_word_embeddings || config.architecture() == ModelFamily::Bert,
                "its decoder is not tied to its word table",
            ),
            (!config.is_decoder, "it is a decoder"),
            (
                config.architecture() == ModelFamily::Mpnet || (1..=2).contains(&config.token_types()),
                "it does not have one or two token types",
            ),
            (
                config.architecture() != ModelFamily::Mpnet
                    || config.relative_positions().num_buckets == RelativePositions::MPNET.num_buckets,
                "it does not have 32 buckets of relative positions",
            ),
            (
                config.relative_positions().buckets().is_none_or(|buckets| buckets.problems().is_empty()),
                "its buckets of relative positions are impossible",
            ),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, problem)) => Err(format!("{problem}; only the original form of the architecture is supported")),
            None => Ok(config),
        }
    }

    /// Architecture of `model_type`.
    pub fn architecture(&self) -> ModelFamily {
        ModelFamily::from_model_type(&self.model_type).expect("parsed")
    }

    /// Row of the position table for the first token of a row.
    pub fn first_position(&self) -> u32 {
        const PAD: u32 = 1;
        self.architecture().first_position(self.pad_token_id.unwrap_or(PAD))
    }

    /// Rows of the word table.
    pub fn vocab_rows(&self) -> u32 {
        self.vocab_size
    }

    /// Number of segments of the model.
    pub fn token_types(&self) -> u32 {
        const DEFAULT: u32 = 2;
        if self.architecture() == ModelFamily::Mpnet { 0 } else { self.type_vocab_size.unwrap_or(DEFAULT) }
    }

    /// Whether the decoder is the word table.
    #[must_use]
    pub fn is_tied(&self) -> bool {
        self.tie_word_embeddings
    }

    /// Whether its head that predicts tokens has a transform before the decoder.
    #[must_use]
    pub fn has_transform(&self) -> bool {
        self.lm_head_transform.unwrap_or(true)
    }

    /// Relative positions of the model.
    fn relative_positions(&self) -> RelativePositions {
        let default = RelativePositions::default();
        let kind = match self.architecture() {
            ModelFamily::Bert | ModelFamily::Roberta | ModelFamily::Electra => return default,
            ModelFamily::Mpnet => RelativeForm::T5,
            ModelFamily::Cloze => self.relative_attention_kind.unwrap_or_default(),
        };
        RelativePositions {
            kind,
            num_buckets: self.relative_attention_num_buckets.unwrap_or(default.num_buckets),
            max_distance: self.relative_attention_max_distance.unwrap_or(default.max_distance),
        }
    }

    /// Class of the saved model, if the file has one.
    pub fn class(&self) -> Option<&str> {
        self.architectures.first().map(String::as_str)
    }

    fn embedding_width(&self) -> u32 {
        const ELECTRA: u32 = 128;
        match self.architecture() {
            ModelFamily::Electra => self.embedding_size.unwrap_or(ELECTRA),
            ModelFamily::Cloze => self.embedding_size.unwrap_or(self.hidden_size),
            ModelFamily::Bert | ModelFamily::Roberta | ModelFamily::Mpnet => self.hidden_size,
        }
    }

    /// Returns the shape of a main network that starts with the weights of this model.
    ///
    /// # Errors
    /// A message for an activation that is not gelu.
    pub fn encoder(&self) -> Result<EncoderConfig, String> {
        let gelu = gelu_of(&self.hidden_act)
            .ok_or_else(|| format!("the model's activation is `{}`; only gelu is supported", self.hidden_act))?;
        let embedding = self.embedding_width();
        Ok(EncoderConfig {
            layers: self.num_hidden_layers,
            hidden: self.hidden_size,
            heads: self.num_attention_heads,
            feed_forward: self.intermediate_size,
            dropout: self.hidden_dropout_prob,
            gelu,
            layer_norm_eps: self.layer_norm_eps,
            max_positions: self.max_position_embeddings.saturating_sub(self.first_position()),
            embedding: (embedding != self.hidden_size).then_some(embedding),
            relative_positions: self.relative_positions(),
            ..EncoderConfig::default()
        })
    }

    /// Whether its class predicts masked tokens.
    pub fn predicts_tokens(&self) -> bool {
        self.class().is_some_and(|class| class.ends_with("ForMaskedLM") || class == "BertForPreTraining")
    }

    /// Returns the differences that prevent a run from starting from this model, one sentence per key.
    pub fn differences(&self, target: &Target<'_>) -> Vec<String> {
        let mut differences = self.shape_differences(target);
        differences.extend(self.vocab_difference(target));
        differences
    }

    /// Returns the differences of the encoder's shape, one sentence per key.
    pub(crate) fn shape_differences(&self, target: &Target<'_>) -> Vec<String> {
        let encoder = &target.encoder;
        let mut differences = self.size_differences(&target.section, encoder);
        differences.extend(self.gelu_difference(encoder));
        // Both values went through decimal text, so a small difference is a rounding error.
        if (self.layer_norm_eps - encoder.layer_norm_eps).abs() > 1e-6 * encoder.layer_norm_eps {
            let ours = encoder.layer_norm_eps;
            let theirs = self.layer_norm_eps;
            differences.push(format!("`encoder.layer_norm_eps` is {ours:e}, the model has {theirs:e}"));
        }
        differences.extend(self.relative_difference(encoder));
        differences
    }

    /// Returns the difference of the vocabulary's size, if the model cannot be read without some of its ids.
    ///
    /// A word table may be padded to a multiple of 8, 64 or 128 for speed, so a model may have more rows than its tokenizer
    /// has ids.
    pub(crate) fn vocab_difference(&self, target: &Target<'_>) -> Option<String> {
        const MAX_PADDING: u32 = 128;
        let size = target.vocab.size;
        let is_padded =
            self.vocab_size.is_multiple_of(8) && self.vocab_size > size && self.vocab_size - size < MAX_PADDING;
        (self.vocab_size != size && !is_padded).then(|| {
            format!(
                "the data has a vocabulary of {size} ids, the model of {}: prepare the corpus with the tokenizer of that \
                 folder",
                self.vocab_size
            )
        })
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

    fn relative_difference(&self, encoder: &EncoderConfig) -> Option<String> {
        let ours = encoder.relative_positions.buckets();
        let theirs = self.relative_positions().buckets();
        let difference = match (ours, theirs) {
            _ if ours == theirs => return None,
            (_, None) => "`encoder.relative_positions` is set, the model has none".to_owned(),
            (None, Some(_)) => "`encoder.relative_positions` is not set, the model has some".to_owned(),
            (Some(ours), Some(theirs)) => {
                let text = |it: Buckets| format!("{:?} with {} buckets up to {}", it.form, it.buckets, it.max_distance);
                format!("`encoder.relative_positions` is {}, the model has {}", text(ours), text(theirs))
            }
        };
        Some(difference)
    }

    fn gelu_difference(&self, encoder: &EncoderConfig) -> Option<String> {
        let difference = match gelu_of(&self.hidden_act) {
            Some(gelu) if gelu == encoder.gelu => return None,
            Some(Gelu::Erf) => "`encoder.gelu` is `tanh`, the model has `erf`".to_owned(),
            Some(Gelu::Tanh) => "`encoder.gelu` is `erf`, the model has `tanh`".to_owned(),
            None => format!("the model's activation is `{}`; only gelu is supported", self.hidden_act),
        };
        Some(difference)
    }
}

/// Returns the names of the outputs of a head for labelled examples. Answers need none.
fn id2label(choice: &ExportChoice) -> Option<BTreeMap<u32, String>> {
    let is_named = |head: &&HeadPlace| matches!(head.form, HeadRole::LabelRow | HeadRole::LabelTokens);
    let head = choice.heads.iter().find(is_named)?;
    let names = choice.labels.iter().filter(|_| choice.labels.len() == head.outputs as usize).cloned();
    let numbers = (0..head.outputs).map(|id| format!("LABEL_{id}"));
    let mut named: BTreeMap<u32, String> = (0..).zip(numbers).collect();
    named.extend((0..).zip(names));
    Some(named)
}

/// Returns `auto_map`: the automatic classes of our own code. A head that the model has no weights for is new, as in the
/// classes of `transformers`.
fn own_classes() -> BTreeMap<String, String> {
    let module = OWN_CODE.trim_end_matches(".py");
    let heads = [
        "ForMaskedLM",
        "ForPreTraining",
        "ForSequenceClassification",
        "ForTokenClassification",
        "ForQuestionAnswering",
    ];
    let with_head = heads.map(|head| (format!("AutoModel{head}"), format!("{module}.Cloze{head}")));
    let common = [("AutoConfig", "ClozeConfig"), ("AutoModel", "ClozeModel")];
    let common = common.map(|(auto, class)| (auto.to_owned(), format!("{module}.{class}")));
    common.into_iter().chain(with_head).collect()
}

fn gelu_of(hidden_act: &str) -> Option<Gelu> {
    match hidden_act {
        "gelu" => Some(Gelu::Erf),
        "gelu_new" | "gelu_pytorch_tanh" => Some(Gelu::Tanh),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
