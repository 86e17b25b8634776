//! Byte-pair merging of one pre-token, by rank.
//!
//! # Idea
//! The symbols of a word are initially its bytes. Repeatedly, of all adjacent pairs that merge, the leftmost of the
//! lowest rank is merged, until none is left. Words of at most 256 bytes are in arrays that are compacted at every
//! merge, so that the next lowest rank is the minimum of a short array. Longer words are in a list with a heap, so that
//! a megabyte of one letter takes n log n.
//!
//! # Invariants
//! - Symbols are ids. The crate detects an outdated pair by the id that it would produce, this code by its rank. Both
//!   are equivalent: symbols only ever grow, so a pair that covers the same bytes has the same border inside.
//! - If no merge produces a token that contains bytes `a` and `b` side by side, no merge crosses that position of a
//!   word, so both parts may be merged separately ([`Merges::joins`]).
//!
//! # Budget
//! 150 to 250 ns per word of English, once for each new word.
#![expect(clippy::cast_possible_truncation, reason = "numbers are packed into one and taken out again")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Rank of pairs that do not merge.
const NEVER: u16 = u16::MAX;

/// Bytes of the longest word that is merged in arrays.
const ARRAY: usize = 256;

/// All merges of a model.
#[derive(Debug)]
pub(in super::super) struct Merges {
    /// Id of every byte.
    bytes: [u16; 256],
    /// Rank of every pair of two bytes.
    byte_pairs: Box<[u16]>,
    /// Hash table of pairs: ids and rank in one number, or `EMPTY`.
    slots: Box<[u64]>,
    /// Bloom filter of the pairs: most look-ups fail, and it fits into a nearer cache than `slots`.
    sieve: Box<[u64]>,
    /// Result of each merge, by rank.
    made: Vec<u16>,
    /// One bit per two bytes, set if some merge joins them.
    joints: Box<[u64]>,
}

const EMPTY: u64 = u64::MAX;
const SIEVE_BITS: u32 = 20;

/// Merge as a model lists it: two symbols and their result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merge {
    pub(super) left: u16,
    pub(super) right: u16,
    pub(super) made: u16,
}

impl Merges {
    /// Builds the merges of a model, in order of rank, over the ids of bytes; `spellings` are the bytes of tokens.
    /// Returns `None` if there are more merges than ranks.
    pub(super) fn new(bytes: &[u16; 256], list: &[Merge], spellings: &[Vec<u8>]) -> Option<Self> {
        if list.len() >= NEVER.into() {
            return None;
        }
        let mut merges = Self {
            bytes: *bytes,
            byte_pairs: vec![NEVER; 1 << 16].into(),
            slots: vec![EMPTY; (list.len() * 2).next_power_of_two().max(2)].into(),
            sieve: vec![0; 1 << (SIEVE_BITS - 6)].into(),
            made: list.iter().map(|merge| merge.made).collect(),
            joints: vec![0; 1 << 10].into(),
        };
        for (rank, merge) in (0..).zip(list) {
            merges.insert(*merge, rank);
            for pair in spellings[usize::from(merge.made)].windows(2) {
                let joint = joint(pair[0], pair[1]);
                merges.joints[joint / 64] |= 1 << (joint % 64);
            }
        }
        for left in 0..=u8::MAX {
            for right in 0..=u8::MAX {
                let rank = merges.rank(bytes[usize::from(left)], bytes[usize::from(right)]);
                merges.byte_pairs[joint(left, right)] = rank;
            }
        }
        Some(merges)
    }

    /// Inserts a merge. If a pair is listed twice, the last rank counts.
    fn insert(&mut self, merge: Merge, rank: u16) {
        let pair = pair(merge.left, merge.right);
        let slots = self.slots.len();
        let sieve = hash(pair, 1 << SIEVE_BITS);
        let mut at = hash(pair, slots);
        while self.slots[at] != EMPTY && self.slots[at] >> 16 != u64::from(pair) {
            at = (at + 1) % slots;
        }
        self.slots[at] = u64::from(pair) << 16 | u64::from(rank);
        self.sieve[sieve / 64] |= 1 << (sieve % 64);
    }

    /// Returns the rank at which two symbols merge, or `NEVER`.
    #[inline]
    fn rank(&self, left: u16, right: u16) -> u16 {
        let pair = pair(left, right);
        let sieve = hash(pair, 1 << SIEVE_BITS);
        if self.sieve[sieve / 64] >> (sieve % 64) & 1 == 0 {
            return NEVER;
        }
        let mut at = hash(pair, self.slots.len());
        loop {
            let slot = self.slots[at];
            if slot >> 16 == u64::from(pair) {
                return slot as u16;
            }
            if slot == EMPTY {
                return NEVER;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Returns true if a token may contain `left` and `right` side by side.
    #[inline]
    pub(super) fn joins(&self, left: u8, right: u8) -> bool {
        let joint = joint(left, right);
        self.joints[joint / 64] >> (joint % 64) & 1 == 1
    }

    /// Appends the ids of `word`.
    pub(super) fn split(&self, word: &[u8], room: &mut MergeBuffers, ids: &mut Vec<u16>) {
        if word.len() <= ARRAY {
            self.split_in_arrays(word, &mut room.symbols, &mut room.ranks, ids);
        } else {
            self.split_in_list(word, room, ids);
        }
    }

    fn split_in_arrays(&self, word: &[u8], symbols: &mut [u16; ARRAY], ranks: &mut [u16; ARRAY], ids: &mut Vec<u16>) {
        let mut count = word.len();
        for (symbol, &byte) in symbols.iter_mut().zip(word) {
            *symbol = self.bytes[usize::from(byte)];
        }
        for (rank, pair) in ranks.iter_mut().zip(word.windows(2)) {
            *rank = self.byte_pairs[joint(pair[0], pair[1])];
        }
        while count > 1 {
            let lowest = ranks[..count - 1].iter().copied().fold(NEVER, u16::min);
            if lowest == NEVER {
                break;
            }
            let at = ranks[..count - 1].iter().position(|&rank| rank == lowest).expect("it was just found");
            symbols[at] = self.made[usize::from(lowest)];
            symbols.copy_within(at + 2..count, at + 1);
            ranks.copy_within((at + 1).min(count - 1)..count - 1, at);
            count -= 1;
            if at > 0 {
                ranks[at - 1] = self.rank(symbols[at - 1], symbols[at]);
            }
            if at + 1 < count {
                ranks[at] = self.rank(symbols[at], symbols[at + 1]);
            }
        }
        ids.extend_from_slice(&symbols[..count]);
    }

    fn split_in_list(&self, word: &[u8], room: &mut MergeBuffers, ids: &mut Vec<u16>) {
        let count = u32::try_from(word.len()).expect("a word of less than 4 GB");
        let MergeBuffers { nodes, heap, .. } = room;
        nodes.clear();
        nodes.extend((0..count).zip(word).map(|(at, &byte)| Node {
            symbol: self.bytes[usize::from(byte)],
            is_merged: false,
            before: at.wrapping_sub(1),
            behind: at + 1,
        }));
        let entry = |rank: u16, at: u32| Reverse(u64::from(rank) << 32 | u64::from(at));
        let ranked = |nodes: &[Node], left: u32, right: u32| {
            let rank = self.rank(nodes[left as usize].symbol, nodes[right as usize].symbol);
            (rank != NEVER).then(|| entry(rank, left))
        };
        heap.clear();
        heap.extend((1..count).filter_map(|at| ranked(nodes, at - 1, at)));
        while let Some(Reverse(top)) = heap.pop() {
            let rank = (top >> 32) as u16;
            let at = top as u32;
            let left = nodes[at as usize];
            // Outdated: merged since, or now part of another pair.
            if left.is_merged || left.behind == count {
                continue;
            }
            let right = nodes[left.behind as usize];
            if self.rank(left.symbol, right.symbol) != rank {
                continue;
            }
            nodes[left.behind as usize].is_merged = true;
            nodes[at as usize] = Node { symbol: self.made[usize::from(rank)], behind: right.behind, ..left };
            if right.behind < count {
                nodes[right.behind as usize].before = at;
                heap.extend(ranked(nodes, at, right.behind));
            }
            if left.before < count {
                heap.extend(ranked(nodes, left.before, at));
            }
        }
        ids.extend(nodes.iter().filter(|node| !node.is_merged).map(|node| node.symbol));
    }
}

/// Buffers for merging, kept for the next word.
#[derive(Debug)]
pub(super) struct MergeBuffers {
    symbols: [u16; ARRAY],
    /// Rank at which a symbol merges with the next.
    ranks: [u16; ARRAY],
    nodes: Vec<Node>,
    /// Heap of rank and position: the lowest rank first, the leftmost of equal ones.
    heap: BinaryHeap<Reverse<u64>>,
}

impl Default for MergeBuffers {
    fn default() -> Self {
        Self { symbols: [0; ARRAY], ranks: [0; ARRAY], nodes: Vec::new(), heap: BinaryHeap::new() }
    }
}

/// Symbol of a long word with the positions of its neighbours. The ends have positions that no word has.
#[derive(Clone, Copy, Debug)]
struct Node {
    symbol: u16,
    is_merged: bool,
    before: u32,
    behind: u32,
}

fn pair(left: u16, right: u16) -> u32 {
    u32::from(left) << 16 | u32::from(right)
}

fn joint(left: u8, right: u8) -> usize {
    usize::from(left) << 8 | usize::from(right)
}

/// Returns one of `count` slots, a power of two.
#[inline]
fn hash(pair: u32, count: usize) -> usize {
    (pair.wrapping_mul(0x9E37_79B9) >> (u32::BITS - count.trailing_zeros())) as usize
}
