//! Added tokens that are matched literally in a text: `<s>`, `<mask>`.
//!
//! # Definition
//! The same search as in the crate: tokens that are not `normalized` in the text, then, in the text between, those that
//! are; normalizing changes nothing here. Of the tokens that occur, the leftmost counts, the longest of those that
//! begin there, and the search continues after it. A token with `lstrip` removes the white space before it, as far as
//! the previous token. The text between tokens is encoded separately, piece by piece.
//!
//! # Invariants
//! No token contains white space, must be a whole word, or strips on its right: a tokenizer with such a token has no
//! fast tokenizer.

use serde_json::Value;

use super::super::added::{Added, Found};

/// Added tokens of a tokenizer.
#[derive(Debug)]
pub(super) struct AddedTokens {
    /// Tokens searched in the text, and tokens searched in the text between those.
    rounds: [Round; 2],
}

/// Tokens that are searched together.
#[derive(Debug)]
struct Round {
    tokens: Added,
    /// Tokens that strip on their left.
    strip_left: Vec<u32>,
}

/// Segment of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment<'a> {
    Text(&'a str),
    Token(u32),
}

impl AddedTokens {
    /// Parses the added tokens of a tokenizer, or returns the reason why they are not supported.
    pub(super) fn parse(list: &Value) -> Result<Self, String> {
        let list = list.as_array().map_or(&[][..], Vec::as_slice);
        for token in list {
            for flag in ["single_word", "rstrip"] {
                if token[flag] != false {
                    return Err(format!("nothing is proved of {}, an added token with `{flag}`", token["content"]));
                }
            }
        }
        let round = |normalized: bool| {
            let tokens = || list.iter().filter(move |token| (token["normalized"] != false) == normalized);
            let id = |token: &Value| token["id"].as_u64().and_then(|id| u32::try_from(id).ok());
            let named = |token: &'_ Value| Some((token["content"].as_str()?.to_owned(), id(token)?));
            let named: Option<Vec<_>> = tokens().map(named).collect();
            let named = named.ok_or("an added token has no content or no id")?;
            Ok::<_, String>(Round {
                tokens: Added::new(named.iter().map(|(content, id)| (&**content, *id)))?,
                strip_left: tokens().filter(|token| token["lstrip"] != false).filter_map(id).collect(),
            })
        };
        Ok(Self { rounds: [round(false)?, round(true)?] })
    }

    /// Passes the segments of `text` to `emit`, none of them empty.
    pub(super) fn segments(&self, text: &str, emit: &mut impl FnMut(Segment<'_>)) {
        let [first, second] = &self.rounds;
        first.segments(text, &mut |segment| match segment {
            Segment::Text(text) => second.segments(text, emit),
            token @ Segment::Token(_) => emit(token),
        });
    }
}

impl Round {
    fn segments(&self, text: &str, emit: &mut impl FnMut(Segment<'_>)) {
        let mut behind = 0;
        while let Some(Found { mut start, end, id }) = self.tokens.next(text.as_bytes(), behind) {
            if self.strip_left.contains(&id) {
                start = behind + text[behind..start].trim_end().len();
            }
            if behind < start {
                emit(Segment::Text(&text[behind..start]));
            }
            emit(Segment::Token(id));
            behind = end;
        }
        if behind < text.len() {
            emit(Segment::Text(&text[behind..]));
        }
    }
}
