//! Grouping of pieces into parts, in an order drawn by a seed.

use schemas::{Epoch, PartId, SampleAddress};

use super::input_split::{Part, Piece};
use crate::permutation::Permutation;
use crate::rng::Key;

/// Maximum pieces of a part: shards store the file of a sample as a number of 16 bits.
const MAX_PIECES: usize = 1 << 16;

/// Groups pieces into parts of about `part_bytes`, numbered from `first` on. `pieces` come with their weights.
///
/// The order is a permutation of the pieces drawn with `seed` and `first`. So a part contains files from the whole
/// corpus, and the first parts are a fair sample of it. A piece of at least half a part forms a separate part. Smaller
/// pieces fill parts in the drawn order.
#[must_use]
pub fn group(mut pieces: Vec<(Piece, u64)>, part_bytes: u64, seed: u64, first: PartId) -> Vec<Part> {
    pieces.sort();
    let key = Key::new(seed, Epoch(u64::from(first.0)), "parts", "order");
    let order = Permutation::new(pieces.len() as u64, &mut key.row(SampleAddress::default(), 0));
    let mut drawn: Vec<_> = (0..pieces.len() as u64).map(|index| order.apply(index)).zip(pieces).collect();
    drawn.sort_by_key(|(place, _)| *place);
    let mut groups: Vec<Vec<(Piece, u64)>> = Vec::new();
    let mut open = None::<usize>;
    let mut filled = 0;
    for (_, (piece, bytes)) in drawn {
        if bytes.saturating_mul(2) >= part_bytes {
            groups.push(vec![(piece, bytes)]);
        } else if let Some(group) =
            open.filter(|&group| filled + bytes <= part_bytes && groups[group].len() < MAX_PIECES)
        {
            groups[group].push((piece, bytes));
            filled += bytes;
        } else {
            (open, filled) = (Some(groups.len()), bytes);
            groups.push(vec![(piece, bytes)]);
        }
    }
    let part = |(number, group): (u32, Vec<(Piece, u64)>)| Part {
        id: PartId(first.0 + number),
        bytes: group.iter().map(|(_, bytes)| bytes).sum(),
        pieces: group.into_iter().map(|(piece, _)| piece).collect(),
    };
    (0..).zip(groups).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(index: u64, bytes: u64) -> (Piece, u64) {
        (Piece { name: format!("{index:03}.txt"), bytes, range: 0..bytes }, bytes)
    }

    fn names(parts: &[Part]) -> Vec<&str> {
        parts.iter().flat_map(|part| &part.pieces).map(|piece| piece.name.as_str()).collect()
    }

    #[test]
    fn every_piece_is_in_one_part_and_parts_are_of_the_size() {
        let pieces: Vec<_> = (0..200).map(|index| piece(index, index * 37 % 120)).collect();
        let parts = group(pieces.clone(), 100, 0, PartId(7));
        assert_eq!(parts.iter().map(|part| part.id.0).collect::<Vec<_>>(), (7..).take(parts.len()).collect::<Vec<_>>());
        let mut found = names(&parts);
        found.sort_unstable();
        assert_eq!(found, pieces.iter().map(|(piece, _)| piece.name.as_str()).collect::<Vec<_>>());
        for part in &parts {
            assert!(part.bytes <= 100 || part.pieces.len() == 1, "{part:?}");
            assert_eq!(part.bytes, part.pieces.iter().map(|piece| piece.bytes).sum::<u64>());
        }
        let total: u64 = parts.iter().map(|part| part.bytes).sum();
        let full = total.div_ceil(100);
        assert!((parts.len() as u64) < 2 * full, "{} parts of {total} bytes", parts.len());
    }

    #[test]
    fn the_order_is_of_the_seed_alone_and_mixes() {
        let pieces: Vec<_> = (0..200).map(|index| piece(index, 10)).collect();
        let backwards = || pieces.iter().rev().cloned().collect();
        let parts = group(pieces.clone(), 100, 3, PartId(0));
        assert_eq!(group(backwards(), 100, 3, PartId(0)), parts, "not of the order in which they come");
        assert_ne!(names(&group(pieces.clone(), 100, 4, PartId(0))), names(&parts));
        let first: Vec<usize> = names(&parts)[..50].iter().map(|name| name[..3].parse().expect("a number")).collect();
        let early = first.iter().filter(|index| **index < 100).count();
        assert!((10..40).contains(&early), "the first quarter is from anywhere: {first:?}");
        assert!(group(Vec::new(), 100, 3, PartId(0)).is_empty());
    }

    /// A corpus of two hundred thousand files of a few bytes: no two files share a number.
    #[test]
    fn a_part_has_no_more_files_than_there_are_numbers() {
        let pieces: Vec<_> = (0..200_000).map(|index| piece(index, 1)).collect();
        let parts = group(pieces, 64 << 20, 0, PartId(0));
        let sizes: Vec<usize> = parts.iter().map(|part| part.pieces.len()).collect();
        assert_eq!(sizes, [65_536, 65_536, 65_536, 200_000 - 3 * 65_536]);
    }
}
