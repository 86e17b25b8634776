//! Minima of many hash functions over the shingles of a document: the inner loop of `MinHash`.
//!
//! The functions are `h(x) = (x ⊕ c)·a mod 2^32` with random `c` and odd `a`, over shingle hashes `x` whose bits are
//! mixed. Sixteen functions are computed at a time in the widest registers of the processor. All widths give the same
//! minima.

#![allow(unsafe_code, reason = "instructions of some processors; each call is behind the check that they exist")]

/// Functions that are computed together.
pub(crate) const LANES: usize = 16;

/// Sixteen hash functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Functions {
    pub(crate) masks: [u32; LANES],
    /// Odd numbers.
    pub(crate) multipliers: [u32; LANES],
}

/// Lowers `minima` to those over `shingles`.
pub(crate) fn lower(functions: &Functions, shingles: &[u32], minima: &mut [u32; LANES]) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has these instructions.
            return unsafe { lower_avx512(functions, shingles, minima) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { lower_avx2(functions, shingles, minima) };
        }
    }
    lower_portable(functions, shingles, minima);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn lower_avx512(functions: &Functions, shingles: &[u32], minima: &mut [u32; LANES]) {
    lower_portable(functions, shingles, minima);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn lower_avx2(functions: &Functions, shingles: &[u32], minima: &mut [u32; LANES]) {
    lower_portable(functions, shingles, minima);
}

#[expect(clippy::inline_always, reason = "each caller compiles it for its own instructions")]
#[inline(always)]
fn lower_portable(functions: &Functions, shingles: &[u32], minima: &mut [u32; LANES]) {
    let Functions { masks, multipliers } = *functions;
    let mut lowest = *minima;
    for &shingle in shingles {
        for lane in 0..LANES {
            let hash = (shingle ^ masks[lane]).wrapping_mul(multipliers[lane]);
            lowest[lane] = lowest[lane].min(hash);
        }
    }
    *minima = lowest;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_gives_the_same_minima() {
        let number = |index: usize| u32::try_from(index + 1).expect("small").wrapping_mul(0x9E37_79B9);
        let functions = Functions {
            masks: std::array::from_fn(number),
            multipliers: std::array::from_fn(|lane| number(lane + 99) | 1),
        };
        let shingles: Vec<u32> = (500..777).map(number).collect();
        for length in [0, 1, 16, 277] {
            let mut expected = [u32::MAX; LANES];
            lower_portable(&functions, &shingles[..length], &mut expected);
            let mut found = [u32::MAX; LANES];
            lower(&functions, &shingles[..length], &mut found);
            assert_eq!(found, expected);
            let one = |lane: usize| {
                let hash = |shingle: &u32| (shingle ^ functions.masks[lane]).wrapping_mul(functions.multipliers[lane]);
                shingles[..length].iter().map(hash).min().unwrap_or(u32::MAX)
            };
            assert_eq!(expected, std::array::from_fn(one));
        }
    }
}
