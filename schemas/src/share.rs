//! Share of the stream that a process trains on: one rank of several.
//!
//! # What
//! Micro-batches are assigned round-robin: the `n`-th of rank `q` of `W` is number `n·W + q` of the whole stream.
//!
//! # Why
//! A step of `R` rows has `A·W` micro-batches of `b` rows, for any assignment to ranks. Micro-batch `m` of rank `q` in
//! step `s` owns rows from `s·R + (m·W + q)·b`. So any number of ranks with micro-batches of one size makes the same
//! micro-batches, and together the ranks process the stream of a single process.

use std::fmt;
use std::ops::Range;

/// Rank of a process among those that train one model together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankShard {
    rank: u32,
    ranks: u32,
}

impl Default for RankShard {
    fn default() -> Self {
        Self::ALONE
    }
}

impl RankShard {
    /// Whole stream.
    pub const ALONE: Self = Self { rank: 0, ranks: 1 };

    /// Returns rank `rank` of `ranks`, counted from 0; `None` if there is no such rank.
    #[must_use]
    pub fn new(rank: u32, ranks: u32) -> Option<Self> {
        (rank < ranks).then_some(Self { rank, ranks })
    }

    /// Returns the number of this rank, counted from 0.
    #[must_use]
    pub fn rank(self) -> u32 {
        self.rank
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn ranks(self) -> u32 {
        self.ranks
    }

    /// Returns true for the rank that logs, saves and decides when to stop.
    #[must_use]
    pub fn is_first(self) -> bool {
        self.rank == 0
    }

    /// Returns the stream number of this rank's `own`-th micro-batch, saturating.
    #[must_use]
    pub fn in_stream(self, own: u64) -> u64 {
        own.saturating_mul(u64::from(self.ranks)).saturating_add(u64::from(self.rank))
    }

    /// Returns this rank's items among those of consecutive micro-batches of the stream, from the first of a step.
    pub fn select<T: IntoIterator>(self, items: T) -> impl Iterator<Item = T::Item> {
        items.into_iter().skip(self.rank as usize).step_by(self.ranks as usize)
    }

    /// Returns this rank's number of micro-batches among the stream's first `all`.
    #[must_use]
    pub fn of(self, all: u64) -> u64 {
        all.saturating_sub(u64::from(self.rank)).div_ceil(u64::from(self.ranks))
    }

    /// Returns the rows of this rank's `own`-th micro-batch in a stream that begins at row `from`: fewer, or none, if
    /// row numbers would overflow.
    #[must_use]
    pub fn rows(self, from: u64, own: u64, micro_batch_size: u64) -> Range<u64> {
        let start = self.in_stream(own).saturating_mul(micro_batch_size).saturating_add(from);
        start..start.saturating_add(micro_batch_size)
    }
}

impl fmt::Display for RankShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.ranks)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranks(count: u32) -> impl Iterator<Item = RankShard> {
        (0..count).map(move |rank| RankShard::new(rank, count).expect("a rank"))
    }

    proptest! {
        #[test]
        fn ranks_together_take_every_row_of_a_step_once(
            count in 1_u32..5, micro_batches in 1_u64..5, rows in 1_u64..6, step in 0_u64..4,
        ) {
            let per_step = micro_batches * u64::from(count) * rows;
            let mut seen: Vec<u64> = ranks(count)
                .flat_map(|share| {
                    let own = step * micro_batches..(step + 1) * micro_batches;
                    own.flat_map(move |own| share.rows(0, own, rows))
                })
                .collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (step * per_step..(step + 1) * per_step).collect::<Vec<_>>());
        }

        #[test]
        fn finite_stream_is_assigned_completely(count in 1_u32..6, all in 0_u64..40) {
            let mut seen: Vec<u64> =
                ranks(count).flat_map(|share| (0..share.of(all)).map(move |own| share.in_stream(own))).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..all).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_batch_behind_all_numbers_has_no_rows() {
        for own in [u64::MAX, 1 << 63, u64::MAX / 8 + 1] {
            for share in [RankShard::ALONE, RankShard::new(1, 2).expect("a rank")] {
                let rows = share.rows(5, own, 8);
                assert!(rows.start > u64::MAX / 2 && rows.end - rows.start < 8, "{own}: {rows:?}");
            }
        }
        assert_eq!(
            RankShard::ALONE.rows(0, u64::MAX / 8, 8),
            u64::MAX - 7..u64::MAX,
            "the last that there is is one short"
        );
        assert_eq!(RankShard::ALONE.rows(0, u64::MAX / 8 - 1, 8).count(), 8);
    }

    #[test]
    fn a_rank_is_one_of_its_ranks() {
        assert_eq!(
            (RankShard::new(0, 1), RankShard::new(1, 1), RankShard::new(0, 0)),
            (Some(RankShard::ALONE), None, None)
        );
        assert_eq!(RankShard::new(2, 3).expect("the last").to_string(), "rank 2 of 3");
        assert!(RankShard::ALONE.is_first() && !RankShard::new(1, 2).expect("the last").is_first());
    }
}
