//! Which weight of ours is which of `BertForMaskedLM`.

use std::collections::BTreeSet;

use crate::plan::EncoderConfig;

/// One weight of ours and the ones that it is made of, one below the other.
pub(super) struct Entry {
    /// Our name.
    pub(super) ours: String,
    /// Hugging Face's: one, or query, key and value.
    pub(super) theirs: Vec<String>,
    /// The shape of each of theirs.
    pub(super) shape: Vec<i64>,
    /// Whether rows of padding follow in ours.
    pub(super) is_padded: bool,
}

/// The weights of a head, below `heads.NAME.` and below `cls.predictions.`.
const HEAD: [(&str, &str); 5] = [
    ("dense.weight", "transform.dense.weight"),
    ("dense.bias", "transform.dense.bias"),
    ("norm.weight", "transform.LayerNorm.weight"),
    ("norm.bias", "transform.LayerNorm.bias"),
    ("bias", "bias"),
];

/// All weights of an encoder, and of the heads of those names.
pub(super) fn entries(encoder: &EncoderConfig, vocab_size: u32, heads: &[String]) -> Vec<Entry> {
    let (d, f, v) = (i64::from(encoder.hidden), i64::from(encoder.feed_forward), i64::from(vocab_size));
    let mut table = Table(Vec::new());
    let (ours, theirs) = ("encoder.embeddings", "bert.embeddings");
    table.add(format!("{ours}.word.weight"), [format!("{theirs}.word_embeddings.weight")], &[v, d]).is_padded = true;
    let positions = i64::from(encoder.positions);
    table.add(format!("{ours}.position.weight"), [format!("{theirs}.position_embeddings.weight")], &[positions, d]);
    table.add(format!("{ours}.token_type.weight"), [format!("{theirs}.token_type_embeddings.weight")], &[2, d]);
    table.affine(&format!("{ours}.norm"), &[format!("{theirs}.LayerNorm")], &[d]);
    for layer in 0..encoder.layers {
        let (ours, theirs) = (format!("encoder.layers.{layer}"), format!("bert.encoder.layer.{layer}"));
        let parts = ["query", "key", "value"].map(|part| format!("{theirs}.attention.self.{part}"));
        table.affine(&format!("{ours}.attention.qkv"), &parts, &[d, d]);
        table.affine(&format!("{ours}.attention.output"), &[format!("{theirs}.attention.output.dense")], &[d, d]);
        table.affine(&format!("{ours}.attention.norm"), &[format!("{theirs}.attention.output.LayerNorm")], &[d]);
        table.affine(&format!("{ours}.feed_forward.input"), &[format!("{theirs}.intermediate.dense")], &[f, d]);
        table.affine(&format!("{ours}.feed_forward.output"), &[format!("{theirs}.output.dense")], &[d, f]);
        table.affine(&format!("{ours}.feed_forward.norm"), &[format!("{theirs}.output.LayerNorm")], &[d]);
    }
    for head in heads {
        for ((ours, theirs), shape) in HEAD.into_iter().zip([vec![d, d], vec![d], vec![d], vec![d], vec![v]]) {
            table.add(format!("heads.{head}.{ours}"), [format!("cls.predictions.{theirs}")], &shape);
        }
    }
    table.0
}

struct Table(Vec<Entry>);

impl Table {
    fn add<const N: usize>(&mut self, ours: String, theirs: [String; N], shape: &[i64]) -> &mut Entry {
        self.0.push(Entry { ours, theirs: theirs.into(), shape: shape.to_vec(), is_padded: false });
        self.0.last_mut().expect("just pushed")
    }

    /// `weight` of `shape` and `bias` of its rows.
    fn affine<const N: usize>(&mut self, ours: &str, theirs: &[String; N], shape: &[i64]) {
        let named = |kind: &str| theirs.each_ref().map(|name| format!("{name}.{kind}"));
        self.add(format!("{ours}.weight"), named("weight"), shape);
        self.add(format!("{ours}.bias"), named("bias"), &shape[..1]);
    }
}

/// The names under which a weight is found in folders of different ages: with and without `bert.` (`BertModel` alone),
/// and with the norms' gain and bias as TensorFlow called them.
pub(super) fn spellings(name: &str) -> Vec<String> {
    let short = name.strip_prefix("bert.").unwrap_or(name);
    let mut spellings = vec![name.to_owned(), short.to_owned()];
    if let Some(norm) = name.strip_suffix("LayerNorm.weight") {
        spellings.push(format!("{norm}LayerNorm.gamma"));
    } else if let Some(norm) = name.strip_suffix("LayerNorm.bias") {
        spellings.push(format!("{norm}LayerNorm.beta"));
    }
    spellings
}

/// The heads among weights of ours that have all weights of BERT's, by name.
pub(super) fn prediction_heads<'a>(weights: impl Iterator<Item = &'a str>) -> Vec<String> {
    let below: BTreeSet<&str> = weights.filter_map(|name| name.strip_prefix("heads.")).collect();
    let heads: BTreeSet<&str> = below.iter().filter_map(|name| name.split_once('.')).map(|(head, _)| head).collect();
    let is_whole = |head: &&str| HEAD.iter().all(|(weight, _)| below.contains(format!("{head}.{weight}").as_str()));
    heads.into_iter().filter(is_whole).map(str::to_owned).collect()
}
