//! Names and shapes of all weights of one model, from the tables of its [`ModelFamily`].

use super::architecture::{Axis, EMBEDDINGS, HeadPlace, LAYER, Line, PROJECTION, join};
use crate::config::ModelFamily;
use crate::encoder::{EncoderConfig, padded_rows};

/// One weight of this project and the weights of `transformers` that are stacked along the first axis to form it.
pub struct TensorEntry {
    /// Name in this project.
    pub ours: String,
    /// Names in `transformers`: one, or those of query, key and value.
    pub theirs: Vec<String>,
    /// Shape of each weight of `transformers`.
    pub shape: Vec<i64>,
    /// Number of leading rows that only the weight of `transformers` has.
    pub skipped: i64,
    /// Number of trailing rows that only the weight of `transformers` has.
    pub dropped: i64,
    /// Number of trailing rows of zeros that only the weight of this project has.
    pub padding: i64,
}

/// Inputs that determine the names and shapes of a model's weights.
pub struct Layout<'a> {
    /// Architecture of the names.
    pub architecture: ModelFamily,
    /// Row of the position table of `transformers` that is the first row of ours.
    pub first_position: u32,
    /// Rows of the segment table of `transformers`: 1 or 2.
    pub token_types: u32,
    /// Shape of the encoder.
    pub encoder: &'a EncoderConfig,
    /// Number of ids of the vocabulary.
    pub vocab_size: u32,
    /// Rows of the word table of `transformers`: at least `vocab_size`, more if the table is padded.
    pub vocab_rows: u32,
}

impl Layout<'_> {
    /// Returns all weights of the encoder; the names of this project are below `path`.
    pub fn encoder(&self, path: &str) -> Vec<TensorEntry> {
        let prefix = self.architecture.prefix();
        let mut entries = Vec::new();
        self.expand(EMBEDDINGS, path, prefix, &mut entries);
        if self.encoder.embedding_width() != i64::from(self.encoder.hidden) {
            self.expand(PROJECTION, path, prefix, &mut entries);
        }
        for layer in 0..self.encoder.layers {
            let ours = format!("{path}.layers.{layer}");
            let theirs = format!("{prefix}encoder.layer.{layer}.");
            self.expand(LAYER, &ours, &theirs, &mut entries);
        }
        entries
    }

    /// Returns all weights of a head. The list is empty if the architecture has no such head.
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
                    dropped: match line.shape[0] {
                        Axis::Word | Axis::Vocabulary => i64::from(self.vocab_rows - self.vocab_size),
                        _ => 0,
                    },
                    padding,
                });
            }
        }
    }

    /// Length of an axis in `transformers`.
    fn length(&self, axis: Axis) -> i64 {
        match axis {
            Axis::Word | Axis::Vocabulary => self.vocab_rows.into(),
            Axis::Position => i64::from(self.encoder.max_positions) + i64::from(self.first_position),
            Axis::Segment => self.token_types.into(),
            Axis::Embedding => self.encoder.embedding_width(),
            Axis::Hidden => self.encoder.hidden.into(),
            Axis::FeedForward => self.encoder.feed_forward.into(),
            Axis::One => 1,
            Axis::Two => 2,
        }
    }

    /// Number of leading rows that only `transformers` has, and of trailing rows that only this project has.
    fn margins(&self, rows: Axis) -> (i64, i64) {
        match rows {
            Axis::Word => (0, padded_rows(self.vocab_size) - i64::from(self.vocab_size)),
            Axis::Position => (self.first_position.into(), 0),
            Axis::Segment => (0, 2 - i64::from(self.token_types)),
            _ => (0, 0),
        }
    }

    /// Names of a weight in folders of different versions of `transformers`:
    ///
    /// - with and without the prefix, which an encoder without heads lacks;
    /// - gain and bias of norms by the names of TensorFlow, `gamma` and `beta`;
    /// - the bias of a decoder as a weight of the head or of its `decoder` layer.
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
