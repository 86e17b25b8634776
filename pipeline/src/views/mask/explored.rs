//! Masks that do not overlap.

use std::ops::Range;

use crate::rng::RowAddress;

/// The slice of `of` things in random order that belongs to the copy `at`, each copy wanting `size` of them.
///
/// Slices of the same random order are exchangeable, and each by itself is a uniform choice: what makes the averaged
/// gradient of the copies unbiased (Zheng et al. 2020, section 3). Where the copies ask for more than there is, each gets
/// less; where there are more copies than things, copies share.
pub(super) fn part(size: usize, of: usize, at: &RowAddress<'_>) -> Range<usize> {
    let copies = at.copies as usize;
    let size = size.min((of / copies).max(1)).min(of);
    let first = at.copy_number() as usize % copies.min(of).max(1) * size;
    first..first + size
}
