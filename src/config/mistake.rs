//! Mistakes of a configuration. All are reported at once, each with its place and a hint.

use std::fmt;

use schemas::printable;

/// A [`Problem`](schemas::Problem) with its place, or an unreadable file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Description of the mistake.
    pub(crate) message: String,
    /// Place in the form `configs/taco.toml:12, [objectives.tc]` or `--set train.steps`.
    pub(crate) place: String,
    /// Suggested fix.
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

/// All mistakes of one configuration. An error is never empty.
#[derive(Debug, Default)]
pub struct Mistakes(pub(crate) Vec<Mistake>);

impl Mistakes {
    pub(crate) fn push(&mut self, problem: Mistake) {
        self.0.push(problem);
    }

    /// Returns `Ok` if there are none.
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

/// Returns the member of `known` that is most similar to `wrong`, if it is similar enough.
pub(crate) fn did_you_mean<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.into_iter().map(|word| (strsim::jaro_winkler(wrong, word), word));
    scored.filter(|(score, _)| *score > 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_a_file_are_escaped() {
        let text = Mistake::new("\u{1b}[2J.toml:1", "unknown key `\u{7}a`").hint("did\u{9b} you\nmean?").to_string();
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{9b}']) && text.contains("\\u{1b}[2J.toml:1"), "{text}");
        assert_eq!(text.lines().count(), 4);
    }

    #[test]
    fn similar_names_are_suggested_and_others_are_not() {
        assert_eq!(did_you_mean("cropp", ["crop", "mask"]), Some("crop"));
        assert_eq!(did_you_mean("zebra", ["crop", "mask"]), None);
    }
}
