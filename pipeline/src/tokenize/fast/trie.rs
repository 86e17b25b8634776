//! Search for the longest word of a vocabulary at the beginning of a text.
//!
//! A double-array trie: the child of a node by a byte is at `base ^ byte`, and stores that byte. As no two nodes have
//! the same base, the byte identifies the parent.

use std::collections::VecDeque;

/// Size of a block, which contains all children of a node.
const BLOCK: usize = 256;

/// Number of blocks that are searched for room for several children: more would pack tighter, and take longer.
const OPEN_BLOCKS: usize = 2;

/// Marker of nodes at which no word ends.
const NO_WORD: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    base: u32,
    /// Byte of the edge from the parent; no byte for a free node.
    byte: u16,
    is_word: bool,
}

const FREE: Node = Node { base: 0, byte: u16::MAX, is_word: false };

/// Words and their ids.
#[derive(Debug)]
pub(super) struct Trie {
    nodes: Vec<Node>,
    /// Id of the word that ends at each node.
    ids: Vec<u32>,
    root: u32,
}

/// Node whose words share a prefix: `words[from..to]`.
struct Shared {
    node: Option<usize>,
    depth: usize,
    from: usize,
    to: usize,
}

/// Bases in use during construction.
struct Bases {
    taken: Vec<bool>,
    /// Start of the search for a single child.
    first: usize,
}

impl Trie {
    /// Builds a trie of words, each with its id.
    pub(super) fn new(words: Vec<(&[u8], u32)>) -> Self {
        let words = sorted(words);
        // The first block is the base of nodes without children: it stays empty.
        let mut trie = Self { nodes: vec![FREE; BLOCK], ids: vec![NO_WORD; BLOCK], root: 0 };
        let mut bases = Bases { taken: vec![true; BLOCK], first: BLOCK };
        let mut todo = VecDeque::from([Shared { node: None, depth: 0, from: 0, to: words.len() }]);
        while let Some(Shared { node, depth, mut from, to }) = todo.pop_front() {
            if let (Some(node), Some((_, id))) = (node, words[from..to].first().filter(|(word, _)| word.len() == depth))
            {
                trie.nodes[node].is_word = true;
                trie.ids[node] = *id;
            }
            from += words[from..to].iter().take_while(|(word, _)| word.len() == depth).count();
            let groups: Vec<&[(&[u8], u32)]> = words[from..to].chunk_by(|a, b| a.0[depth] == b.0[depth]).collect();
            if groups.is_empty() {
                continue;
            }
            let bytes: Vec<u8> = groups.iter().map(|group| group[0].0[depth]).collect();
            let base = trie.find_free(&mut bases, &bytes);
            match node {
                Some(node) => trie.nodes[node].base = base,
                None => trie.root = base,
            }
            for (byte, group) in bytes.iter().zip(groups) {
                let child = (base ^ u32::from(*byte)) as usize;
                trie.nodes[child].byte = u16::from(*byte);
                todo.push_back(Shared { node: Some(child), depth: depth + 1, from, to: from + group.len() });
                from += group.len();
            }
        }
        trie
    }

    /// Returns an unused base with free nodes for children by these bytes.
    fn find_free(&mut self, bases: &mut Bases, bytes: &[u8]) -> u32 {
        let is_free =
            |nodes: &[Node], base: usize| bytes.iter().all(|&byte| nodes[base ^ usize::from(byte)].byte == FREE.byte);
        // Most nodes have one child, which fits nearly anywhere: they fill the gaps.
        let first = match bytes {
            [_] => bases.first,
            _ => (self.nodes.len() / BLOCK).saturating_sub(OPEN_BLOCKS).max(1) * BLOCK,
        };
        let found = (first..self.nodes.len()).find(|&base| !bases.taken[base] && is_free(&self.nodes, base));
        let base = found.unwrap_or(self.nodes.len());
        if base == self.nodes.len() {
            self.nodes.resize(base + BLOCK, FREE);
            self.ids.resize(base + BLOCK, NO_WORD);
            bases.taken.resize(base + BLOCK, false);
        }
        if bytes.len() == 1 {
            bases.first = base + 1;
        }
        bases.taken[base] = true;
        u32::try_from(base).expect("fewer nodes than 2^32: a vocabulary was in memory")
    }

    /// Returns length and id of the longest word at the beginning of `text`.
    #[inline]
    pub(super) fn longest(&self, text: &[u8]) -> Option<(usize, u32)> {
        let mut base = self.root;
        let mut longest = None;
        for (at, &byte) in text.iter().enumerate() {
            let child = (base ^ u32::from(byte)) as usize;
            let node = self.nodes[child];
            if node.byte != u16::from(byte) {
                break;
            }
            if node.is_word {
                longest = Some((at + 1, child));
            }
            base = node.base;
        }
        longest.map(|(length, node)| (length, self.ids[node]))
    }
}

/// Returns the words in order, each once with its lowest id. Most comparisons need the first 8 bytes only, which takes a
/// third of the time.
fn sorted(words: Vec<(&[u8], u32)>) -> Vec<(&[u8], u32)> {
    let head = |word: &[u8]| {
        let mut bytes = [0; 8];
        let length = word.len().min(8);
        bytes[..length].copy_from_slice(&word[..length]);
        u64::from_be_bytes(bytes)
    };
    let mut keyed: Vec<(u64, &[u8], u32)> = words.into_iter().map(|(word, id)| (head(word), word, id)).collect();
    keyed.sort_unstable();
    keyed.dedup_by_key(|(_, word, _)| *word);
    keyed.into_iter().map(|(_, word, id)| (word, id)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_longest_word_is_found(
            words in prop::collection::btree_set(prop::collection::vec(any::<u8>().prop_map(|byte| byte & 0x83), 1..6), 0..200),
            texts in prop::collection::vec(prop::collection::vec(any::<u8>().prop_map(|byte| byte & 0x83), 0..8), 50),
        ) {
            let trie = Trie::new(words.iter().map(Vec::as_slice).zip(0..).collect());
            let ids: Vec<_> = words.iter().collect();
            for text in texts {
                let expected = (1..=text.len()).rev().find_map(|length| {
                    Some((length, u32::try_from(ids.iter().position(|word| word[..] == text[..length])?).ok()?))
                });
                prop_assert_eq!(trie.longest(&text), expected);
            }
        }
    }
}
