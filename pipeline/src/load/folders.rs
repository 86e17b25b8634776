//! The prepared folders that a stream is asked for, checked against one another.

use std::sync::Arc;

use runtime::PoolOptions;
use schemas::{DatasetVersion, Manifest, Problem};
use store::Store;

use super::request::{LoadRequest, MissingParts, Rows, SourceRequest};
use super::source::Source;
use super::windows::wide_enough;
use super::{LoadPlan, VALIDATION_SEED};
use crate::epoch_plan::{EpochPlan, EpochVersions, REFUSED_HINT, SegmentSource, SplitSnapshot};
use crate::error::Error;
use crate::mixture::{Mixture, Weight, apportion};
use crate::sampler::{Order, Sampler, SamplerOptions};
use crate::shard::opened::OpenShards;
use crate::shard::reader::Promise;

/// A folder that is asked for: all there is, or one of a mixture.
#[derive(Clone, Debug)]
pub(super) struct Folder<'a> {
    /// None for all there is.
    name: Option<&'a str>,
    store: &'a Store,
    manifest: &'a Manifest,
    follow: Option<Arc<dyn EpochVersions>>,
    /// Who gives the segments of its first epoch, where that is streamed.
    growth: Option<Arc<dyn SegmentSource>>,
    gone: MissingParts,
    /// The split that the stream is of, of the dataset version that it begins with.
    edition: SplitSnapshot,
    /// The rows of it that are wanted, where they have an end.
    end: Option<u64>,
}

impl<'a> LoadRequest<'a> {
    /// The folders that it names.
    pub(super) fn folders(&self) -> Vec<Folder<'a>> {
        if self.sources.is_empty() {
            let all =
                self.folder(None, self.store, self.manifest, self.dataset_version, self.follow.clone(), self.gone);
            return vec![Folder { growth: self.growth.clone(), ..all }];
        }
        let of_source = |source: &SourceRequest<'a>| {
            let SourceRequest { name, store, manifest, dataset_version, follow, gone, .. } = source;
            self.folder(Some(name), store, manifest, *dataset_version, follow.clone(), *gone)
        };
        self.sources.iter().map(of_source).collect()
    }

    fn folder(
        &self,
        name: Option<&'a str>,
        store: &'a Store,
        manifest: &'a Manifest,
        dataset_version: DatasetVersion,
        follow: Option<Arc<dyn EpochVersions>>,
        gone: MissingParts,
    ) -> Folder<'a> {
        let edition = match self.rows {
            Rows::Train => SplitSnapshot::train(manifest, dataset_version),
            Rows::Valid { .. } => SplitSnapshot::valid(manifest, dataset_version),
        };
        let edition = if gone == MissingParts::LeftOut { edition.left() } else { edition };
        Folder { name, store, manifest, follow, growth: None, gone, edition, end: None }
    }

    /// How its sources are mixed; none where there is one folder.
    pub(super) fn mixture(&self) -> Result<Option<Mixture>, Vec<Problem>> {
        let weights: Vec<(&str, &Weight)> = self.sources.iter().map(|source| (source.name, source.weight)).collect();
        if weights.is_empty() { Ok(None) } else { Mixture::new(&weights, self.copies(), self.seed).map(Some) }
    }

    /// Adjacent rows made of every sample or piece.
    pub(super) fn copies(&self) -> u32 {
        if self.rows == Rows::Train { self.data.copies_per_sample } else { 1 }
    }
}

impl Folder<'_> {
    /// The key of a configuration that names it.
    fn key(&self) -> String {
        self.name.map_or_else(|| "data.folder".to_owned(), |name| format!("sources.{name}.folder"))
    }

    /// The seed of all that is drawn for its samples, the order of its rows among it. Of a mixture each source has one of its
    /// own, by its name: parts and rows of two folders have the same numbers.
    fn seed(&self, request: &LoadRequest<'_>) -> u64 {
        let seed = if request.rows == Rows::Train { request.seed } else { VALIDATION_SEED };
        self.name.map_or(seed, |name| seed_of_source(seed, name))
    }

    /// What the stream has of it. `at_most` says how many of so many rows that follow one another in the stream are its own.
    pub(super) fn into_source(
        self,
        request: &LoadRequest<'_>,
        pieces: u32,
        at_most: &dyn Fn(u64) -> u64,
    ) -> Result<Source, Problem> {
        let (copies, seed) = (request.copies(), self.seed(request));
        let order = self.end.map_or(Order::Shuffled, |rows| Order::Spread(rows.div_ceil(u64::from(pieces))));
        let (window_blocks, fraction) = (request.data.shuffle_window_groups, request.data.fraction);
        let options = SamplerOptions { pieces, copies, seed, order, window_blocks, fraction };
        // What one worker of depth 1 keeps in flight: the order of rows depends on no other number of workers.
        let batches = PoolOptions { name: "batch", item: "batch", workers: 1, queue_depth: 1 }.max_items_alive() as u64;
        let rows = at_most(batches * request.rows_per_batch);
        let (key, edition) = (self.key(), Arc::new(self.edition));
        let outline = self.growth.is_some().then(|| Sampler::new(&edition.split, options));
        let course = match self.growth {
            None => EpochPlan::new(edition, self.follow, move |split, _| wide_enough(split, options, rows)),
            Some(growth) => {
                let follow = self.follow.expect("who says what is streamed says what follows");
                streamed(&edition, growth, follow, options).map_err(|error| unread(&key, &error))?
            }
        };
        let shards = Arc::new(OpenShards::new(self.store.clone(), Promise::of(self.manifest)));
        Ok(Source { name: self.name.map(str::to_owned), shards, course, outline, seed })
    }
}

/// A course whose first epoch is streamed. Its windows are those that its key says, whatever a batch is: workers that run
/// past one keep more of them, which then hold less.
fn streamed(
    edition: &Arc<SplitSnapshot>,
    growth: Arc<dyn SegmentSource>,
    follow: Arc<dyn EpochVersions>,
    options: SamplerOptions,
) -> crate::Result<EpochPlan> {
    EpochPlan::streamed(edition, (growth, options.window_blocks), follow, move |split, window| {
        let order = window.map_or(options.order, Order::Streamed);
        Sampler::new(split, SamplerOptions { order, ..options })
    })
}

fn unread(key: &str, error: &Error) -> Problem {
    let hint = match error {
        Error::Unfinished { .. } => "run `cloze prepare`, or let it go on",
        _ => "prepare a larger corpus",
    };
    Problem::new(key, error.to_string()).hint(hint)
}

/// What separates these seeds from any other use of BLAKE3; its digit is the version of the format.
const DOMAIN: &[u8] = b"cloze source 1";

/// The first 64 bits, little endian, of BLAKE3 over the domain, the seed and the name.
fn seed_of_source(seed: u64, name: &str) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(DOMAIN).update(&seed.to_le_bytes()).update(name.as_bytes());
    let [a, b, c, d, e, f, g, h, ..] = *hasher.finalize().as_bytes();
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// Whether there are rows, in folders that can be read.
pub(super) fn check_rows(request: &LoadRequest<'_>, folders: &[Folder<'_>], problems: &mut Vec<Problem>) {
    if request.rows_per_batch == 0 {
        problems.push(Problem::new("train.micro_batch_size", "0 rows are no batch").hint("give 1 or more"));
    }
    for folder in folders.iter().filter(|folder| folder.gone != MissingParts::Unread) {
        let refused = folder.edition.refusal().map(|refusal| Problem::new(folder.key(), refusal).hint(REFUSED_HINT));
        problems.extend(refused);
    }
    let empty = folders.iter().filter(|folder| folder.edition.split.rows() == 0);
    match request.rows {
        Rows::Train => {
            let told = |folder: &Folder<'_>| Problem::new(folder.key(), "its training split is empty");
            problems.extend(empty.map(|folder| told(folder).hint("prepare a larger corpus")));
        }
        Rows::Valid { rows: 0 } => problems.push(
            Problem::new("validation.rows", "0 rows are no validation")
                .hint("give 1 or more, or leave out `[validation]`"),
        ),
        Rows::Valid { .. } if empty.count() == folders.len() => {
            let hint = "prepare with a larger `prepare.valid_fraction`, or leave out `[validation]`";
            problems.push(Problem::new("validation.rows", "the validation split is empty").hint(hint));
        }
        Rows::Valid { .. } => {}
    }
}

/// Whether rows of all folders can stand in one batch: what the first is, the others must be.
pub(super) fn check_agreement(folders: &[Folder<'_>], problems: &mut Vec<Problem>) {
    let Some((first, others)) = folders.split_first() else { return };
    let (ours, first_key) = (first.manifest, first.key());
    for folder in others {
        let theirs = folder.manifest;
        let packed = |manifest: &Manifest| {
            let pack = &manifest.pack;
            (pack.content, pack.frame, pack.keeps_sentences, pack.cuts)
        };
        let differs = if theirs.tokenizer != ours.tokenizer {
            let size =
                |manifest: &Manifest| format!("{} {} ids", manifest.tokenizer.vocab_size, manifest.tokenizer.kind);
            Some((
                format!("its tokenizer ({}) is not that of `{first_key}` ({})", size(theirs), size(ours)),
                "tokenizer",
            ))
        } else if theirs.max_seq_len != ours.max_seq_len {
            let (theirs, ours) = (theirs.max_seq_len, ours.max_seq_len);
            Some((format!("its rows have {theirs} tokens, those of `{first_key}` {ours}"), "max_seq_len"))
        } else if packed(theirs) != packed(ours) {
            let (theirs, ours) = (&theirs.pack.name, &ours.pack.name);
            Some((format!("it is packed as `{theirs}`, `{first_key}` as `{ours}`"), "packing"))
        } else {
            None
        };
        problems.extend(differs.map(|(message, key)| {
            Problem::new(folder.key(), message).hint(format!("prepare all sources with one `prepare.{key}`"))
        }));
    }
}

/// More rows than anybody validates on.
const VALID_ROWS_MAX: u64 = 1 << 40;

/// Shares `rows` rows of validation out among the folders: in a mixture, in proportion to the weights that the stream begins
/// with. A folder without any is left out. Returns the rows of each of the others, fewer where it has no more.
pub(super) fn share_out(rows: u64, folders: &mut Vec<Folder<'_>>, mixture: Option<&Mixture>, pieces: u32) -> Vec<u64> {
    let shares = mixture.map(|mixture| mixture.first_shares().iter().map(|&share| share as f64).collect::<Vec<_>>());
    let wanted = shares.map_or_else(|| vec![rows], |shares| apportion(rows.min(VALID_ROWS_MAX), &shares));
    for (folder, wanted) in folders.iter_mut().zip(wanted) {
        folder.end = Some(wanted.min(folder.edition.split.rows() * u64::from(pieces)));
    }
    folders.retain(|folder| folder.end != Some(0));
    folders.iter().filter_map(|folder| folder.end).collect()
}

impl LoadPlan {
    /// Whether its rows are of several sources, by name.
    #[must_use]
    pub fn is_mixture(&self) -> bool {
        self.sources.iter().any(|source| source.name.is_some())
    }

    /// The sources of a mixture that the stream has rows of, by name; none where one folder is all there is.
    pub fn source_names(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().filter_map(|source| source.name.as_deref())
    }
}
