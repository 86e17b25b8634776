//! Tokens that stand in a text as they are: `<s>`, `<mask>`.
//!
//! # Definition
//! As the crate finds them: those that are not `normalized` in the text, then, in what lies between, those that are;
//! normalizing changes nothing here. Of the tokens that occur, the leftmost counts, the longest of those that begin
//! there, and the search goes on behind it. A token with `lstrip` takes the white space before it away, as far as the
//! token before. What is left between tokens is encoded piece by piece, each for itself.
//!
//! # Invariants
//! No token holds white space, is to be a whole word, or strips on its right: with such a one, there is no path.

use serde_json::Value;

/// The added tokens of a tokenizer.
#[derive(Debug)]
pub(super) struct AddedTokens {
    /// Found in the text, and found in what lies between those.
    rounds: [Round; 2],
}

/// Tokens that are looked for together.
#[derive(Debug)]
struct Round {
    /// The longest first.
    tokens: Vec<AddedToken>,
    /// The bytes with which they begin.
    begins: Vec<u8>,
}

#[derive(Debug)]
struct AddedToken {
    content: String,
    id: u32,
    strips_left: bool,
}

/// What a text is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment<'a> {
    Text(&'a str),
    Token(u32),
}

impl AddedTokens {
    /// The tokens that a tokenizer lists, or why they are not understood.
    pub(super) fn of(list: &Value) -> Result<Self, String> {
        let mut rounds = [const { Round { tokens: Vec::new(), begins: Vec::new() } }; 2];
        for token in list.as_array().into_iter().flatten() {
            let content = token["content"].as_str().unwrap_or_default();
            for flag in ["single_word", "rstrip"] {
                if token[flag] != false {
                    return Err(format!("nothing is proved of `{content}`, an added token with `{flag}`"));
                }
            }
            if content.is_empty() || content.contains(char::is_whitespace) {
                return Err(format!("nothing is proved of `{content}`, an added token with white space"));
            }
            let id = token["id"].as_u64().and_then(|id| u32::try_from(id).ok());
            let id = id.ok_or_else(|| format!("the added token `{content}` has no id"))?;
            let round = usize::from(token["normalized"] != false);
            let token = AddedToken { content: content.to_owned(), id, strips_left: token["lstrip"] != false };
            rounds[round].tokens.push(token);
        }
        for round in &mut rounds {
            round.tokens.sort_by_key(|token| std::cmp::Reverse(token.content.len()));
            round.begins = round.tokens.iter().map(|token| token.content.as_bytes()[0]).collect();
            round.begins.sort_unstable();
            round.begins.dedup();
        }
        Ok(Self { rounds })
    }

    /// Tells the segments of `text`, none of them empty.
    pub(super) fn segments(&self, text: &str, tell: &mut impl FnMut(Segment<'_>)) {
        let [first, second] = &self.rounds;
        first.segments(text, &mut |segment| match segment {
            Segment::Text(text) => second.segments(text, tell),
            token @ Segment::Token(_) => tell(token),
        });
    }
}

impl Round {
    fn segments(&self, text: &str, tell: &mut impl FnMut(Segment<'_>)) {
        let mut behind = 0;
        while let Some((mut begin, token)) = self.find(text, behind) {
            let end = begin + token.content.len();
            if token.strips_left {
                begin = behind + text[behind..begin].trim_end().len();
            }
            if behind < begin {
                tell(Segment::Text(&text[behind..begin]));
            }
            tell(Segment::Token(token.id));
            behind = end;
        }
        if behind < text.len() {
            tell(Segment::Text(&text[behind..]));
        }
    }

    /// The first token at or behind `from`, and where it begins.
    fn find(&self, text: &str, mut from: usize) -> Option<(usize, &AddedToken)> {
        let bytes = text.as_bytes();
        loop {
            from += self.candidate(&bytes[from..])?;
            let here = |token: &&AddedToken| bytes[from..].starts_with(token.content.as_bytes());
            if let Some(token) = self.tokens.iter().find(here) {
                return Some((from, token));
            }
            from += 1;
        }
    }

    /// Where a token may begin.
    fn candidate(&self, text: &[u8]) -> Option<usize> {
        match self.begins[..] {
            [] => None,
            [one] => memchr::memchr(one, text),
            [one, two] => memchr::memchr2(one, two, text),
            [one, two, three] => memchr::memchr3(one, two, three, text),
            _ => text.iter().position(|byte| self.begins.binary_search(byte).is_ok()),
        }
    }
}
