//! The longest word of a vocabulary with which a text begins.
//!
//! A double array: the child of a node by a byte lies at `base ^ byte`, and says by which byte it is reached. As no two
//! nodes have one base, that is enough to know whose child it is.

use std::collections::VecDeque;

/// Children of a node lie in one block.
const BLOCK: usize = 256;

/// Blocks that are searched for room for several children: more would pack tighter, and take longer.
const OPEN_BLOCKS: usize = 2;

/// No word ends at this node.
const NO_WORD: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    base: u32,
    /// The byte by which it is reached; none reaches a node that is free.
    byte: u16,
    is_word: bool,
}

const FREE: Node = Node { base: 0, byte: u16::MAX, is_word: false };

/// Words and their ids.
#[derive(Debug)]
pub(super) struct Trie {
    nodes: Vec<Node>,
    /// The id of the word that ends at a node.
    ids: Vec<u32>,
    root: u32,
}

/// A node whose words share their first bytes: `words[from..to]`.
struct Shared {
    node: Option<usize>,
    depth: usize,
    from: usize,
    to: usize,
}

/// Which bases nodes have, while a trie is made.
struct Bases {
    taken: Vec<bool>,
    /// Where the search for one child continues.
    first: usize,
}

impl Trie {
    /// A trie of words, each with its id.
    pub(super) fn new(mut words: Vec<(&[u8], u32)>) -> Self {
        words.sort_unstable();
        words.dedup_by_key(|(word, _)| *word);
        // The first block belongs to nodes without children: nothing is ever there.
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
            let base = trie.room(&mut bases, &bytes);
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

    /// A base that no node has, at which there is room for children by these bytes.
    fn room(&mut self, bases: &mut Bases, bytes: &[u8]) -> u32 {
        let is_free =
            |nodes: &[Node], base: usize| bytes.iter().all(|&byte| nodes[base ^ usize::from(byte)].byte == FREE.byte);
        // Most nodes have one child, which finds a place nearly anywhere: they fill up what is behind the others.
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

    /// The longest word with which `text` begins: its length and its id.
    #[inline]
    pub(super) fn longest(&self, text: &[u8]) -> Option<(usize, u32)> {
        let (mut base, mut longest) = (self.root, None);
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
