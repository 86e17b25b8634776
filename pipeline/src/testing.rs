//! Helpers of this crate's unit tests.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

use schemas::columns::{ATTENTION_MASK, ORIGIN, TOKEN_TYPES};
use schemas::manifest::Frame;
use schemas::{Batch, BatchIndex, Epoch, Sample, SampleAddress, SpecialIds, TokenIds, Vocab};
use store::Store;

use crate::collate::{Item, PlannedView, collate};
use crate::views::AnyView;

/// Writes files, with their folders, below `home`. Compresses contents whose names end in the extension of a compression.
pub(crate) fn write_all(home: &Path, files: &[(&str, impl AsRef<[u8]>)]) {
    let folder = Store::folder(home).expect("a writable folder");
    for (name, bytes) in files {
        folder.put(name, &compressed(name, bytes.as_ref())).expect("written");
    }
}

/// Returns the bytes compressed as the file name indicates.
pub(crate) fn compressed(name: &str, bytes: &[u8]) -> Vec<u8> {
    match name.rsplit_once('.') {
        Some((_, "gz")) => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).expect("in memory");
            encoder.finish().expect("in memory")
        }
        Some((_, "zst")) => zstd::encode_all(bytes, 1).expect("in memory"),
        Some((_, "bz2")) => {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(bytes).expect("in memory");
            encoder.finish().expect("in memory")
        }
        Some((_, "xz")) => {
            let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
            encoder.write_all(bytes).expect("in memory");
            encoder.finish().expect("in memory")
        }
        Some((_, "lz4")) => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(bytes).expect("in memory");
            encoder.finish().expect("in memory")
        }
        _ => bytes.to_vec(),
    }
}

/// Renders the rows of a frame with all its columns: a batch of one view, `view`.
pub(crate) fn frame_rows(view: AnyView, width: usize, items: &[Item<'_>]) -> Batch {
    let tokens = (0..200).map(|id| format!("w{id}")).collect();
    let special = SpecialIds { pad: 0, unk: Some(1), cls: 2, sep: 3, mask: 4 };
    let vocab = Vocab::new(tokens, vec![true; 200], vec![1; 200], special, &[]);
    let wanted = [ATTENTION_MASK.spec(), ORIGIN.spec()].into_iter().chain(view.columns().iter().copied()).collect();
    let planned = PlannedView { name: "view".into(), view, of: None, frame: 0, ids: 0, width, wanted };
    collate(&[planned], &vocab, BatchIndex(0), items)
}

/// Sample with sentences of these lengths, all in one document.
#[derive(Debug)]
pub(crate) struct StoredSample {
    ids: Vec<u16>,
    starts: Vec<u16>,
    targets: Vec<i32>,
}

impl StoredSample {
    /// Creates a sample in which token `i` has the id `first_id + i mod 40`.
    pub(crate) fn new(lengths: &[usize], first_id: u16) -> Self {
        let ids = (0..lengths.iter().sum()).map(|at| first_id + u16::try_from(at % 40).expect("small")).collect();
        let start = |index| u16::try_from(lengths[..index].iter().sum::<usize>()).expect("short");
        Self { ids, starts: (0..lengths.len()).map(start).collect(), targets: Vec::new() }
    }

    /// Gives the sample targets.
    pub(crate) fn labelled(self, targets: &[i32]) -> Self {
        Self { targets: targets.to_vec(), ..self }
    }

    pub(crate) fn sample(&self) -> Sample<'_> {
        Sample {
            input_ids: TokenIds::U16(&self.ids),
            document_starts: &[0],
            documents: &[1],
            sentence_starts: &self.starts,
            targets: &self.targets,
            frame: Frame::ClsSep,
            source: 0,
            offset: 0,
        }
    }

    /// Number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether a sentence ends with this token.
    pub(crate) fn ends_at(&self, token: usize) -> bool {
        token + 1 == self.len() || self.starts.iter().any(|&start| usize::from(start) == token + 1)
    }

    /// Rows of this sample at `count` addresses.
    pub(crate) fn items<'a>(&'a self, partner: Option<&'a Self>, count: u64) -> Vec<Item<'a>> {
        self.items_at(partner, 0..count)
    }

    /// Rows of this sample at these addresses.
    pub(crate) fn items_at<'a>(&'a self, partner: Option<&'a Self>, addresses: Range<u64>) -> Vec<Item<'a>> {
        let partner = partner.map(Self::sample);
        let item = |index| Item {
            sample: self.sample(),
            partner,
            index: SampleAddress::numbered(index),
            seed: 1,
            epoch: Epoch(0),
            copy: 0,
            copies: 1,
            pieces: 1,
        };
        addresses.map(item).collect()
    }
}

/// Returns the origins of the first and the second segment of each row of [`frame_rows`].
pub(crate) fn segments(batch: &Batch) -> Vec<[Vec<usize>; 2]> {
    let origins = batch.column("view", ORIGIN).expect("made");
    let types = batch.column("view", TOKEN_TYPES).expect("made");
    let segment = |row, segment| {
        let cells = origins.row(row).iter().zip(types.row(row)).filter(|&(_, &of)| of == segment);
        cells.filter_map(|(&origin, _)| usize::try_from(origin).ok()).collect()
    };
    (0..batch.rows()).map(|row| [segment(row, 0), segment(row, 1)]).collect()
}

/// Asserts uniform counts by chi-square, at most five standard deviations above its mean.
pub(crate) fn assert_uniform(counts: &[u32]) {
    let expected = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
    let chi_square: f64 = counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
    let freedom = counts.len() as f64 - 1.0;
    assert!(chi_square < freedom + 5.0 * (2.0 * freedom).sqrt(), "{chi_square} for {freedom}: {counts:?}");
}

/// Asserts that numbers do not depend on the label, by chi-square, at most five standard deviations above its mean.
/// Adjacent rare numbers are counted together.
pub(crate) fn assert_same_law(seen: &[(usize, bool)]) {
    let mut counts = BTreeMap::<usize, [f64; 2]>::new();
    for &(number, label) in seen {
        counts.entry(number).or_default()[usize::from(label)] += 1.0;
    }
    let all = [0, 1].map(|label| counts.values().map(|count| count[label]).sum::<f64>());
    let mut chi_square = 0.0_f64;
    let mut freedom = -1.0_f64;
    let mut cell = [0.0; 2];
    for count in counts.values() {
        cell = [cell[0] + count[0], cell[1] + count[1]];
        let expected = all.map(|all| (cell[0] + cell[1]) * all / seen.len() as f64);
        if expected.iter().all(|&expected| expected >= 20.0) {
            chi_square += (0..2).map(|label| (cell[label] - expected[label]).powi(2) / expected[label]).sum::<f64>();
            (freedom, cell) = (freedom + 1.0, [0.0; 2]);
        }
    }
    assert!(freedom >= 5.0, "too few numbers to tell laws apart: {counts:?}");
    assert!(chi_square < freedom + 5.0 * (2.0 * freedom).sqrt(), "{chi_square} for {freedom}: {counts:?}");
}

/// Asserts a share of `count` draws, within five standard errors.
pub(crate) fn assert_share(hits: usize, count: usize, share: f64) {
    let found = hits as f64 / count as f64;
    let error = (share * (1.0 - share) / count as f64).sqrt();
    assert!((found - share).abs() < 5.0 * error, "{found} of {count}, {share} expected");
}

/// Names that [`tokenizer`] accepts.
pub(crate) const TOKENIZERS: [&str; 2] = ["wordpiece", "byte_bpe"];

/// WordPiece vocabulary for tests.
pub(crate) const VOCAB: [&str; 28] = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat", "##s", "a", "##t", "e", "s", "##e",
    ".", ",", "'", "it", "1", "##2", "7", "中", "文", "i", "d", "#",
];

/// Creates a small tokenizer of one of the two families.
pub(crate) fn tokenizer(name: &str) -> crate::tokenize::HfTokenizer {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (vocab, merges) = byte_pairs();
    let files =
        [("wordpiece/vocab.txt", VOCAB.join("\n")), ("byte_bpe/vocab.json", vocab), ("byte_bpe/merges.txt", merges)];
    write_all(home.path(), &files);
    crate::tokenize::load(&home.path().join(name), (name == "wordpiece").then_some(true)).expect("a tokenizer")
}

/// Returns all byte characters and a few merges, with RoBERTa's special tokens.
fn byte_pairs() -> (String, String) {
    let mut tokens: Vec<String> = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"].map(String::from).to_vec();
    let mut alphabet: Vec<char> = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet().into_iter().collect();
    alphabet.sort_unstable();
    tokens.extend(alphabet.iter().map(char::to_string));
    let merges = ["Ġ t", "h e", "Ġt he", "Ġ Ġ", "Ċ Ċ", "Ġ a", "' s", "Ġ s"];
    tokens.extend(merges.iter().map(|pair| pair.replace(' ', "")));
    let ids: std::collections::BTreeMap<_, _> = tokens.into_iter().zip(0..).collect();
    (serde_json::to_string(&ids).expect("JSON"), format!("#version: 0.2\n{}\n", merges.join("\n")))
}
