//! Number of equal bands of pairs of documents, from which their similarity is estimated.

use crate::fold::Columns;

/// Counts the bands in which both documents of each pair have the same hash. Hashes of 0 equal nothing. Takes 36 bytes of
/// memory for each pair, and reads each band once.
///
/// # Errors
/// The first error of reading.
pub fn count_equal_bands<C: Columns>(
    pairs: &[(u32, u32)],
    bands: usize,
    columns: &mut C,
) -> Result<Vec<u32>, C::Error> {
    let mut documents: Vec<u32> = pairs.iter().flat_map(|&(one, other)| [one, other]).collect();
    documents.sort_unstable();
    documents.dedup();
    let mut hashes = vec![0_u64; documents.len()];
    let mut counts = vec![0_u32; pairs.len()];
    for band in 0..bands {
        hashes.fill(0);
        columns.band(band, &mut |document, hash| {
            if let Ok(index) = documents.binary_search(&document) {
                hashes[index] = hash;
            }
        })?;
        let hash = |document| documents.binary_search(document).map_or(0, |index| hashes[index]);
        for ((one, other), count) in pairs.iter().zip(&mut counts) {
            let found = hash(one);
            *count += u32::from(found != 0 && found == hash(other));
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes of each band by document.
    struct Memory(Vec<[u64; 3]>);

    impl Columns for Memory {
        type Error = std::convert::Infallible;

        fn exact(&mut self, _: &mut dyn FnMut(u32, u128)) -> Result<(), Self::Error> {
            unreachable!("bands are compared")
        }

        fn band(&mut self, band: usize, visit: &mut dyn FnMut(u32, u64)) -> Result<(), Self::Error> {
            (0..6).zip(&self.0).rev().for_each(|(document, hashes)| visit(document, hashes[band]));
            Ok(())
        }
    }

    #[test]
    fn equal_bands_are_counted_and_documents_without_a_band_share_none() {
        let mut columns = Memory(vec![[1, 2, 3], [0, 0, 0], [1, 5, 3], [0, 0, 0], [1, 2, 3], [9, 9, 9]]);
        let pairs = [(2, 0), (4, 0), (3, 1), (5, 4), (4, 2)];
        let Ok(counts) = count_equal_bands(&pairs, 3, &mut columns);
        assert_eq!(counts, [2, 3, 0, 0, 2]);
        let Ok(none) = count_equal_bands(&[], 3, &mut columns);
        assert!(none.is_empty());
    }
}
