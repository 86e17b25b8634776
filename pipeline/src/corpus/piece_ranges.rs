//! Ranges of a file that become pieces: whole files, cuts at borders of records, and groups of numbered units.

use super::bytes::can_be_entered;
use super::input_split::{PieceRange, ReadOptions};
use super::inputs::InputFile;
use crate::Result;

/// Returns a file as one piece.
pub(super) fn whole(file: &InputFile) -> Vec<PieceRange> {
    vec![(0..file.bytes, file.bytes)]
}

/// Cuts a plain file at the border that `border` finds at or after each multiple of `stride`. Other files stay whole.
pub(super) fn cut_at(
    file: &InputFile,
    stride: u64,
    reading: &ReadOptions,
    mut border: impl FnMut(u64) -> Result<u64>,
) -> Result<Vec<PieceRange>> {
    if file.bytes <= stride || !can_be_entered(file, reading) {
        return Ok(whole(file));
    }
    let mut cuts = vec![0];
    let mut at = stride;
    while at < file.bytes {
        let found = border(at)?;
        cuts.push(found.min(file.bytes));
        at = (found.max(at) / stride + 1).saturating_mul(stride);
    }
    cuts.push(file.bytes);
    cuts.dedup();
    Ok(cuts.windows(2).map(|pair| (pair[0]..pair[1], pair[1] - pair[0])).collect())
}

/// Groups units of a file, such as row groups, into pieces of at most `stride` bytes; into one piece if the file cannot
/// be cut. `sizes` are the bytes of the units, which the file claims.
pub(super) fn group_units(sizes: impl IntoIterator<Item = u64>, stride: u64, can_be_cut: bool) -> Vec<PieceRange> {
    let mut pieces: Vec<PieceRange> = Vec::new();
    for (index, bytes) in (0..).zip(sizes) {
        match pieces.last_mut() {
            Some((range, sum)) if !can_be_cut || sum.saturating_add(bytes) <= stride => {
                range.end = index + 1;
                *sum = sum.saturating_add(bytes);
            }
            _ => pieces.push((index..index + 1, bytes)),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_grouped_up_to_the_stride_and_may_claim_any_size() {
        let grouped = |sizes: &[u64], stride| group_units(sizes.iter().copied(), stride, true);
        assert_eq!(grouped(&[], 10), []);
        assert_eq!(grouped(&[4, 6, 1, 20, 3], 10), [(0..2, 10), (2..3, 1), (3..4, 20), (4..5, 3)]);
        assert_eq!(grouped(&[u64::MAX, u64::MAX, 1], u64::MAX), [(0..3, u64::MAX)]);
        assert_eq!(group_units([4, 6, 1], 1, false), [(0..3, 11)]);
    }
}
