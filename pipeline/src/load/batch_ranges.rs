//! Partition of a stream of rows into the micro-batches of a rank.

use std::ops::Range;

use schemas::{BatchIndex, RankShard, RowIndex};

/// Micro-batches of one rank of a stream, computed arithmetically.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchRanges {
    /// First row.
    pub(super) from: RowIndex,
    /// Row after the last. `None` for training, which has no end.
    pub(super) end: Option<u64>,
    pub(super) rows_per_batch: u64,
    pub(super) share: RankShard,
}

impl BatchRanges {
    /// Number of micro-batches of all ranks together.
    fn all(&self) -> Option<u64> {
        self.end.map(|end| {
            let rows = end.saturating_sub(self.from.0);
            let full = rows / self.rows_per_batch;
            // In-batch objectives need two rows, so a row left over joins the batch before it.
            full + u64::from(rows % self.rows_per_batch > u64::from(full > 0))
        })
    }

    /// Number of micro-batches of this rank.
    pub(super) fn count(&self) -> Option<u64> {
        self.all().map(|all| self.share.of(all))
    }

    /// Rows of the rank's `own`-th micro-batch.
    pub(super) fn rows(&self, own: u64) -> Range<u64> {
        let rows = self.share.rows(self.from.0, own, self.rows_per_batch);
        match (self.end, self.all()) {
            (Some(end), Some(all)) if self.share.in_stream(own) + 1 >= all => rows.start.min(end)..end,
            _ => rows,
        }
    }

    /// Row after the `own`-th micro-batches of all ranks.
    pub(super) fn end_of_all(&self, own: u64) -> u64 {
        let end =
            RankShard::ALONE.rows(self.from.0, own, self.rows_per_batch.saturating_mul(self.share.ranks().into())).end;
        self.end.map_or(end, |last| last.min(end))
    }

    /// Number of a micro-batch: micro-batches of the whole stream before it.
    pub(super) fn index(&self, own: u64) -> BatchIndex {
        BatchIndex(self.rows(own).start / self.rows_per_batch)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shares_together_are_the_stream_of_one(
            from in 0_u64..50, end in prop::option::of(0_u64..90), rows_per_batch in 1_u64..7, ranks in 1_u32..4,
        ) {
            let cut = |share| BatchRanges { from: RowIndex(from), end, rows_per_batch, share };
            let alone = cut(RankShard::ALONE);
            let count = alone.count().unwrap_or(30);
            let mut together = Vec::new();
            for rank in 0..ranks {
                let cut = cut(RankShard::new(rank, ranks).expect("a rank"));
                let own = cut.count().unwrap_or_else(|| cut.share.of(30));
                together.extend((0..own).map(|own| (cut.index(own), cut.rows(own))));
                // A row left over may join the last micro-batch.
                prop_assert!((0..own).all(|own| cut.rows(own).end <= cut.end_of_all(own) + 1));
            }
            together.sort_by_key(|(index, rows)| (*index, rows.start));
            let expected: Vec<_> = (0..count).map(|own| (alone.index(own), alone.rows(own))).collect();
            prop_assert_eq!(&together, &expected);
            // Every row is in a batch, and no row is alone unless it is the only one.
            let mut next = from;
            for (_, rows) in &together {
                prop_assert_eq!(rows.start, next);
                prop_assert!(rows_per_batch == 1 || rows.end - rows.start > 1 || together.len() == 1);
                next = rows.end;
            }
            if let Some(end) = end {
                prop_assert_eq!(next, end.max(from));
            }
        }
    }
}
