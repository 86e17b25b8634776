//! Preparation of labelled examples: texts with targets to a prepared folder.
//!
//! The folder has one part. Its samples are whole examples, in the order of the input, truncated to
//! [`LabelledOptions::max_seq_len`]. The view [`labelled_example`](crate::views::labelled_example) renders them.

use schemas::columns::{ATTENTION_MASK, IGNORE};
use schemas::manifest::{self, CorpusReport, DatasetVersionEntry, FileEntry, Frame, Pack, PartEntry};
use schemas::sample::OptionalColumns;
use schemas::{Batch, BatchIndex, Document, Epoch, Manifest, PartId, Sample, SampleAddress, Shard, TokenIds, Vocab};
use store::Store;

use crate::Result;
use crate::collate::{Item, PlannedView, collate};
use crate::pack::Packed;
use crate::prepare::vocab_to_parquet;
use crate::shard::{ShardOptions, ShardWriter};
use crate::tokenize::{HfTokenizer, Tokenizer as _};
use crate::views::{AnyView, truncated};

/// Name of the packing in the manifest.
const EXAMPLES: &str = "examples";

/// Example to store.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelledText {
    /// Id within its split.
    pub id: String,
    /// First text.
    pub first: String,
    /// Second text of a pair.
    pub second: Option<String>,
    /// Target of the prediction.
    pub target: ExampleTarget,
}

/// Target of the prediction for an example.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ExampleTarget {
    /// Nothing is known: a test set without labels.
    None,
    /// Number of the class.
    Class(u32),
    /// Score.
    Score(f32),
}

impl ExampleTarget {
    /// Returns the form of a shard, which [`Sample::targets`](schemas::Sample::targets) describes.
    fn stored(self) -> i32 {
        match self {
            Self::None => IGNORE,
            Self::Class(class) => i32::try_from(class).expect("a task has fewer than 2^31 classes"),
            Self::Score(score) => score.to_bits().cast_signed(),
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

/// Writes a prepared folder with these splits, the manifest last. Returns the manifest.
///
/// # Errors
/// Those of the splits, and those of the store.
pub fn write(
    store: &Store,
    tokenizer: &HfTokenizer,
    options: LabelledOptions,
    train: impl IntoIterator<Item = Result<LabelledText>>,
    valid: impl IntoIterator<Item = Result<LabelledText>>,
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
    fn split(&mut self, split: &str, examples: impl IntoIterator<Item = Result<LabelledText>>) -> Result<Vec<Shard>> {
        let options = ShardOptions {
            prefix: format!("{split}/part-00000-00"),
            vocab_size: self.tokenizer.facts().manifest.vocab_size,
            optional: OptionalColumns { sentences: true, targets: true },
            ..ShardOptions::default()
        };
        let mut writer = ShardWriter::new(self.store, options);
        for example in examples {
            let example = example?;
            let encoded = EncodedExample::new(&example, self.tokenizer, self.options)?;
            self.count(&example, &encoded);
            if split == "train" {
                encoded.ids.iter().for_each(|&id| self.counts[id as usize] += 1);
            }
            writer.write(Packed {
                input_ids: &encoded.ids,
                document_starts: &[0],
                documents: &[Document::hash(&format!("{split}/{}", example.id))],
                sentence_starts: &encoded.starts,
                targets: &encoded.target,
                source: 0,
            })?;
        }
        writer.finish()
    }

    fn count(&mut self, example: &LabelledText, encoded: &EncodedExample) {
        let texts = [Some(&example.first), example.second.as_ref()].into_iter().flatten();
        self.corpus.documents += 1;
        self.corpus.tokens += encoded.tokens as u64;
        for text in texts {
            self.corpus.text_bytes += text.len() as u64;
            self.corpus.words += text.split_whitespace().count() as u64;
        }
        self.corpus.packing.cut_documents += u64::from(encoded.cut > 0);
        self.corpus.packing.cut_tokens += encoded.cut as u64;
    }
}

/// Example as a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedExample {
    ids: Vec<u32>,
    /// Start of each text that has tokens.
    starts: Vec<u16>,
    target: [i32; 1],
    /// Tokens before truncation.
    tokens: usize,
    /// Tokens that were truncated.
    cut: usize,
}

impl EncodedExample {
    /// Tokenizes and truncates an example.
    ///
    /// # Errors
    /// Those of the tokenizer.
    pub fn new(example: &LabelledText, tokenizer: &HfTokenizer, options: LabelledOptions) -> Result<Self> {
        let mut ids = tokenizer.ids(&example.first)?;
        let second = example.second.as_ref().map(|text| tokenizer.ids(text)).transpose()?.unwrap_or_default();
        let tokens = ids.len() + second.len();
        let frame = if second.is_empty() { 2 } else { 2 + options.separators };
        let (a, b) = truncated(ids.len(), second.len(), (options.max_seq_len - frame) as usize);
        ids.truncate(a);
        ids.extend_from_slice(&second[..b]);
        if ids.is_empty() {
            // A row must have a content token, and every example a row.
            let special = tokenizer.facts().special();
            ids.push(special.unk.unwrap_or(special.sep));
        }
        let border = u16::try_from(a).expect("a row has fewer than 65,536 tokens");
        let starts = if a > 0 && b > 0 { vec![0, border] } else { vec![0] };
        Ok(Self { ids, starts, target: [example.target.stored()], tokens, cut: tokens - a - b })
    }

    fn sample(&self) -> Sample<'_> {
        Sample {
            input_ids: TokenIds::U32(&self.ids),
            document_starts: &[0],
            documents: &[0],
            sentence_starts: &self.starts,
            targets: &self.target,
            frame: Frame::ClsSep,
            source: 0,
            offset: 0,
        }
    }
}

/// Renders examples as a batch of the view `name`, without a prepared folder: for predictions.
#[must_use]
pub fn batch(examples: &[EncodedExample], name: &str, view: &AnyView, width: u32, vocab: &Vocab) -> Batch {
    let view = view.clone();
    let wanted = [ATTENTION_MASK.spec()].into_iter().chain(view.columns().iter().copied()).collect();
    let planned =
        PlannedView { name: name.to_owned(), view, of: None, frame: 0, ids: 0, width: width as usize, wanted };
    let samples = examples.iter().map(EncodedExample::sample);
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

    fn example(first: &str, second: Option<&str>, target: ExampleTarget) -> LabelledText {
        let (first, second) = (first.to_owned(), second.map(str::to_owned));
        LabelledText { id: first.clone(), first, second, target }
    }

    #[test]
    fn examples_keep_their_order_their_texts_and_their_targets() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let store = Store::folder(home.path()).expect("created");
        let tokenizer = testing::tokenizer("wordpiece");
        let train = [
            example("the cat sat", None, ExampleTarget::Class(1)),
            example("the cat", Some("sat on the mat"), ExampleTarget::Score(2.5)),
            example("", None, ExampleTarget::None),
            example("the cat sat on the mat the cat sat on the mat", Some("the mat"), ExampleTarget::Class(0)),
        ];
        let options = LabelledOptions { max_seq_len: 12, separators: 1 };
        let written =
            write(&store, &tokenizer, options, train.map(Ok), [Ok(example("the", None, ExampleTarget::Class(0)))]);
        let written = written.expect("written");
        assert_eq!(load::open(&store).expect("a prepared folder"), written);
        let now = written.now();
        assert_eq!((now.train.rows(), now.valid.rows()), (4, 1));
        let expectation = ShardExpectation::from_manifest(&written);
        let reader = ShardReader::open(&store, &now.train.shards[0], expectation).expect("undamaged");
        let group = reader.read(0).expect("readable");
        let rows: Vec<_> = (0..4).map(|row| group.sample(row)).collect();
        let shape: Vec<_> = rows.iter().map(|row| (row.input_ids.len(), row.sentence_starts, row.targets)).collect();
        let bits = 2.5_f32.to_bits().cast_signed();
        let expected: [(usize, &[u16], &[i32]); 4] =
            [(3, &[0], &[1]), (6, &[0, 2], &[bits]), (1, &[0], &[IGNORE]), (9, &[0, 7], &[0])];
        assert_eq!(shape, expected);
        let corpus = &written.dataset_versions[0].corpus;
        assert_eq!((corpus.documents, corpus.packing.cut_documents, corpus.packing.cut_tokens), (5, 1, 5));
    }

    #[test]
    fn a_batch_has_the_rows_of_the_folder() {
        let tokenizer = testing::tokenizer("wordpiece");
        let options = LabelledOptions { max_seq_len: 8, separators: 1 };
        let pair = example("the cat", Some("sat"), ExampleTarget::Class(1));
        let encoded = EncodedExample::new(&pair, &tokenizer, options).expect("tokenized");
        let facts = tokenizer.facts();
        let vocab = facts.vocab(vec![0; facts.tokens.len()]);
        let view = AnyView::of_kind("labelled_example").expect("it is registered");
        let found = batch(&[encoded], "example", &view, 8, &vocab);
        let targets = found.column("example", schemas::columns::TARGETS).expect("made");
        let valid = found.column("example", ATTENTION_MASK).expect("made");
        assert_eq!((targets.row(0)[0], valid.row(0)), (1, &[1, 1, 1, 1, 1, 1, 0, 0][..]));
    }
}
