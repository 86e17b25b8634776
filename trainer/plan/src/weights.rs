//! Declaration of a run's weights: names, shapes and initial values, without their memory.
//!
//! A weight is known by its path (`encoder.layers.0.attention.qkv.weight`, `heads.mlm.dense.bias`). The engine allocates
//! what is declared here and nothing else, so that counts, memory estimates and checkpoints agree with what is trained.
//! Matrices decay, biases and norms do not (Devlin et al. 2019, A.2).
//!
//! Axes: `d` hidden, `e` embedding, `f` feed-forward, `v` ids, `u` buckets, `h` heads.

use std::collections::BTreeMap;

use crate::encoder::{EncoderConfig, Frozen, padded_rows};

/// Standard deviation of initial matrices (Devlin et al. 2019; `initializer_range` of Hugging Face).
pub const INITIAL_DEVIATION: f64 = 0.02;

/// One declared weight.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightSpec {
    /// Sizes of its axes.
    pub shape: Vec<i64>,
    /// Its initial value.
    pub initial: Initial,
    /// Whether weight decay applies.
    pub decays: bool,
    /// Whether the optimizer updates it.
    pub trains: bool,
}

impl WeightSpec {
    /// Numbers in it.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.shape.iter().map(|size| size.unsigned_abs()).product()
    }
}

/// The value that a weight starts from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initial {
    /// N(0, 0.02²) in the first rows; the others, padding, are 0.
    Normal {
        /// Rows that are drawn.
        rows: i64,
    },
    /// One value everywhere.
    Constant(f64),
}

/// All weights of a run, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WeightSpecs {
    by_name: BTreeMap<String, WeightSpec>,
}

impl WeightSpecs {
    /// The path below which a component declares its weights.
    pub fn path(&mut self, prefix: &str) -> WeightPath<'_> {
        WeightPath { specs: self, prefix: prefix.to_owned(), trains: true }
    }

    /// Names and weights, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &WeightSpec)> {
        self.by_name.iter().map(|(name, spec)| (name.as_str(), spec))
    }

    /// Numbers in all weights that the optimizer updates.
    #[must_use]
    pub(crate) fn trained(&self) -> u64 {
        self.by_name.values().filter(|spec| spec.trains).map(WeightSpec::count).sum()
    }

    /// Numbers in all weights that stay as they are.
    #[must_use]
    pub fn frozen(&self) -> u64 {
        self.by_name.values().filter(|spec| !spec.trains).map(WeightSpec::count).sum()
    }
}

/// A prefix of names below which a component declares its weights.
#[derive(Debug)]
pub struct WeightPath<'a> {
    specs: &'a mut WeightSpecs,
    prefix: String,
    trains: bool,
}

impl WeightPath<'_> {
    /// The path `name` below this one.
    pub fn sub(&mut self, name: &str) -> WeightPath<'_> {
        let prefix = self.name(name);
        WeightPath { specs: self.specs, prefix, trains: self.trains }
    }

    /// The same path; weights declared there do not train if `frozen`.
    pub fn frozen(&mut self, frozen: bool) -> WeightPath<'_> {
        WeightPath { specs: self.specs, prefix: self.prefix.clone(), trains: self.trains && !frozen }
    }

    /// A matrix drawn from N(0, 0.02²). Decays.
    pub fn matrix(&mut self, name: &str, shape: [i64; 2]) {
        self.table(name, shape, shape[0]);
    }

    /// A matrix with only its first `rows` rows drawn; the others, padding, are 0. Decays.
    pub fn table(&mut self, name: &str, shape: [i64; 2], rows: i64) {
        self.add(
            name,
            WeightSpec { shape: shape.into(), initial: Initial::Normal { rows }, decays: true, trains: true },
        );
    }

    /// A vector of zeros. Does not decay.
    pub fn bias(&mut self, name: &str, length: i64) {
        self.vector(name, length, 0.0);
    }

    /// A vector of ones. Does not decay.
    pub fn gain(&mut self, name: &str, length: i64) {
        self.vector(name, length, 1.0);
    }

    /// `weight` `[to, from]` and `bias` `[to]` of a dense layer.
    pub fn dense(&mut self, from: i64, to: i64) {
        self.matrix("weight", [to, from]);
        self.bias("bias", to);
    }

    /// `weight` and `bias`, `[width]` each, of a layer norm.
    pub fn norm(&mut self, width: i64) {
        self.gain("weight", width);
        self.bias("bias", width);
    }

    fn vector(&mut self, name: &str, length: i64, value: f64) {
        let initial = Initial::Constant(value);
        self.add(name, WeightSpec { shape: vec![length], initial, decays: false, trains: true });
    }

    fn add(&mut self, name: &str, spec: WeightSpec) {
        let name = self.name(name);
        let spec = WeightSpec { trains: self.trains, ..spec };
        let former = self.specs.by_name.insert(name.clone(), spec);
        assert!(former.is_none(), "weight `{name}` was declared twice");
    }

    fn name(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}.{name}", self.prefix) }
    }
}

/// Parts of the embedding block that belong to another network and are not declared again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each table is shared or not, by itself")]
pub struct SharedTables {
    /// The word table.
    pub word: bool,
    /// The position table.
    pub position: bool,
    /// The table of segments.
    pub token_type: bool,
    /// The norm over the sum.
    pub norm: bool,
}

/// The weights of an encoder; the table of names and shapes is in the engine's `model::encoder`.
pub fn encoder(config: &EncoderConfig, vocab_size: u32, shared: SharedTables, path: &mut WeightPath<'_>) {
    let e = config.embedding_width();
    let d = i64::from(config.hidden);
    let frozen_layers = config.frozen_layers();
    // The relative positions belong to the frozen part: through them, gradients would reach all layers.
    let mut input = path.frozen(frozen_layers.is_some());
    let mut embeddings = input.sub("embeddings");
    if !shared.word {
        let is_frozen = config.frozen.contains(&Frozen::Word);
        let rows = i64::from(vocab_size);
        embeddings.sub("word").frozen(is_frozen).table("weight", [padded_rows(vocab_size), e], rows);
    }
    if !shared.position {
        embeddings.sub("position").matrix("weight", [i64::from(config.max_positions), e]);
    }
    if !shared.token_type {
        // In rows of single segments all are of type 0; the second row serves checkpoints of other libraries.
        embeddings.sub("token_type").matrix("weight", [2, e]);
    }
    if !shared.norm {
        embeddings.sub("norm").norm(e);
    }
    if e != d {
        embeddings.sub("project").dense(e, d);
    }
    if let Some(buckets) = config.relative_positions.buckets() {
        input.sub("relative").matrix("weight", [i64::from(buckets.buckets), i64::from(config.heads)]);
    }
    let mut layers = path.sub("layers");
    for layer in 0..config.layers {
        let is_frozen = frozen_layers.is_some_and(|frozen| layer < frozen);
        let mut path = layers.frozen(is_frozen);
        encoder_layer(d, i64::from(config.feed_forward), &mut path.sub(&layer.to_string()));
    }
}

fn encoder_layer(d: i64, f: i64, path: &mut WeightPath<'_>) {
    let mut attention = path.sub("attention");
    attention.sub("qkv").dense(d, 3 * d);
    attention.sub("output").dense(d, d);
    attention.sub("norm").norm(d);
    let mut feed_forward = path.sub("feed_forward");
    feed_forward.sub("input").dense(d, f);
    feed_forward.sub("output").dense(f, d);
    feed_forward.sub("norm").norm(d);
}

/// `dense` and `norm` below `path`: from hidden states of an encoder of that shape to `to` numbers.
pub fn transform(encoder: &EncoderConfig, to: i64, path: &mut WeightPath<'_>) {
    path.sub("dense").dense(i64::from(encoder.hidden), to);
    path.sub("norm").norm(to);
}

/// A prediction head: a transform, and a decoder with a bias for each id. The decoder is the word table unless it is not
/// `tied`: then it is `decoder.weight` below `path`.
pub fn token_head(encoder: &EncoderConfig, vocab_size: u32, tied: bool, path: &mut WeightPath<'_>) {
    transform(encoder, encoder.embedding_width(), path);
    if !tied {
        let shape = [padded_rows(vocab_size), encoder.embedding_width()];
        path.sub("decoder").table("weight", shape, i64::from(vocab_size));
    }
    path.bias("bias", i64::from(vocab_size));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::RelativePositions;

    #[test]
    fn shared_tables_belong_to_one_network() {
        let shared = SharedTables { word: true, norm: true, ..SharedTables::default() };
        let mut specs = WeightSpecs::default();
        encoder(&EncoderConfig::default(), 100, shared, &mut specs.path("generator.encoder"));
        let names: Vec<&str> = specs.iter().map(|(name, _)| name).filter(|name| name.contains("embeddings")).collect();
        assert_eq!(
            names,
            ["generator.encoder.embeddings.position.weight", "generator.encoder.embeddings.token_type.weight"]
        );
    }

    #[test]
    fn frozen_weights_are_counted_apart() {
        let config = EncoderConfig { frozen: vec![Frozen::Word], ..EncoderConfig::default() };
        let mut specs = WeightSpecs::default();
        encoder(&config, 64, SharedTables::default(), &mut specs.path("encoder"));
        assert_eq!(specs.frozen(), 64 * 768);
    }

    #[test]
    fn layers_are_frozen_from_the_input() {
        let relative_positions = RelativePositions::MPNET;
        let trained = |frozen: Vec<Frozen>| -> Vec<String> {
            let config = EncoderConfig { layers: 2, frozen, relative_positions, ..EncoderConfig::default() };
            let mut specs = WeightSpecs::default();
            encoder(&config, 64, SharedTables::default(), &mut specs.path("encoder"));
            let parts = |name: &str| name.split('.').skip(1).take(2).collect::<Vec<_>>().join(".");
            let mut trained: Vec<String> =
                specs.iter().filter(|(_, it)| it.trains).map(|(name, _)| parts(name)).collect();
            trained.dedup();
            trained
        };
        assert_eq!(trained(vec![Frozen::Encoder]), Vec::<String>::new());
        assert_eq!(trained(vec![Frozen::Word, Frozen::Layers(1)]), ["layers.1"]);
        assert_eq!(trained(vec![Frozen::Layers(0)]), ["layers.0", "layers.1"]);
        assert!(trained(vec![Frozen::Word]).contains(&"relative.weight".to_owned()));
    }
}
