//! Cache of split words, for the crate's encoder.
//!
//! Natural text repeats itself: of 100 words and punctuation marks of English novels, 99 are among the first 2^17
//! distinct ones. A look-up takes some 50 ns; the `tokenizers` crate takes about 10 µs to split a word.

#![expect(clippy::disallowed_types, reason = "looked up for every word of a corpus, and never iterated")]

use std::collections::HashMap;
use std::ops::Range;

use crate::Result;

/// Maximum number of cached chunks. The first ones are the frequent ones, so nothing is evicted: some 15 MB.
const CHUNKS_MAX: usize = 1 << 17;

/// Maximum bytes of a cached chunk. Longer chunks are rare and seldom recur.
const CHUNK_BYTES_MAX: usize = 32;

/// Ids of chunks of text.
#[derive(Debug, Default)]
pub(super) struct Memory {
    known: HashMap<Box<str>, Range<u32>>,
    ids: Vec<u32>,
}

impl Memory {
    /// Appends the ids of `chunk` to `target`; `encode` computes them if they are not cached.
    pub(super) fn append(
        &mut self,
        chunk: &str,
        target: &mut Vec<u32>,
        encode: impl FnOnce(&str, &mut Vec<u32>) -> Result<()>,
    ) -> Result<()> {
        if let Some(range) = self.known.get(chunk) {
            target.extend_from_slice(&self.ids[range.start as usize..range.end as usize]);
            return Ok(());
        }
        let before = target.len();
        encode(chunk, target)?;
        if chunk.len() <= CHUNK_BYTES_MAX && self.known.len() < CHUNKS_MAX {
            let end = |ids: &Vec<u32>| u32::try_from(ids.len()).expect("few chunks, and short ones");
            let start = end(&self.ids);
            self.ids.extend_from_slice(&target[before..]);
            self.known.insert(chunk.into(), start..end(&self.ids));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_encoded_once_and_only_short_ones_are_kept() {
        let long = "x".repeat(CHUNK_BYTES_MAX + 1);
        let mut memory = Memory::default();
        let mut calls = Vec::new();
        let mut target = Vec::new();
        for chunk in ["a", "bc", "", "a", "", &long, "bc", &long] {
            let encode = |chunk: &str, ids: &mut Vec<u32>| {
                calls.push(chunk.to_owned());
                ids.extend(chunk.bytes().map(u32::from));
                Ok(())
            };
            memory.append(chunk, &mut target, encode).expect("encodable");
        }
        assert_eq!(calls, ["a", "bc", "", &long, &long]);
        let expected: Vec<u32> = format!("abca{long}bc{long}").bytes().map(u32::from).collect();
        assert_eq!(target, expected);
    }
}
