//! Prepared folders of a load request, checked against one another.

use std::sync::Arc;

use runtime::PoolOptions;
use schemas::{DatasetVersion, Manifest, Problem};
use store::Store;

use super::request::{LoadRequest, MissingParts, Rows, SourceRequest};
use super::source::Source;
use super::windows::sampler_with_min_rows;
use super::{LoadPlan, VALIDATION_SEED};
use crate::epoch_plan::{EpochPlan, EpochVersions, REFUSED_HINT, SegmentSource, SplitSnapshot};
use crate::error::Error;
use crate::mixture::{Mixture, Weight, apportion};
use crate::sampler::{Order, Sampler, SamplerOptions};
use crate::shard::opened::OpenShards;
use crate::shard::reader::ShardExpectation;

/// Requested folder: the only one, or one of a mixture.
#[derive(Clone, Debug)]
pub(super) struct Folder<'a> {
    /// Name of the mixture source. `None` for the only folder.
    name: Option<&'a str>,
    store: &'a Store,
    manifest: &'a Manifest,
    epoch_versions: Option<Arc<dyn EpochVersions>>,
    /// Source of the segments of its first epoch, if that is streamed.
    segment_source: Option<Arc<dyn SegmentSource>>,
    gone: MissingParts,
    /// Split of the stream, in the dataset version that it begins with.
    snapshot: SplitSnapshot,
    /// Number of requested rows, if limited.
    end: Option<u64>,
}

impl<'a> LoadRequest<'a> {
    /// Returns the folders of the request.
    pub(super) fn folders(&self) -> Vec<Folder<'a>> {
        if self.sources.is_empty() {
            let all = self.folder(
                None,
                self.store,
                self.manifest,
                self.dataset_version,
                self.epoch_versions.clone(),
                self.missing_parts,
            );
            return vec![Folder { segment_source: self.segment_source.clone(), ..all }];
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
        let snapshot = match self.rows {
            Rows::Train => SplitSnapshot::train(manifest, dataset_version),
            Rows::Valid { .. } => SplitSnapshot::valid(manifest, dataset_version),
        };
        let snapshot = if gone == MissingParts::LeftOut { snapshot.left() } else { snapshot };
        Folder { name, store, manifest, epoch_versions: follow, segment_source: None, gone, snapshot, end: None }
    }

    /// Returns the mixture of its sources. `None` for one folder.
    pub(super) fn mixture(&self) -> Result<Option<Mixture>, Vec<Problem>> {
        let weights: Vec<(&str, &Weight)> = self.sources.iter().map(|source| (source.name, source.weight)).collect();
        if weights.is_empty() { Ok(None) } else { Mixture::new(&weights, self.copies(), self.seed).map(Some) }
    }

    /// Number of adjacent rows made of every sample or piece.
    pub(super) fn copies(&self) -> u32 {
        if self.rows == Rows::Train { self.data.copies_per_sample } else { 1 }
    }
}

impl Folder<'_> {
    /// Returns the configuration key that names the folder.
    fn key(&self) -> String {
        self.name.map_or_else(|| "data.folder".to_owned(), |name| format!("sources.{name}.folder"))
    }

    /// Returns the seed of all random draws for its samples, including the order of its rows. Each mixture source
    /// derives a seed from its name, because parts and rows of two folders have the same numbers.
    fn seed(&self, request: &LoadRequest<'_>) -> u64 {
        let seed = if request.rows == Rows::Train { request.seed } else { VALIDATION_SEED };
        self.name.map_or(seed, |name| seed_of_source(seed, name))
    }

    /// Converts the folder to a source of the stream. `at_most` returns the maximum number of its rows among that many
    /// consecutive rows of the stream.
    pub(super) fn into_source(
        self,
        request: &LoadRequest<'_>,
        pieces: u32,
        at_most: &dyn Fn(u64) -> u64,
    ) -> Result<Source, Problem> {
        let copies = request.copies();
        let seed = self.seed(request);
        let order = self.end.map_or(Order::Shuffled, |rows| Order::Spread(rows.div_ceil(u64::from(pieces))));
        let window_blocks = request.data.shuffle_window_groups;
        let fraction = request.data.fraction;
        let options = SamplerOptions { pieces, copies, seed, order, window_blocks, fraction };
        // The number of batches in flight with one worker of depth 1: the order of rows must not depend on the
        // configured workers.
        let batches = PoolOptions { name: "batch", item: "batch", workers: 1, queue_depth: 1 }.max_items_alive() as u64;
        let rows = at_most(batches * request.rows_per_batch);
        let key = self.key();
        let snapshot = Arc::new(self.snapshot);
        let outline = self.segment_source.is_some().then(|| Sampler::new(&snapshot.split, options));
        let course = match self.segment_source {
            None => EpochPlan::new(snapshot, self.epoch_versions, move |split, _| {
                sampler_with_min_rows(split, options, rows)
            }),
            Some(growth) => {
                let follow = self.epoch_versions.expect("who says what is streamed says what follows");
                streamed(&snapshot, growth, follow, options).map_err(|error| unread(&key, &error))?
            }
        };
        let shards = OpenShards::new(self.store.clone(), ShardExpectation::from_manifest(self.manifest));
        // The files of a local folder need no copies.
        let cache = request.cache.clone().filter(|_| self.store.local().is_none());
        let shards = Arc::new(shards.with_cache(cache));
        Ok(Source { name: self.name.map(str::to_owned), shards, epoch_plan: course, outline, seed })
    }
}

/// Returns an epoch plan whose first epoch is streamed. Its windows have the configured size, whatever the batch size.
/// Workers that run past one window keep more windows decoded, each with fewer rows.
fn streamed(
    snapshot: &Arc<SplitSnapshot>,
    growth: Arc<dyn SegmentSource>,
    follow: Arc<dyn EpochVersions>,
    options: SamplerOptions,
) -> crate::Result<EpochPlan> {
    EpochPlan::streamed(snapshot, growth, options.window_blocks, follow, move |split, window| {
        let order = window.map_or(options.order, Order::Streamed);
        Sampler::new(split, SamplerOptions { order, ..options })
    })
}

fn unread(key: &str, error: &Error) -> Problem {
    let hint = match error {
        Error::Unfinished { .. } => "run `cloze prepare`, or wait until it has prepared more",
        _ => "prepare a larger corpus",
    };
    Problem::new(key, error.to_string()).hint(hint)
}

/// Domain separation of these seeds from any other use of BLAKE3. The digit is the format version.
const DOMAIN: &[u8] = b"cloze source 1";

/// Returns the first 64 bits, little endian, of BLAKE3 over the domain, the seed and the name.
fn seed_of_source(seed: u64, name: &str) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(DOMAIN).update(&seed.to_le_bytes()).update(name.as_bytes());
    let [a, b, c, d, e, f, g, h, ..] = *hasher.finalize().as_bytes();
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// Checks that the folders can be read and have rows.
pub(super) fn check_rows(request: &LoadRequest<'_>, folders: &[Folder<'_>], problems: &mut Vec<Problem>) {
    if request.rows_per_batch == 0 {
        problems.push(Problem::new("train.micro_batch_size", "it must be above 0").hint("give 1 or more"));
    }
    for folder in folders.iter().filter(|folder| folder.gone != MissingParts::Unread) {
        let refused = folder.snapshot.refusal().map(|refusal| Problem::new(folder.key(), refusal).hint(REFUSED_HINT));
        problems.extend(refused);
    }
    let empty = folders.iter().filter(|folder| folder.snapshot.split.rows() == 0);
    match request.rows {
        Rows::Train => {
            let told = |folder: &Folder<'_>| Problem::new(folder.key(), "its training split is empty");
            problems.extend(empty.map(|folder| told(folder).hint("prepare a larger corpus")));
        }
        Rows::Valid { rows: 0 } => problems.push(
            Problem::new("validation.rows", "a validation needs at least 1 row")
                .hint("give 1 or more, or leave out `[validation]`"),
        ),
        Rows::Valid { .. } if empty.count() == folders.len() => {
            let hint = "prepare with a larger `prepare.valid_fraction`, or leave out `[validation]`";
            problems.push(Problem::new("validation.rows", "the validation split is empty").hint(hint));
        }
        Rows::Valid { .. } => {}
    }
}

/// Checks that rows of all folders can share a batch. The other folders must agree with the first.
pub(super) fn check_agreement(folders: &[Folder<'_>], problems: &mut Vec<Problem>) {
    let Some((first, others)) = folders.split_first() else { return };
    let ours = first.manifest;
    let first_key = first.key();
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
            let theirs = theirs.max_seq_len;
            let ours = ours.max_seq_len;
            Some((format!("its rows have {theirs} tokens, those of `{first_key}` {ours}"), "max_seq_len"))
        } else if packed(theirs) != packed(ours) {
            let theirs = &theirs.pack.name;
            let ours = &ours.pack.name;
            Some((format!("it is packed as `{theirs}`, `{first_key}` as `{ours}`"), "packing"))
        } else {
            None
        };
        problems.extend(differs.map(|(message, key)| {
            Problem::new(folder.key(), message).hint(format!("prepare all sources with one `prepare.{key}`"))
        }));
    }
}

/// Upper limit of validation rows, above any practical value.
const VALID_ROWS_MAX: u64 = 1 << 40;

/// Distributes `rows` validation rows among the folders, in proportion to the weights at the start of the stream.
/// Removes folders without rows. Returns the rows of each remaining folder, fewer if it does not have enough.
pub(super) fn apportion_rows(
    rows: u64,
    folders: &mut Vec<Folder<'_>>,
    mixture: Option<&Mixture>,
    pieces: u32,
) -> Vec<u64> {
    let shares = mixture.map(|mixture| mixture.first_shares().iter().map(|&share| share as f64).collect::<Vec<_>>());
    let wanted = shares.map_or_else(|| vec![rows], |shares| apportion(rows.min(VALID_ROWS_MAX), &shares));
    for (folder, wanted) in folders.iter_mut().zip(wanted) {
        folder.end = Some(wanted.min(folder.snapshot.split.rows() * u64::from(pieces)));
    }
    folders.retain(|folder| folder.end != Some(0));
    folders.iter().filter_map(|folder| folder.end).collect()
}

impl LoadPlan {
    /// Whether the rows come from several named sources.
    #[must_use]
    pub fn is_mixture(&self) -> bool {
        self.sources.iter().any(|source| source.name.is_some())
    }

    /// Names of the mixture sources that the stream has rows of. Empty for a single folder.
    pub fn source_names(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().filter_map(|source| source.name.as_deref())
    }
}
