//! Memory of a fold, and the number of times that it reads each column.

/// Bytes of a document in the clusters and the set of exact duplicates.
const CLUSTER_BYTES_PER_1000: u64 = 4_000 + 250;

/// Bytes of a document for its partner.
const PARTNER_BYTES: u64 = 4;

/// Bytes of a document while the exact hashes, the largest column, are sorted: 128 bits and its number.
const ENTRY_BYTES: u64 = 20;

/// Entries above the share of a pass, since hashes are spread unevenly: 1/16 of the share and this number.
const SPARE_ENTRIES: u64 = 1024;

/// Memory of a fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldMemory {
    /// Bytes for clusters and verdicts, which grow with the documents.
    pub clusters: u64,
    /// Bytes for hashes that are sorted at a time.
    pub entries: u64,
    /// Number of times that each column is read.
    pub passes: u32,
}

impl FoldMemory {
    /// Computes the memory for that number of documents, of which at most `max_bytes` are for hashes.
    pub fn new(documents: u64, max_bytes: u64, keeps_partners: bool) -> Self {
        let all = documents.saturating_mul(ENTRY_BYTES);
        let (passes, entries) = if all <= max_bytes {
            (1, documents)
        } else {
            let passes = all.saturating_add(all / 16).div_ceil(max_bytes.max(1)).next_power_of_two().clamp(2, 1 << 16);
            let share = documents.div_ceil(passes);
            (passes, share + share / 16 + SPARE_ENTRIES)
        };
        let partners = if keeps_partners { documents.saturating_mul(PARTNER_BYTES) } else { 0 };
        Self {
            clusters: (documents.saturating_mul(CLUSTER_BYTES_PER_1000) / 1000).saturating_add(partners),
            entries: entries.saturating_mul(ENTRY_BYTES),
            passes: u32::try_from(passes).expect("at most 2^16"),
        }
    }

    /// Returns the number of entries that are sorted at a time.
    pub(crate) fn capacity(&self) -> usize {
        usize::try_from(self.entries / ENTRY_BYTES).expect("it fits into memory")
    }

    /// Returns the sum of both.
    pub fn bytes(&self) -> u64 {
        self.clusters + self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_by_more_passes() {
        let million = FoldMemory::new(1_000_000, 1 << 30, false);
        assert_eq!((million.clusters, million.entries, million.passes), (4_250_000, 20_000_000, 1));
        assert_eq!(FoldMemory::new(1_000_000, 1 << 30, true).clusters, 8_250_000);
        let billion = FoldMemory::new(1_000_000_000, 1 << 30, false);
        assert_eq!(billion.passes, 32);
        assert!(billion.entries <= 1 << 30);
    }
}
