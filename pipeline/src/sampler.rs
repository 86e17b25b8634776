//! Conversion of a row's number in an epoch to the stored sample of the row.
//!
//! Row `r` of an epoch is copy `r mod K` of position `r div K`. There is one position for each of N pieces (samples ×
//! pieces per sample). In each epoch the blocks (row groups) are permuted and cut into windows, and the pieces of a
//! window are permuted. A batch is any run of rows. Batches cross the ends of windows and epochs, so none is partial
//! and nothing is dropped.
//!
//! A position is found by a binary search and a permutation of a few steps, whatever its number. Resuming at step
//! 1,000,000 costs as much as starting. The [`epoch_plan`](crate::epoch_plan) determines the epoch of a row of the
//! stream, and its data.

mod blocks;

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use schemas::{Epoch, SampleAddress, Split};

pub use self::blocks::Block;
use self::blocks::{blocks, spread};
use crate::permutation::Permutation;
use crate::rng::{Key, Rng};

/// Order of the samples in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Shuffled again in every epoch.
    Shuffled,
    /// Blocks as stored, in one window whose rows are permuted. The value is the number of the window in a streamed
    /// epoch.
    Streamed(u64),
    /// This many samples, as stored, spread over the whole split, or all of them if there are fewer. Used for
    /// validation.
    Spread(u64),
}

/// Parameters of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplerOptions {
    /// Number of rows made of one stored sample.
    pub pieces: u32,
    /// Number of adjacent copies of each row.
    pub copies: u32,
    /// The run's seed.
    pub seed: u64,
    /// Order of the samples.
    pub order: Order,
    /// Maximum number of blocks per window.
    pub window_blocks: usize,
    /// Share of each block's samples that is visited, from its beginning; above 0, at most 1.
    pub fraction: f64,
}

/// Reference to the stored sample of one row, from the sampler to the batch builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRef {
    /// Index of the source in the stream; 0 from a sampler.
    pub source: usize,
    /// Index of the epoch span among those of the batch; 0 from a sampler.
    pub span: usize,
    /// Pass over the data of the source.
    pub epoch: Epoch,
    /// Stored sample.
    pub sample: SampleAddress,
    /// Piece of the stored sample.
    pub piece: u32,
    /// Copy of the piece.
    pub copy: u32,
    /// Window of the row. Counted over the epoch by a sampler, over the whole plan by an epoch plan.
    pub window: u64,
    /// Index into [`Sampler::blocks`].
    pub block: usize,
    /// Stored row within the block.
    pub row: usize,
}

/// Arithmetic of the epochs over one set of shards.
#[derive(Debug)]
pub struct Sampler {
    blocks: Vec<Block>,
    pieces: u64,
    copies: u64,
    rows_per_epoch: u64,
    seed: u64,
    order: Order,
    /// Blocks per window, the same in every epoch.
    window_sizes: Vec<usize>,
    /// Minimum number of rows of any window in any epoch.
    window_rows_min: u64,
    /// Epochs that were used last. Workers use one, or two around an epoch boundary.
    epochs: Mutex<Vec<Arc<EpochOrder>>>,
}

/// Order of one epoch: its blocks, and the start of each window.
#[derive(Debug)]
struct EpochOrder {
    epoch: Epoch,
    /// Block at each place.
    order: Vec<usize>,
    windows: Vec<WindowOrder>,
}

#[derive(Debug)]
struct WindowOrder {
    /// Places of its blocks.
    places: Range<usize>,
    /// First offset in the epoch.
    start: u64,
    /// Number of pieces up to and including each of its blocks.
    ends: Vec<u64>,
    rows: Option<Permutation>,
}

impl WindowOrder {
    /// Returns the block of a piece of the window, and the piece's number in the block. `order` is that of the epoch.
    fn find(&self, order: &[usize], piece: u64) -> (usize, u64) {
        let place = self.ends.partition_point(|&end| end <= piece);
        let before = if place == 0 { 0 } else { self.ends[place - 1] };
        (order[self.places.start + place], piece - before)
    }
}

impl Sampler {
    /// Creates the epochs over a split.
    ///
    /// # Panics
    /// If the split has no rows, or `pieces` or `copies` is 0.
    #[must_use]
    pub fn new(split: &Split, options: SamplerOptions) -> Self {
        let SamplerOptions { pieces, copies, seed, order, window_blocks, fraction } = options;
        assert!(pieces > 0 && copies > 0 && split.rows() > 0, "an epoch has rows");
        let blocks = match order {
            Order::Shuffled | Order::Streamed(_) => blocks(split, fraction),
            Order::Spread(samples) => spread(blocks(split, 1.0), samples),
        };
        let pieces = u64::from(pieces);
        let copies = u64::from(copies);
        let rows_per_epoch = blocks.iter().map(|block| u64::from(block.rows)).sum::<u64>() * pieces * copies;
        let window_blocks = if matches!(order, Order::Streamed(_)) { blocks.len() } else { window_blocks };
        let window_sizes = Vec::new();
        let epochs = Mutex::default();
        Self { blocks, pieces, copies, rows_per_epoch, seed, order, window_sizes, window_rows_min: 0, epochs }
            .with_windows(window_blocks)
    }

    /// Returns this sampler with windows of at most `window_blocks` blocks.
    #[must_use]
    pub fn with_windows(mut self, window_blocks: usize) -> Self {
        self.window_sizes = balanced(self.blocks.len(), window_blocks);
        let fewest = self.window_sizes.iter().copied().min().unwrap_or(0);
        let mut rows: Vec<u32> = self.blocks.iter().map(|block| block.rows).collect();
        if fewest > 0 && fewest < rows.len() {
            rows.select_nth_unstable(fewest);
        }
        let rows: u64 = rows[..fewest].iter().map(|&rows| u64::from(rows)).sum();
        self.window_rows_min = rows * self.pieces * self.copies;
        self.epochs = Mutex::default();
        self
    }

    /// Returns the visited row groups, in stored order.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Number of rows of one epoch, including copies.
    #[must_use]
    pub fn rows_per_epoch(&self) -> u64 {
        self.rows_per_epoch
    }

    /// Number of adjacent copies of each row.
    #[must_use]
    pub fn copies(&self) -> u64 {
        self.copies
    }

    /// Whether an epoch is one window, so that the split stays decoded.
    #[must_use]
    pub fn is_resident(&self) -> bool {
        self.window_sizes.len() == 1
    }

    /// Number of windows of one epoch.
    #[must_use]
    pub fn windows_per_epoch(&self) -> u64 {
        self.window_sizes.len() as u64
    }

    /// Number of blocks of the largest window.
    #[must_use]
    pub fn window_blocks(&self) -> usize {
        self.window_sizes.iter().copied().max().unwrap_or(0)
    }

    /// Minimum number of rows of any window in any epoch.
    #[must_use]
    pub fn window_rows_min(&self) -> u64 {
        self.window_rows_min
    }

    /// Returns the mixing error of a window, if each row group came from one source. It is the standard error of the
    /// share, in a window, of a source that is half of the data. For W of C row groups, drawn without replacement:
    /// `√((C − W) / (C − 1) · f / W) / 2`. `f = C · Σ s² / (Σ s)²` is 1 for groups of one size s and more for others.
    /// Returns 0 if a window is all of the data.
    #[must_use]
    pub fn mixture_error(&self) -> f64 {
        let all = self.blocks.len() as f64;
        let window = self.window_sizes.iter().copied().min().unwrap_or(0) as f64;
        let sizes = || self.blocks.iter().map(|block| f64::from(block.stored));
        let uneven = all * sizes().map(|size| size * size).sum::<f64>() / sizes().sum::<f64>().powi(2);
        if window < all { ((all - window) / (all - 1.0) * uneven / window).sqrt() / 2.0 } else { 0.0 }
    }

    /// Returns the rows `rows` of an epoch, counted from its first.
    ///
    /// # Panics
    /// If the epoch has fewer.
    #[must_use]
    pub fn rows(&self, epoch: Epoch, rows: Range<u64>) -> Vec<RowRef> {
        let order = self.epoch(epoch);
        let copy = |row: u64| u32::try_from(row % self.copies).expect("copies are a u32");
        rows.map(|row| self.row(&order, row / self.copies, copy(row))).collect()
    }

    /// Returns the blocks of a window of an epoch, in the epoch's order.
    #[must_use]
    pub fn window(&self, epoch: Epoch, window: u64) -> Vec<usize> {
        let epoch = self.epoch(epoch);
        let window = &epoch.windows[to_usize(window)];
        epoch.order[window.places.clone()].to_vec()
    }

    /// Returns the window of a row of an epoch, and the first row after the window.
    pub(crate) fn window_at(&self, epoch: Epoch, row: u64) -> (u64, u64) {
        let order = self.epoch(epoch);
        let offset = row / self.copies;
        let after = order.windows.partition_point(|window| window.start <= offset);
        let end = order.windows.get(after).map_or(self.rows_per_epoch, |next| next.start * self.copies);
        (after as u64 - 1, end)
    }

    /// Draws stored rows of a window one by one with replacement, endlessly: the block of each, and its row in the
    /// block.
    pub fn draws(&self, epoch: Epoch, window: u64, mut rng: Rng) -> impl Iterator<Item = (usize, usize)> {
        let epoch = self.epoch(epoch);
        let index = to_usize(window);
        std::iter::repeat_with(move || {
            let window = &epoch.windows[index];
            let rows = window.ends.last().map_or(0, |end| end / self.pieces);
            let drawn = rng.below(u32::try_from(rows).unwrap_or(u32::MAX));
            let (block, in_block) = window.find(&epoch.order, u64::from(drawn) * self.pieces);
            (block, self.stored_row(block, in_block / self.pieces))
        })
    }

    /// Returns the stored row of a block's `visited`-th row.
    fn stored_row(&self, block: usize, visited: u64) -> usize {
        let Block { rows, stored, .. } = self.blocks[block];
        to_usize(match self.order {
            Order::Shuffled | Order::Streamed(_) => visited,
            Order::Spread(_) => visited * u64::from(stored) / u64::from(rows),
        })
    }

    fn row(&self, order: &EpochOrder, offset: u64, copy: u32) -> RowRef {
        let index = order.windows.partition_point(|window| window.start <= offset) - 1;
        let window = &order.windows[index];
        let within = offset - window.start;
        let permuted = window.rows.as_ref().map_or(within, |permutation| permutation.apply(within));
        let (block, in_block) = window.find(&order.order, permuted);
        let row = self.stored_row(block, in_block / self.pieces);
        let first = self.blocks[block].first;
        let in_part = first.row + u32::try_from(row).expect("a row group is small");
        RowRef {
            source: 0,
            span: 0,
            epoch: order.epoch,
            sample: SampleAddress { row: in_part, ..first },
            piece: u32::try_from(in_block % self.pieces).expect("pieces are a u32"),
            copy,
            window: index as u64,
            block,
            row,
        }
    }

    fn epoch(&self, epoch: Epoch) -> Arc<EpochOrder> {
        let mut known = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(order) = known.iter().find(|order| order.epoch == epoch) {
            return Arc::clone(order);
        }
        let order = Arc::new(self.arrange(epoch));
        known.retain(|order| order.epoch.0 + 1 >= epoch.0 && order.epoch.0 <= epoch.0 + 1);
        known.push(Arc::clone(&order));
        order
    }

    fn arrange(&self, epoch: Epoch) -> EpochOrder {
        let count = self.blocks.len() as u64;
        let shuffled = self.order == Order::Shuffled;
        // Number of the first window, whose rows are permuted.
        let first = match self.order {
            Order::Shuffled => Some(0),
            Order::Streamed(number) => Some(number),
            Order::Spread(_) => None,
        };
        let mut rng = Key::new(self.seed, epoch, "", "blocks").row(SampleAddress::numbered(0), 0);
        let blocks = Permutation::new(count, &mut rng);
        let order: Vec<usize> =
            (0..count).map(|place| to_usize(if shuffled { blocks.apply(place) } else { place })).collect();
        let rows_key = Key::new(self.seed, epoch, "", "rows");
        let mut windows: Vec<WindowOrder> = Vec::with_capacity(self.window_sizes.len());
        let mut place = 0;
        let mut start = 0;
        for (index, &size) in (0..).zip(&self.window_sizes) {
            let ends = self.ends(&order, place..place + size);
            let pieces = ends.last().copied().unwrap_or(0);
            let address = first.map(|first: u64| SampleAddress::numbered(first + index));
            let rows = address.map(|address| Permutation::new(pieces, &mut rows_key.row(address, 0)));
            windows.push(WindowOrder { places: place..place + size, start, ends, rows });
            (place, start) = (place + size, start + pieces);
        }
        assert_eq!(start * self.copies, self.rows_per_epoch, "the windows of epoch {epoch} are all of it");
        EpochOrder { epoch, order, windows }
    }

    fn ends(&self, order: &[usize], places: Range<usize>) -> Vec<u64> {
        let pieces = order[places].iter().map(|&block| u64::from(self.blocks[block].rows) * self.pieces);
        pieces
            .scan(0, |end, pieces| {
                *end += pieces;
                Some(*end)
            })
            .collect()
    }
}

/// Cuts `count` blocks into the fewest windows of at most `window` each. Their sizes differ by at most one: a much
/// smaller last window could not be filled ahead of time.
fn balanced(count: usize, window: usize) -> Vec<usize> {
    let windows = count.div_ceil(window.max(1));
    (0..windows).map(|index| (index + 1) * count / windows - index * count / windows).collect()
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).expect("rows and blocks of a split are addressable")
}

#[cfg(test)]
mod tests;
