//! Names and shapes of all weights of one model, from the tables of its [`ModelFamily`].

use super::architecture::{Axis, EMBEDDINGS, Line, PROJECTION};
use super::heads::{HeadPlace, join};
use crate::config::ModelFamily;
use crate::encoder::{EncoderConfig, padded_rows};

/// One weight of this project and the weights of `transformers` that are stacked along the first axis to form it.
pub struct TensorEntry {
    /// Name in this project.
    pub ours: String,
    /// Names in `transformers`: one, those of query, key and value, or none if the architecture has no such weight.
    pub theirs: Vec<String>,
    /// Shape of each weight of `transformers`.
    pub shape: Vec<i64>,
    /// Number of leading rows that only the weight of `transformers` has.
    pub skipped: i64,
    /// Number of trailing rows that only the weight of `transformers` has.
    pub dropped: i64,
    /// Number of trailing rows of zeros that only the weight of this project has.
    pub padding: i64,
    /// Two rows that change places in `transformers`.
    pub swapped: Option<(i64, i64)>,
    /// Weight of this project whose first row is added to each row of the weight of `transformers`.
    pub folded: Option<String>,
    /// Whether the weight of `transformers` has the opposite sign.
    pub is_negated: bool,
}

/// Inputs that determine the names and shapes of a model's weights.
pub struct Layout<'a> {
    /// Architecture of the names.
    pub architecture: ModelFamily,
    /// Row of the position table of `transformers` that is the first row of ours.
    pub first_position: u32,
    /// Rows of the segment table of `transformers`: 1 or 2, or 0 if it has none. Then segment 0 is part of the positions.
    pub token_types: u32,
    /// Two ids that change places in `transformers`, so that padding has the id that its code requires.
    pub swapped_ids: Option<(u32, u32)>,
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
        self.expand(EMBEDDINGS, path, prefix, 0, &mut entries);
        if self.encoder.embedding_width() != i64::from(self.encoder.hidden) {
            self.expand(PROJECTION, path, prefix, 0, &mut entries);
        }
        if self.encoder.relative_positions.buckets().is_some() {
            self.expand(self.architecture.relative(), path, prefix, 0, &mut entries);
        }
        if self.token_types == 0 {
            fold_segments(path, &mut entries);
        }
        for layer in 0..self.encoder.layers {
            let ours = format!("{path}.layers.{layer}");
            let theirs = format!("{prefix}encoder.layer.{layer}.");
            self.expand(self.architecture.layer(), &ours, &theirs, 0, &mut entries);
        }
        entries
    }

    /// Returns all weights of a head. The list is empty if the architecture has no such head.
    pub fn head(&self, head: &HeadPlace) -> Vec<TensorEntry> {
        let mut entries = Vec::new();
        for table in self.architecture.heads().iter().filter(|table| table.form == head.form) {
            self.expand(table.lines, &head.path, "", head.outputs, &mut entries);
        }
        // The last layer of a detection head has one output.
        for entry in entries.iter_mut().filter(|entry| head.is_negated && entry.shape[0] == 1) {
            entry.is_negated = true;
        }
        entries
    }

    /// Adds the entries of lines. `outputs` is the number of outputs of a head for labelled examples.
    fn expand(&self, lines: &[Line], ours: &str, theirs: &str, outputs: u32, entries: &mut Vec<TensorEntry>) {
        for line in lines {
            let suffixes: &[&str] = if line.is_affine { &[".weight", ".bias"] } else { &[""] };
            for ((name, suffix), rank) in line.ours().into_iter().zip(suffixes).zip([line.shape.len(), 1]) {
                let (skipped, padding) = self.margins(line.shape[0]);
                let is_of_ids = matches!(line.shape[0], Axis::Word | Axis::Vocabulary);
                entries.push(TensorEntry {
                    ours: join(ours, &name),
                    theirs: line.theirs.iter().map(|part| format!("{theirs}{part}{suffix}")).collect(),
                    shape: line.shape[..rank].iter().map(|axis| self.length(*axis, outputs)).collect(),
                    skipped,
                    dropped: if is_of_ids { i64::from(self.vocab_rows - self.vocab_size) } else { 0 },
                    padding,
                    swapped: self.swapped_ids.filter(|_| is_of_ids).map(|(a, b)| (a.into(), b.into())),
                    folded: None,
                    is_negated: false,
                });
            }
        }
    }

    /// Length of an axis in `transformers`.
    fn length(&self, axis: Axis, outputs: u32) -> i64 {
        match axis {
            Axis::Word | Axis::Vocabulary => self.vocab_rows.into(),
            Axis::Position => i64::from(self.encoder.max_positions) + i64::from(self.first_position),
            Axis::Segment => self.token_types.into(),
            Axis::Embedding => self.encoder.embedding_width(),
            Axis::Hidden => self.encoder.hidden.into(),
            Axis::FeedForward => self.encoder.feed_forward.into(),
            Axis::Bucket => self.encoder.relative_positions.num_buckets.into(),
            Axis::Head => self.encoder.heads.into(),
            Axis::One => 1,
            Axis::Two => 2,
            Axis::Label => outputs.into(),
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

/// Adds segment 0 to the positions, for an architecture without segments.
fn fold_segments(path: &str, entries: &mut [TensorEntry]) {
    let segments = format!("{path}.embeddings.token_type.weight");
    let positions = format!("{path}.embeddings.position.weight");
    for entry in entries {
        if entry.ours == segments {
            entry.theirs.clear();
        } else if entry.ours == positions {
            entry.folded = Some(segments.clone());
        }
    }
}

/// Returns the other id of a pair that changes places, and every other id as it is.
#[must_use]
pub fn exchanged<T: Copy + PartialEq>(id: T, (a, b): (T, T)) -> T {
    if id == a {
        b
    } else if id == b {
        a
    } else {
        id
    }
}
