//! Search for added tokens in the raw text.
//!
//! The crate extracts them before any other step: the leftmost occurrence, the longest of those that begin there, and
//! so on after it. Here each begins with an ASCII punctuation mark, of which there are few kinds, so that the search is
//! cheap.

use std::collections::BTreeMap;

use memchr::{memchr, memchr2, memchr3};

use super::trie::Trie;

/// Added tokens, indexed by their first bytes.
#[derive(Debug)]
pub(super) struct Added {
    /// First bytes of the tokens.
    firsts: Vec<u8>,
    /// Texts of the tokens, with their ids.
    tokens: Trie,
    /// Bytes that occur in a token.
    bytes: [bool; 256],
}

/// Occurrence of an added token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) id: u32,
}

impl Added {
    /// Builds the search tables from tokens and their ids; or names a token that is not supported.
    pub(super) fn new<'a>(tokens: impl Iterator<Item = (&'a str, u32)>) -> Result<Self, String> {
        let tokens: Vec<(&str, u32)> = tokens.collect();
        let is_simple = |content: &str| {
            content.starts_with(|first: char| first.is_ascii_punctuation()) && !content.contains(char::is_whitespace)
        };
        if let Some((content, _)) = tokens.iter().find(|(content, _)| !is_simple(content)) {
            return Err(format!("the added token `{content}` does not begin with a mark, or has white space in it"));
        }
        let mut firsts: Vec<u8> = tokens.iter().map(|(content, _)| content.as_bytes()[0]).collect();
        firsts.sort_unstable();
        firsts.dedup();
        let mut bytes = [false; 256];
        tokens.iter().flat_map(|(content, _)| content.bytes()).for_each(|byte| bytes[usize::from(byte)] = true);
        // Of two tokens with the same text the first one counts.
        let mut known = BTreeMap::new();
        for (content, id) in &tokens {
            known.entry(content.as_bytes()).or_insert(*id);
        }
        Ok(Self { firsts, tokens: Trie::new(known.into_iter().collect()), bytes })
    }

    /// Returns the first occurrence at or after `from`.
    pub(super) fn next(&self, text: &[u8], mut from: usize) -> Option<Found> {
        loop {
            let rest = &text[from..];
            let start = from
                + match *self.firsts {
                    [] => None,
                    [a] => memchr(a, rest),
                    [a, b] => memchr2(a, b, rest),
                    [a, b, c] => memchr3(a, b, c, rest),
                    _ => rest.iter().position(|byte| self.firsts.contains(byte)),
                }?;
            if let Some((length, id)) = self.tokens.longest(&text[start..]) {
                return Some(Found { start, end: start + length, id });
            }
            from = start + 1;
        }
    }

    /// Returns true if a token could reach across a position next to these bytes.
    pub(super) fn has_any(&self, bytes: &[u8]) -> bool {
        bytes.iter().any(|&byte| self.bytes[usize::from(byte)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leftmost_and_longest_is_found() {
        let added = Added::new([("[A]", 1), ("[A]]", 2), ("<a>", 3), ("[", 4), ("*", 5), ("^^", 6)].into_iter())
            .expect("marks");
        let text = b"x[A]]<a>[B^^^*";
        let mut at = 0;
        let mut ids = Vec::new();
        while let Some(found) = added.next(text, at) {
            ids.push((found.start, found.id));
            at = found.end;
        }
        assert_eq!(ids, [(1, 2), (5, 3), (8, 4), (10, 6), (13, 5)]);
        assert_eq!(Added::new(std::iter::empty()).expect("none").next(text, 0), None);
    }

    #[test]
    fn others_are_refused_by_name() {
        for content in ["a", "é", "[a b]", " [a]", "", "\u{2013}"] {
            assert!(Added::new([("[A]", 1), (content, 2)].into_iter()).expect_err("refused").contains(content));
        }
    }
}
