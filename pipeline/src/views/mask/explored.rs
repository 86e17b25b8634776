//! Masks of a row's copies that do not overlap.

use std::ops::Range;

use crate::rng::RowAddress;

/// Returns the slice of `of` shuffled elements that belongs to the copy `at`; each copy requests `size` elements.
///
/// Slices of the same random order are exchangeable, and each is a uniform choice. So the averaged gradient of the
/// copies is unbiased (Zheng et al. 2020, section 3). If the copies request more than `of` elements in total, each gets
/// fewer. If there are more copies than elements, copies share.
pub(super) fn part(size: usize, of: usize, at: &RowAddress<'_>) -> Range<usize> {
    let copies = at.copies as usize;
    let size = size.min((of / copies).max(1)).min(of);
    let first = at.copy_number() as usize % copies.min(of).max(1) * size;
    first..first + size
}
