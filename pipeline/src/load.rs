//! Index ↦ batch: the online half on one screen.
//!
//! A [`LoadPlan`] is a configuration checked against a manifest. [`LoadPlan::batch`] is the whole online half as a pure
//! function of rows: which they are by arithmetic ([`sampler`](crate::sampler)), samples from decoded row groups
//! ([`groups`](crate::shard::groups)), columns by views ([`collate`](crate::collate())). [`LoadPlan::stream`] is the
//! same function, run ahead by lanes from any row, for any [`Share`] of the rows: the same batches for any number of lanes.

mod cut;
mod folder;
mod plan;
mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use schemas::{Batch, BatchIndex, Epoch, RowIndex, Sample, SampleAddress, Share, Split, Vocab};
use serde::{Deserialize, Serialize};

use self::cut::Cut;
pub use self::folder::{open, read_vocab};
pub use self::plan::{LoadFacts, LoadRequest, Rows, ViewFacts};
pub use self::stream::{BatchStream, StreamOptions};
use crate::actor::LaneOptions;
use crate::audit::{Audit, AuditFacts};
use crate::collate::{Item, PlannedView, collate};
use crate::error::Result;
use crate::rng::Key;
use crate::sampler::{Pick, Sampler};
use crate::shard::groups::{Groups, Held};
use crate::shard::reader::Promise;

/// The section `[data]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// The prepared folder.
    pub folder: PathBuf,
    /// Tokens of a row, frame included; the manifest's `tokens_max` if not given. A narrower row is a piece of a sample.
    pub width: Option<u32>,
    /// Adjacent rows made of every sample (or piece).
    pub copies: u32,
    /// The share of the training split that is used: the first samples of every row group. Above 0, at most 1.
    pub fraction: f64,
    /// Row groups whose rows are shuffled together.
    pub shuffle_blocks: usize,
    /// Threads that make batches: as many as there are cores, at most 4, if not given. They change no number.
    pub lanes: Option<usize>,
    /// Finished batches that wait in each lane's queue.
    pub depth: usize,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            folder: PathBuf::from("data"),
            width: None,
            copies: 1,
            fraction: 1.0,
            shuffle_blocks: 16,
            lanes: None,
            depth: 2,
        }
    }
}

impl DataConfig {
    /// Number of lanes. Four feed any accelerator several times over.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.lanes.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(4))
    }
}

/// How often a partner is drawn before a row goes without.
const PARTNER_DRAWS: usize = 10;

/// The seed of validation, whatever the run's: its masks are the same for all runs on a folder.
pub const VALIDATION_SEED: u64 = 0;

/// A checked configuration: the only thing that can make batches.
#[derive(Debug)]
pub struct LoadPlan {
    folder: PathBuf,
    split: Split,
    promise: Promise,
    vocab: Arc<Vocab>,
    views: Vec<PlannedView>,
    /// Whether a view is made of two samples.
    pairs: bool,
    sampler: Sampler,
    seed: u64,
    copies: u32,
    pieces: u32,
    piece_tokens: usize,
    rows_per_batch: u64,
    end: Option<u64>,
    lanes: LaneOptions,
    shuffle_blocks: usize,
}

impl LoadPlan {
    /// The batch at `index` of the stream from its first row: a function of the plan and of `index` alone. `groups` only
    /// remembers what was decoded.
    ///
    /// # Errors
    /// [`Error::Shard`](crate::Error::Shard) if a row group is not what the manifest promises.
    pub fn batch(&self, groups: &Groups, index: BatchIndex) -> Result<Batch> {
        self.batch_by(groups, index, self.rows_of(index), (0, 1))
    }

    /// The rows `rows` as batch `index`, made by one of so many lanes.
    fn batch_by(
        &self,
        groups: &Groups,
        index: BatchIndex,
        rows: std::ops::Range<u64>,
        lane: (usize, usize),
    ) -> Result<Batch> {
        let first_row = RowIndex(rows.start);
        let picks = self.sampler.picks(rows);
        let held = self.hold(groups, &picks, lane)?;
        let items: Vec<Item<'_>> = picks.iter().map(|pick| self.item(pick, &held)).collect();
        Ok(collate(&self.views, &self.vocab, self.seed, index, &items).starting_at(first_row))
    }

    /// The batches of a share of the stream from row `from` on, made by the plan's lanes.
    #[must_use]
    pub fn stream(self: &Arc<Self>, from: RowIndex, share: Share) -> BatchStream {
        BatchStream::new(self, from, share, StreamOptions::default())
    }

    /// What each row of a batch is made of.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub fn explain(&self, groups: &Groups, index: BatchIndex) -> Result<Vec<RowFacts>> {
        let rows = self.rows_of(index);
        let picks = self.sampler.picks(rows.clone());
        let held = self.hold(groups, &picks, (0, 1))?;
        Ok(rows.zip(&picks).map(|(row, pick)| self.row_facts(RowIndex(row), pick, &held)).collect())
    }

    /// An empty memory for decoded row groups.
    #[must_use]
    pub fn groups(&self) -> Groups {
        Groups::new(self.folder.clone(), self.split.clone(), self.promise, self.is_resident())
    }

    /// An audit of the plan's batches, which has seen none.
    #[must_use]
    pub fn audit(&self) -> Audit {
        Audit::new(&self.views, &self.vocab, AuditFacts { copies: self.copies, frame: self.promise.frame })
    }

    /// Number of batches; training has no end.
    #[must_use]
    pub fn batches(&self) -> Option<u64> {
        self.whole().count()
    }

    /// The rows that a batch owns.
    #[must_use]
    pub fn rows_of(&self, index: BatchIndex) -> std::ops::Range<u64> {
        self.whole().rows(index.0)
    }

    /// The stream from its first row, all of it.
    fn whole(&self) -> Cut {
        self.cut(RowIndex(0), Share::ALONE)
    }

    fn cut(&self, from: RowIndex, share: Share) -> Cut {
        Cut { from, end: self.end, rows_per_batch: self.rows_per_batch, share }
    }

    /// Rows of a batch (the last of a validation may differ).
    #[must_use]
    pub fn rows_per_batch(&self) -> u64 {
        self.rows_per_batch
    }

    /// The vocabulary.
    #[must_use]
    pub fn vocab(&self) -> &Arc<Vocab> {
        &self.vocab
    }

    fn is_resident(&self) -> bool {
        self.sampler.windows_per_epoch() == 1
    }

    fn groups_alive_max(&self) -> u64 {
        let blocks = self.sampler.blocks().len();
        (if self.is_resident() { blocks } else { blocks.min(2 * self.sampler.window_blocks()) }) as u64
    }

    fn window_of(&self, row: u64) -> u64 {
        self.sampler.pick(RowIndex(row)).window
    }

    /// The groups that `picks` need, window by window: all of a window where partners are drawn from it.
    fn hold(&self, groups: &Groups, picks: &[Pick], lane: (usize, usize)) -> Result<BTreeMap<(u64, usize), Held>> {
        let mut needed: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
        for pick in picks {
            needed.entry(pick.window).or_default().insert(pick.block);
        }
        if self.pairs {
            for (&window, blocks) in &mut needed {
                blocks.extend(self.sampler.window(window));
            }
        }
        let mut held = BTreeMap::new();
        for (window, blocks) in needed {
            let blocks: Vec<_> = blocks.into_iter().map(|block| (block, self.sampler.blocks()[block])).collect();
            let found = groups.get(window, &blocks, lane)?;
            held.extend(found.into_iter().map(|(block, group)| ((window, block), group)));
        }
        Ok(held)
    }

    fn item<'a>(&self, pick: &Pick, held: &'a BTreeMap<(u64, usize), Held>) -> Item<'a> {
        let stored = held[&(pick.window, pick.block)].sample(pick.row);
        let copy = pick.copy * self.pieces + pick.piece;
        let (sample, index) = (self.piece(stored, pick.piece), self.sample_index(pick));
        let partner = if self.pairs { self.partner(pick, index, stored.documents, held) } else { None };
        Item { sample, partner, index, epoch: pick.epoch, copy, copies: self.copies, pieces: self.pieces }
    }

    /// A sample of another document from the same window, drawn at the address that a row's copies share: the window is
    /// decoded anyway.
    fn partner<'a>(
        &self,
        pick: &Pick,
        index: SampleAddress,
        documents: &[u64],
        held: &'a BTreeMap<(u64, usize), Held>,
    ) -> Option<Sample<'a>> {
        let rng = Key::new(self.seed, pick.epoch, "", "partner").row(index, pick.piece);
        let drawn = self.sampler.draws(pick.window, rng).take(PARTNER_DRAWS);
        drawn.map(|(block, row)| held[&(pick.window, block)].sample(row)).find(|other| other.documents != documents)
    }

    fn piece<'a>(&self, stored: Sample<'a>, piece: u32) -> Sample<'a> {
        let length = stored.input_ids.len();
        let start = piece as usize * self.piece_tokens;
        stored.slice(start.min(length)..(start + self.piece_tokens).min(length))
    }

    fn sample_index(&self, pick: &Pick) -> SampleAddress {
        let first = self.sampler.blocks()[pick.block].first;
        let row = u32::try_from(pick.row).expect("a row group is small");
        SampleAddress { row: first.row + row, ..first }
    }

    fn row_facts(&self, row: RowIndex, pick: &Pick, held: &BTreeMap<(u64, usize), Held>) -> RowFacts {
        let block = self.sampler.blocks()[pick.block];
        let item = self.item(pick, held);
        let mut documents: Vec<u64> =
            (0..item.sample.input_ids.len()).map(|token| item.sample.document(token)).collect();
        documents.dedup();
        RowFacts {
            row,
            epoch: pick.epoch,
            sample: item.index,
            piece: pick.piece,
            copy: pick.copy,
            shard: self.split.shards[block.shard as usize].path.clone(),
            group: block.group,
            row_in_group: pick.row,
            source: item.sample.source,
            documents,
        }
    }
}

/// Where a row comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFacts {
    /// Its number in the stream.
    pub row: RowIndex,
    /// The pass over the data.
    pub epoch: Epoch,
    /// The stored sample.
    pub sample: SampleAddress,
    /// Which piece of it.
    pub piece: u32,
    /// Which copy.
    pub copy: u32,
    /// The shard's path within the folder.
    pub shard: String,
    /// Row group within the shard.
    pub group: u32,
    /// Row within the group.
    pub row_in_group: usize,
    /// Source of the sample's first document.
    pub source: u16,
    /// The names of its documents, in order.
    pub documents: Vec<u64>,
}

#[cfg(test)]
mod tests;
