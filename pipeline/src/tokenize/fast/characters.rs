//! What BERT's normalizer and pre-tokenizer make of each character, asked of the crate itself.
//!
//! # Why characters suffice
//! Of the steps of the normalizer, all but one look at single characters: those that are removed, white space, spaces
//! around ideographs, small letters. NFD takes characters apart one by one, then puts neighbouring marks in order; and
//! nonspacing marks are deleted next. So the order is seen only where a mark is *kept*, and characters that have one
//! (some hundred) are left to the crate, with the chunk in which they stand. The pre-tokenizer drops white space and makes
//! every punctuation mark a word: single characters again.
//!
//! # How
//! The characters of a page of 256, each between two letters, are normalized and split at once by the crate (0.2 ms), when
//! the first of them is met: of English text there are five pages, of Chinese a hundred.

use std::sync::OnceLock;

use tokenizers::normalizers::BertNormalizer;
use tokenizers::{
    NormalizedString, Normalizer as _, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer as _,
    pre_tokenizers::bert::BertPreTokenizer,
};

const PAGE: usize = 256;
const PAGES: usize = 0x11_0000 / PAGE;

/// What becomes of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Character<'a> {
    /// It is a character of a word.
    Kept,
    /// These are characters of a word instead.
    Mapped(&'a [u8]),
    /// It is removed; what is on its sides stays together.
    Gone,
    /// It ends words.
    White,
    /// It is a word by itself, of this id.
    SingleProcess(u32),
    /// It depends on others: the crate knows.
    Unknown,
}

/// [`Character`], as it is kept: what is written instead lies in the text of the page.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Kept,
    Mapped(u16, u8),
    Gone,
    White,
    SingleProcess(u32),
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

    /// What becomes of a character; `id` is the id of a word.
    #[inline]
    pub(crate) fn of(&self, character: char, id: impl Fn(&str) -> u32) -> Character<'_> {
        let code = character as usize;
        let page = self.pages[code / PAGE].get_or_init(|| Box::new(self.page(code / PAGE, &id)));
        match page.kinds[code % PAGE] {
            Kind::Kept => Character::Kept,
            Kind::Mapped(from, length) => Character::Mapped(&page.text[usize::from(from)..][..usize::from(length)]),
            Kind::Gone => Character::Gone,
            Kind::White => Character::White,
            Kind::SingleProcess(id) => Character::SingleProcess(id),
            Kind::Unknown => Character::Unknown,
        }
    }

    /// Asks the crate about a page.
    #[cold]
    fn page(&self, number: usize, id: &dyn Fn(&str) -> u32) -> Page {
        let mut page = Page { kinds: [Kind::Unknown; PAGE], text: Vec::new() };
        let characters: Vec<char> =
            (0..PAGE).filter_map(|at| char::from_u32(u32::try_from(number * PAGE + at).ok()?)).collect();
        let (mut text, mut ends) = (String::new(), Vec::new());
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

    /// The words that the crate makes of a text, and where in it they begin.
    fn words(&self, text: &str) -> Option<Vec<(String, usize)>> {
        let mut normalized = NormalizedString::from(text);
        self.normalizer.normalize(&mut normalized).ok()?;
        let mut split = PreTokenizedString::from(normalized);
        BertPreTokenizer.pre_tokenize(&mut split).ok()?;
        let splits = split.get_splits(OffsetReferential::Original, OffsetType::Byte);
        Some(splits.into_iter().map(|(word, (start, _), _)| (word.to_owned(), start)).collect())
    }

    /// Whether something of a text is kept that NFD could put behind or before a mark next to it.
    fn reorders(&self, text: &str) -> bool {
        if !self.normalizer.strip_accents.unwrap_or(self.normalizer.lowercase) {
            return false;
        }
        let mut kept = NormalizedString::from(text);
        kept.nfd();
        let stripped = BertNormalizer::new(false, false, Some(true), false).normalize(&mut kept);
        // Marks of the first class (1) and of the last (240): whatever has a class changes places with one of them.
        let (first, last) = ('\u{334}', '\u{345}');
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
    /// What those words say of a character that stood between two `x`.
    fn kind(&mut self, character: char, words: &[&str], id: &dyn Fn(&str) -> u32) -> Kind {
        match words {
            ["xx"] => Kind::Gone,
            ["x", "x"] => Kind::White,
            ["x", alone, "x"] => Kind::SingleProcess(id(alone)),
            [word] => match word.strip_prefix('x').and_then(|word| word.strip_suffix('x')) {
                Some(inner) if inner.chars().eq([character]) => Kind::Kept,
                Some(inner) => self.put(inner).map_or(Kind::Unknown, |(from, length)| Kind::Mapped(from, length)),
                None => Kind::Unknown,
            },
            _ => Kind::Unknown,
        }
    }

    /// Keeps what is written instead of a character.
    fn put(&mut self, text: &str) -> Option<(u16, u8)> {
        let place = (u16::try_from(self.text.len()).ok()?, u8::try_from(text.len()).ok()?);
        self.text.extend_from_slice(text.as_bytes());
        Some(place)
    }
}
