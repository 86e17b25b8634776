//! What is wrong with a configuration: all of it at once, each with its place and a way out.

use std::fmt;

use schemas::printable;

/// A [`Problem`](schemas::Problem) with its place, or what could not be read at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// What is wrong.
    pub(crate) message: String,
    /// Where: `configs/taco.toml:12, [objectives.tc]`, or `--set train.steps`.
    pub(crate) place: String,
    /// What would satisfy it.
    pub(crate) hint: Option<String>,
}

impl Mistake {
    pub(crate) fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { message: message.into(), place: place.into(), hint: None }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n   in: {}", printable(&self.message), printable(&self.place))?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\n hint: {}", printable(hint)))
    }
}

/// Every mistake of one configuration. Never empty when it travels as an error.
#[derive(Debug, Default)]
pub struct Mistakes(pub(crate) Vec<Mistake>);

impl Mistakes {
    pub(crate) fn push(&mut self, problem: Mistake) {
        self.0.push(problem);
    }

    /// `Ok` when there are none.
    pub(crate) fn into_result(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = |index: usize| if index == 0 { "" } else { "\nerror: " };
        self.0.iter().enumerate().try_for_each(|(index, problem)| write!(f, "{}{problem}", separator(index)))?;
        if self.0.len() > 1 { write!(f, "\n{} problems", self.0.len()) } else { Ok(()) }
    }
}

impl std::error::Error for Mistakes {}

/// The member of `known` that `wrong` was probably meant to be.
pub(crate) fn did_you_mean<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.into_iter().map(|word| (strsim::jaro_winkler(wrong, word), word));
    scored.filter(|(score, _)| *score > 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_file_says_reaches_the_terminal_raw() {
        let said = Mistake::new("\u{1b}[2J.toml:1", "unknown key `\u{7}a`").hint("did\u{9b} you\nmean?").to_string();
        assert!(!said.contains(['\u{1b}', '\u{7}', '\u{9b}']) && said.contains("\\u{1b}[2J.toml:1"), "{said}");
        assert_eq!(said.lines().count(), 4);
    }

    #[test]
    fn a_near_miss_is_named_and_a_far_one_is_not() {
        assert_eq!(did_you_mean("cropp", ["crop", "mask"]), Some("crop"));
        assert_eq!(did_you_mean("zebra", ["crop", "mask"]), None);
    }
}
