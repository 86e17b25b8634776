//! Preparation of labelled examples: tokens with targets to a prepared folder.
//!
//! The folder has one part. Its samples are the rows in the order of the input, truncated to
//! [`LabelledOptions::max_seq_len`]. The view [`labelled_example`](crate::views::labelled_example) renders them.

use schemas::columns::ATTENTION_MASK;
use schemas::manifest::{self, CorpusReport, DatasetVersionEntry, FileEntry, Frame, Pack, PartEntry};
use schemas::sample::OptionalColumns;
use schemas::{
    Batch, BatchIndex, Document, Epoch, Manifest, PartId, Sample, SampleAddress, Shard, SpecialIds, TokenIds, Vocab,
};
use store::Store;

use crate::Result;
use crate::collate::{Item, PlannedView, collate};
use crate::pack::Packed;
use crate::prepare::vocab_to_parquet;
use crate::shard::{ShardOptions, ShardWriter};
use crate::tokenize::{HfTokenizer, TOKENIZER_CONFIG, Tokenizer as _, prepared_config};
use crate::views::{AnyView, truncated};

/// Name of the packing in the manifest.
const EXAMPLES: &str = "examples";

/// Row to store: the tokens of an example, or of a window over it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelledRow {
    /// Id of the example within its split.
    pub id: String,
    /// Tokens of the first text.
    pub first: Vec<u32>,
    /// Tokens of the second text of a pair; empty without one.
    pub second: Vec<u32>,
    /// Target of the prediction.
    pub target: RowTarget,
    /// Bytes of the texts.
    pub text_bytes: u64,
    /// Words of the texts.
    pub words: u64,
}

/// Target of the prediction for a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RowTarget {
    /// Nothing is known: a test set without labels.
    #[default]
    None,
    /// Number of the class.
    Class(u32),
    /// Score.
    Score(f32),
    /// First and last token of the answer in the second text; `None` if the answer is not in it.
    Span(Option<[usize; 2]>),
    /// Class of each token of the first text, or [`IGNORE`](schemas::columns::IGNORE).
    Tokens(Vec<i32>),
}

impl RowTarget {
    /// Returns the form of a shard, which [`Sample::targets`](schemas::Sample::targets) describes. The second text starts
    /// at token `second`.
    fn stored(&self, second: usize) -> Vec<i32> {
        let token = |token: usize| i32::try_from(second + token).expect("a row has fewer than 65,536 tokens");
        match self {
            Self::None => Vec::new(),
            Self::Class(class) => vec![i32::try_from(*class).expect("a task has fewer than 2^31 classes")],
            Self::Score(score) => vec![score.to_bits().cast_signed()],
            Self::Span(None) => vec![-1, -1],
            Self::Span(Some(span)) => span.map(token).to_vec(),
            Self::Tokens(classes) => classes.clone(),
        }
    }
}

/// Parameters of the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelledOptions {
    /// Longest row, including the frame. At least 8.
    pub max_seq_len: u32,
    /// Separators between two texts: 1, or 2 as in RoBERTa.
    pub separators: u32,
}

impl LabelledOptions {
    /// Returns the number of special tokens of a row with one text, or with two.
    #[must_use]
    pub fn frame(self, is_pair: bool) -> u32 {
        if is_pair { 2 + self.separators } else { 2 }
    }
}

/// Writes a prepared folder with these splits, the manifest last. Returns the manifest.
///
/// # Errors
/// Those of the store.
pub fn write(
    store: &Store,
    tokenizer: &HfTokenizer,
    options: LabelledOptions,
    train: &[LabelledRow],
    valid: &[LabelledRow],
) -> Result<Manifest> {
    let facts = tokenizer.facts();
    let mut writing =
        Writing { store, tokenizer, options, counts: vec![0; facts.tokens.len()], corpus: CorpusReport::default() };
    let part =
        PartEntry { id: PartId(0), train: writing.split("train", train)?, valid: writing.split("valid", valid)? };
    let Writing { counts, corpus, .. } = writing;
    let vocab = vocab_to_parquet(&facts.vocab(counts));
    let name = |bytes: &[u8]| blake3::hash(bytes).to_hex().to_string();
    let path = "vocab/00000.parquet".to_owned();
    store.put(manifest::TOKENIZER, &facts.json)?;
    store.put(TOKENIZER_CONFIG, prepared_config(facts, options.max_seq_len).as_bytes())?;
    store.put(&path, &vocab)?;
    let mut manifest = Manifest {
        tokenizer: facts.manifest.clone(),
        max_seq_len: options.max_seq_len,
        pack: pack(options),
        files: [(manifest::TOKENIZER.to_owned(), name(&facts.json))].into(),
        dataset_versions: vec![DatasetVersionEntry {
            dropped: Vec::new(),
            parts: vec![part],
            vocab: FileEntry { blake3: name(&vocab), path },
            corpus,
            content: String::new(),
        }],
    };
    let content = manifest.now().train.content();
    manifest.dataset_versions[0].content = content;
    store.put(manifest::NAME, &manifest.to_json())?;
    Ok(manifest)
}

fn pack(options: LabelledOptions) -> Pack {
    Pack {
        name: EXAMPLES.to_owned(),
        content: options.max_seq_len - 2,
        frame: Frame::ClsSep,
        keeps_sentences: true,
        cuts: false,
        has_targets: true,
    }
}

/// Folder that is being written.
struct Writing<'a> {
    store: &'a Store,
    tokenizer: &'a HfTokenizer,
    options: LabelledOptions,
    /// Occurrences of each id in the training split.
    counts: Vec<u64>,
    corpus: CorpusReport,
}

impl Writing<'_> {
    fn split(&mut self, split: &str, rows: &[LabelledRow]) -> Result<Vec<Shard>> {
        let options = ShardOptions {
            prefix: format!("{split}/part-00000-00"),
            vocab_size: self.tokenizer.facts().manifest.vocab_size,
            optional: OptionalColumns { sentences: true, targets: true },
            ..ShardOptions::default()
        };
        let mut writer = ShardWriter::new(self.store, options);
        for row in rows {
            let encoded = EncodedRow::new(row, self.tokenizer.facts().special(), self.options);
            self.count(row, &encoded);
            if split == "train" {
                encoded.ids.iter().for_each(|&id| self.counts[id as usize] += 1);
            }
            writer.write(Packed {
                input_ids: &encoded.ids,
                document_starts: &[0],
                documents: &[Document::hash(&format!("{split}/{}", row.id))],
                sentence_starts: &encoded.starts,
                targets: &encoded.targets,
                source: 0,
            })?;
        }
        writer.finish()
    }

    fn count(&mut self, row: &LabelledRow, encoded: &EncodedRow) {
        self.corpus.documents += 1;
        self.corpus.tokens += (row.first.len() + row.second.len()) as u64;
        self.corpus.text_bytes += row.text_bytes;
        self.corpus.words += row.words;
        self.corpus.packing.cut_documents += u64::from(encoded.cut > 0);
        self.corpus.packing.cut_tokens += encoded.cut as u64;
    }
}

/// Row as a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedRow {
    ids: Vec<u32>,
    /// Start of each text that has tokens.
    starts: Vec<u16>,
    targets: Vec<i32>,
    /// Tokens that were truncated.
    cut: usize,
}

impl EncodedRow {
    /// Truncates the texts of a row, the longer one first.
    #[must_use]
    pub fn new(row: &LabelledRow, special: SpecialIds, options: LabelledOptions) -> Self {
        let LabelledRow { first, second, target, .. } = row;
        let frame = options.frame(!second.is_empty());
        let (a, b) = truncated(first.len(), second.len(), (options.max_seq_len - frame) as usize);
        let mut ids = [&first[..a], &second[..b]].concat();
        let mut targets = target.stored(a);
        if matches!(target, RowTarget::Tokens(_)) {
            targets.truncate(a);
        }
        if ids.is_empty() {
            // A row must have a content token, and every example a row.
            ids.push(special.unk.unwrap_or(special.sep));
        }
        let border = u16::try_from(a).expect("a row has fewer than 65,536 tokens");
        let starts = if a > 0 && b > 0 { vec![0, border] } else { vec![0] };
        Self { ids, starts, targets, cut: first.len() + second.len() - a - b }
    }

    fn sample(&self) -> Sample<'_> {
        Sample {
            input_ids: TokenIds::U32(&self.ids),
            document_starts: &[0],
            documents: &[0],
            sentence_starts: &self.starts,
            targets: &self.targets,
            frame: Frame::ClsSep,
            source: 0,
            offset: 0,
        }
    }
}

/// Renders rows as a batch of the view `name`, without a prepared folder: for predictions.
#[must_use]
pub fn batch(rows: &[EncodedRow], name: &str, view: &AnyView, width: u32, vocab: &Vocab) -> Batch {
    let view = view.clone();
    let wanted = [ATTENTION_MASK.spec()].into_iter().chain(view.columns().iter().copied()).collect();
    let planned =
        PlannedView { name: name.to_owned(), view, of: None, frame: 0, ids: 0, width: width as usize, wanted };
    let samples = rows.iter().map(EncodedRow::sample);
    // The view draws no random numbers.
    let items = samples.zip(0..).map(|(sample, index)| Item {
        sample,
        partner: None,
        index: SampleAddress::numbered(index),
        seed: 0,
        epoch: Epoch(0),
        copy: 0,
        copies: 1,
        pieces: 1,
    });
    let items: Vec<Item<'_>> = items.collect();
    collate(&[planned], vocab, BatchIndex(0), &items)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;
    use crate::shard::reader::{ShardExpectation, ShardReader};
    use crate::testing;

    fn row(first: &[u32], second: &[u32], target: RowTarget) -> LabelledRow {
        LabelledRow { first: first.to_vec(), second: second.to_vec(), target, ..LabelledRow::default() }
    }

    #[test]
    fn rows_keep_their_order_their_texts_and_their_targets() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let store = Store::folder(home.path()).expect("created");
        let tokenizer = testing::tokenizer("wordpiece");
        let long: Vec<u32> = (5..17).collect();
        let train = [
            row(&[5, 6, 7], &[], RowTarget::Class(1)),
            row(&[5, 6], &[7, 8, 9, 10], RowTarget::Score(2.5)),
            row(&[], &[], RowTarget::None),
            row(&long, &[5, 6], RowTarget::Span(Some([0, 1]))),
            row(&[5], &[6, 7], RowTarget::Span(None)),
            row(&long, &[], RowTarget::Tokens((0..12).collect())),
        ];
        let options = LabelledOptions { max_seq_len: 12, separators: 1 };
        let written = write(&store, &tokenizer, options, &train, &[row(&[5], &[], RowTarget::Class(0))]);
        let written = written.expect("written");
        assert_eq!(load::open(&store).expect("a prepared folder"), written);
        let now = written.now();
        assert_eq!((now.train.rows(), now.valid.rows()), (6, 1));
        let expectation = ShardExpectation::from_manifest(&written);
        let reader = ShardReader::open(&store, &now.train.shards[0], expectation).expect("undamaged");
        let group = reader.read(0).expect("readable");
        let rows: Vec<_> = (0..6).map(|row| group.sample(row)).collect();
        let shape: Vec<_> = rows.iter().map(|row| (row.input_ids.len(), row.sentence_starts, row.targets)).collect();
        let bits = 2.5_f32.to_bits().cast_signed();
        let classes: Vec<i32> = (0..10).collect();
        let expected: [(usize, &[u16], &[i32]); 6] = [
            (3, &[0], &[1]),
            (6, &[0, 2], &[bits]),
            (1, &[0], &[]),
            (9, &[0, 7], &[7, 8]),
            (3, &[0, 1], &[-1, -1]),
            (10, &[0], &classes),
        ];
        assert_eq!(shape, expected);
        let corpus = &written.dataset_versions[0].corpus;
        assert_eq!((corpus.documents, corpus.packing.cut_documents, corpus.packing.cut_tokens), (7, 2, 7));
    }

    #[test]
    fn a_batch_has_the_rows_of_the_folder() {
        let facts = testing::tokenizer("wordpiece").facts().clone();
        let options = LabelledOptions { max_seq_len: 8, separators: 1 };
        let encoded = EncodedRow::new(&row(&[5, 6], &[7], RowTarget::Class(1)), facts.special(), options);
        let vocab = facts.vocab(vec![0; facts.tokens.len()]);
        let view = AnyView::of_kind("labelled_example").expect("it is registered");
        let found = batch(&[encoded], "example", &view, 8, &vocab);
        let targets = found.column("example", schemas::columns::TARGETS).expect("made");
        let valid = found.column("example", ATTENTION_MASK).expect("made");
        assert_eq!((targets.row(0)[0], valid.row(0)), (1, &[1, 1, 1, 1, 1, 1, 0, 0][..]));
    }
}
