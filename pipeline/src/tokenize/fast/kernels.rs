//! What needs `unsafe`: instructions that not every processor has, and hints to its caches.
//!
//! All that is decided is decided elsewhere: a kernel does what a portable function of the same name does, and the tests
//! of that function run over both.
#![expect(unsafe_code, reason = "vector instructions are chosen at run time; each use says why it is sound")]

pub(super) mod byte_pairs;

/// Asks for the cache line at `place`, which will be read soon.
#[inline(always)]
pub(super) fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of every x86-64 processor, and a hint touches no memory; the address is that of a value.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
