//! Effect of BERT's normalizer and pre-tokenizer on each character, queried from the crate.
//!
//! # Why characters suffice
//! All but one of the normalizer's steps process single characters: removal, white space, spaces around ideographs,
//! lower case. NFD decomposes characters one by one, then sorts adjacent marks; nonspacing marks are deleted next. So
//! the order is visible only if a mark is *kept*. The some hundred characters with such a mark are left to the crate,
//! with their chunk. The pre-tokenizer drops white space and makes every punctuation mark a word: single characters
//! again.
//!
//! # How
//! At the first character of a page of 256, the crate normalizes and splits all characters of the page at once, each
//! between two letters (0.2 ms). English text has five pages, Chinese a hundred.

use std::sync::OnceLock;

use tokenizers::normalizers::BertNormalizer;
use tokenizers::{
    NormalizedString, Normalizer as _, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer as _,
    pre_tokenizers::bert::BertPreTokenizer,
};

const PAGE: usize = 256;
const PAGES: usize = 0x11_0000 / PAGE;

/// Effect of normalizer and pre-tokenizer on a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Character<'a> {
    /// Kept as a character of a word.
    Kept,
    /// Replaced by these characters of a word.
    Mapped(&'a [u8]),
    /// Removed; the text on both sides is joined.
    Gone,
    /// Ends words.
    White,
    /// A separate word, of this id.
    SeparateWord(u32),
    /// Depends on other characters: left to the crate.
    Unknown,
}

/// Stored form of [`Character`]: replacements are in the text of the page.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Kept,
    Mapped(u16, u8),
    Gone,
    White,
    SeparateWord(u32),
    Unknown,
}

#[derive(Debug)]
struct Page {
    kinds: [Kind; PAGE],
    text: Vec<u8>,
}

/// All characters under one normalizer.
pub(crate) struct Characters {
    normalizer: BertNormalizer,
    pages: Box<[OnceLock<Box<Page>>]>,
}

impl Characters {
    pub(crate) fn new(normalizer: BertNormalizer) -> Self {
        Self { normalizer, pages: (0..PAGES).map(|_| OnceLock::new()).collect() }
    }

    /// Returns the effect on a character; `id` returns the id of a word.
    #[inline]
    pub(crate) fn classify(&self, character: char, id: impl Fn(&str) -> u32) -> Character<'_> {
        let code = character as usize;
        let page = self.pages[code / PAGE].get_or_init(|| Box::new(self.page(code / PAGE, &id)));
        match page.kinds[code % PAGE] {
            Kind::Kept => Character::Kept,
            Kind::Mapped(from, length) => Character::Mapped(&page.text[usize::from(from)..][..usize::from(length)]),
            Kind::Gone => Character::Gone,
            Kind::White => Character::White,
            Kind::SeparateWord(id) => Character::SeparateWord(id),
            Kind::Unknown => Character::Unknown,
        }
    }

    /// Queries the crate for a page.
    #[cold]
    fn page(&self, number: usize, id: &dyn Fn(&str) -> u32) -> Page {
        let mut page = Page { kinds: [Kind::Unknown; PAGE], text: Vec::new() };
        let characters: Vec<char> =
            (0..PAGE).filter_map(|at| char::from_u32(u32::try_from(number * PAGE + at).ok()?)).collect();
        let mut text = String::new();
        let mut ends = Vec::new();
        for character in &characters {
            text.extend(['x', *character, 'x', '\n']);
            ends.push(text.len());
        }
        let Some(words) = self.words(&text) else { return page };
        let mut rest = &words[..];
        let is_ordered = !self.reorders(&text);
        for (character, end) in characters.into_iter().zip(ends) {
            let count = rest.iter().take_while(|(_, start)| *start < end).count();
            let (mine, later) = rest.split_at(count);
            rest = later;
            let mine: Vec<&str> = mine.iter().map(|(word, _)| word.as_str()).collect();
            let kind = page.kind(character, &mine, id);
            let is_known =
                is_ordered || matches!(kind, Kind::Gone) || !self.reorders(character.encode_utf8(&mut [0; 4]));
            page.kinds[character as usize % PAGE] = if is_known { kind } else { Kind::Unknown };
        }
        page
    }

    /// Returns the words that the crate makes of a text, with their starts.
    fn words(&self, text: &str) -> Option<Vec<(String, usize)>> {
        let mut normalized = NormalizedString::from(text);
        self.normalizer.normalize(&mut normalized).ok()?;
        let mut split = PreTokenizedString::from(normalized);
        BertPreTokenizer.pre_tokenize(&mut split).ok()?;
        let splits = split.get_splits(OffsetReferential::Original, OffsetType::Byte);
        Some(splits.into_iter().map(|(word, (start, _), _)| (word.to_owned(), start)).collect())
    }

    /// Returns true if NFD could reorder a kept character of the text with an adjacent mark.
    fn reorders(&self, text: &str) -> bool {
        if !self.normalizer.strip_accents.unwrap_or(self.normalizer.lowercase) {
            return false;
        }
        let mut kept = NormalizedString::from(text);
        kept.nfd();
        let stripped = BertNormalizer::new(false, false, Some(true), false).normalize(&mut kept);
        // Marks of the first class (1) and of the last (240): any character with a class is reordered with one of them.
        let first = '\u{334}';
        let last = '\u{345}';
        let mut tried = String::new();
        for character in kept.get().chars().filter(|character| !character.is_ascii()) {
            tried.extend(['x', character, first, 'x', last, character]);
        }
        let mut ordered = NormalizedString::from(tried.as_str());
        ordered.nfd();
        stripped.is_err() || ordered.get() != tried
    }
}

impl Page {
    /// Derives the effect on a character from the words of its text between two `x`.
    fn kind(&mut self, character: char, words: &[&str], id: &dyn Fn(&str) -> u32) -> Kind {
        match words {
            ["xx"] => Kind::Gone,
            ["x", "x"] => Kind::White,
            ["x", alone, "x"] => Kind::SeparateWord(id(alone)),
            [word] => match word.strip_prefix('x').and_then(|word| word.strip_suffix('x')) {
                Some(inner) if inner.chars().eq([character]) => Kind::Kept,
                Some(inner) => self.put(inner).map_or(Kind::Unknown, |(from, length)| Kind::Mapped(from, length)),
                None => Kind::Unknown,
            },
            _ => Kind::Unknown,
        }
    }

    /// Stores the replacement of a character.
    fn put(&mut self, text: &str) -> Option<(u16, u8)> {
        let place = (u16::try_from(self.text.len()).ok()?, u8::try_from(text.len()).ok()?);
        self.text.extend_from_slice(text.as_bytes());
        Some(place)
    }
}
