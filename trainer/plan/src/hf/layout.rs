//! The tables of a [`ModelFamily`] written out for one model.

use super::architecture::{Axis, EMBEDDINGS, HeadPlace, LAYER, Line, PROJECTION, join};
use crate::config::ModelFamily;
use crate::encoder::{EncoderConfig, padded_rows};

/// One weight of ours and the ones that it is made of, one below the other.
pub struct TensorEntry {
    /// Our name.
    pub ours: String,
    /// Theirs: one, or query, key and value.
    pub theirs: Vec<String>,
    /// The shape of each of theirs.
    pub shape: Vec<i64>,
    /// First rows of theirs that ours lacks.
    pub skipped: i64,
    /// Rows of zeros at the end that only ours has.
    pub padding: i64,
}

/// What decides about names and shapes of a model's weights.
pub struct Layout<'a> {
    /// The architecture whose names are used.
    pub architecture: ModelFamily,
    /// The row of their position table that is our first.
    pub first_position: u32,
    /// Rows of their table of segments, 1 or 2.
    pub token_types: u32,
    /// The shape of the encoder.
    pub encoder: &'a EncoderConfig,
    /// Ids of the vocabulary.
    pub vocab_size: u32,
}

impl Layout<'_> {
    /// All weights of the encoder, ours below `path`.
    pub fn encoder(&self, path: &str) -> Vec<TensorEntry> {
        let prefix = self.architecture.prefix();
        let mut entries = Vec::new();
        self.expand(EMBEDDINGS, path, prefix, &mut entries);
        if self.encoder.embedding_width() != i64::from(self.encoder.hidden) {
            self.expand(PROJECTION, path, prefix, &mut entries);
        }
        for layer in 0..self.encoder.layers {
            let (ours, theirs) = (format!("{path}.layers.{layer}"), format!("{prefix}encoder.layer.{layer}."));
            self.expand(LAYER, &ours, &theirs, &mut entries);
        }
        entries
    }

    /// All weights of a head; none if the architecture has no such head.
    pub fn head(&self, head: &HeadPlace) -> Vec<TensorEntry> {
        let mut entries = Vec::new();
        for table in self.architecture.heads().iter().filter(|table| table.form == head.form) {
            self.expand(table.lines, &head.path, "", &mut entries);
        }
        entries
    }

    fn expand(&self, lines: &[Line], ours: &str, theirs: &str, entries: &mut Vec<TensorEntry>) {
        for line in lines {
            let suffixes: &[&str] = if line.is_affine { &[".weight", ".bias"] } else { &[""] };
            for ((name, suffix), rank) in line.ours().into_iter().zip(suffixes).zip([line.shape.len(), 1]) {
                let (skipped, padding) = self.margins(line.shape[0]);
                entries.push(TensorEntry {
                    ours: join(ours, &name),
                    theirs: line.theirs.iter().map(|part| format!("{theirs}{part}{suffix}")).collect(),
                    shape: line.shape[..rank].iter().map(|axis| self.length(*axis)).collect(),
                    skipped,
                    padding,
                });
            }
        }
    }

    /// The length of an axis of theirs.
    fn length(&self, axis: Axis) -> i64 {
        match axis {
            Axis::Word | Axis::Vocabulary => self.vocab_size.into(),
            Axis::Position => i64::from(self.encoder.max_positions) + i64::from(self.first_position),
            Axis::Segment => self.token_types.into(),
            Axis::Embedding => self.encoder.embedding_width(),
            Axis::Hidden => self.encoder.hidden.into(),
            Axis::FeedForward => self.encoder.feed_forward.into(),
            Axis::One => 1,
            Axis::Two => 2,
        }
    }

    /// First rows that only theirs has, last rows that only ours has.
    fn margins(&self, rows: Axis) -> (i64, i64) {
        match rows {
            Axis::Word => (0, padded_rows(self.vocab_size) - i64::from(self.vocab_size)),
            Axis::Position => (self.first_position.into(), 0),
            Axis::Segment => (0, 2 - i64::from(self.token_types)),
            _ => (0, 0),
        }
    }

    /// The names under which a weight is found in folders of different ages: with and without the prefix (an encoder
    /// alone), the norms' gain and bias as TensorFlow called them, a decoder's bias as its own or as its layer's.
    pub fn spellings(&self, name: &str) -> Vec<String> {
        let short = name.strip_prefix(self.architecture.prefix()).unwrap_or(name);
        let mut spellings = vec![name.to_owned()];
        if short != name {
            spellings.push(short.to_owned());
        }
        if let Some(norm) = name.strip_suffix("LayerNorm.weight") {
            spellings.push(format!("{norm}LayerNorm.gamma"));
        } else if let Some(norm) = name.strip_suffix("LayerNorm.bias") {
            spellings.push(format!("{norm}LayerNorm.beta"));
        } else if let Some(head @ ("cls.predictions" | "lm_head")) = name.strip_suffix(".bias") {
            spellings.push(format!("{head}.decoder.bias"));
        }
        spellings
    }
}
