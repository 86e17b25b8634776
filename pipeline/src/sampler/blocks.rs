//! Row groups of a split, and the visited part of each.

use schemas::{SampleAddress, Split};

/// Row group: the unit of decoding and of the coarse shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Index of the shard in its split.
    pub shard: u32,
    /// Row group within the shard.
    pub group: u32,
    /// First sample.
    pub first: SampleAddress,
    /// Number of visited samples.
    pub rows: u32,
    /// Number of stored samples.
    pub stored: u32,
}

/// Returns the row groups, each with the first `fraction` of its samples: a sample of the corpus spread over all of it.
pub(super) fn blocks(split: &Split, fraction: f64) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (shard, entry) in (0..).zip(&split.shards) {
        let mut first = SampleAddress { part: entry.part, row: entry.first_row };
        for (group, &rows) in (0..).zip(&entry.groups) {
            if rows > 0 {
                blocks.push(Block { shard, group, first, rows: share(fraction, rows), stored: rows });
            }
            first.row += rows;
        }
    }
    blocks
}

/// Minimum number of samples of a partly visited row group. Decoding it costs 3 ms for any number of samples.
const SPREAD_ROWS: u64 = 32;

/// Selects blocks spread over a split with `samples` visited samples, each in proportion to its size.
pub(super) fn spread(blocks: Vec<Block>, samples: u64) -> Vec<Block> {
    let rows = |blocks: &[Block]| blocks.iter().map(|block| u64::from(block.rows)).sum::<u64>();
    if samples >= rows(&blocks) {
        return blocks;
    }
    let mut count = usize::try_from(samples.div_ceil(SPREAD_ROWS)).unwrap_or(usize::MAX).clamp(1, blocks.len());
    let mut chosen = evenly(&blocks, count);
    while rows(&chosen) < samples {
        count = (2 * count).min(blocks.len());
        chosen = evenly(&blocks, count);
    }
    let all = u128::from(rows(&chosen));
    let mut before = 0;
    let visited = |rows: u128| rows * u128::from(samples) / all;
    for block in &mut chosen {
        let behind = before + u128::from(block.rows);
        block.rows = u32::try_from(visited(behind) - visited(before)).expect("a part of the block's rows");
        before = behind;
    }
    chosen.retain(|block| block.rows > 0);
    chosen
}

/// Returns `count` of the blocks, at equal distances.
fn evenly(blocks: &[Block], count: usize) -> Vec<Block> {
    (0..count).map(|index| blocks[(2 * index + 1) * blocks.len() / (2 * count)]).collect()
}

/// Returns `fraction` of `rows`, rounded up, so that every block has at least one row.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most `rows`, and positive")]
fn share(fraction: f64, rows: u32) -> u32 {
    ((fraction * f64::from(rows)).ceil() as u32).clamp(1, rows)
}
