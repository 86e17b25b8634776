//! Scheme of entity labels: the meaning of the prefixes of labels such as `B-PER`.

use std::collections::BTreeSet;
use std::fmt;

/// Scheme of entity labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntityScheme {
    /// Labels are types without prefixes. Neighbouring words of one type are one entity.
    Plain,
    /// `I-` and `O`, or `I-`, `E-` and `O`. Neighbouring words of one type are one entity, unless `E-` ends it.
    Io,
    /// BIO (IOB2), in which each entity begins with `B-`, or IOB1, in which only an entity directly after another one of
    /// its type does. Both are read in the same way.
    Bio,
    /// BIOES, also IOBES: `E-` ends an entity of several words, `S-` is an entity of one word.
    Bioes,
    /// BILOU, also BILUO: `L-` ends an entity of several words, `U-` is an entity of one word.
    Bilou,
}

/// Remedy of labels without a known scheme.
const HINT: &str = "rename the labels as BIO (`B-PER`, `I-PER`, `O`), or set `metric = \"accuracy\"`";

impl EntityScheme {
    /// Returns the scheme that the names of the labels show.
    ///
    /// # Errors
    /// If the labels are of no known scheme, or could be of several.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let labels: Vec<&str> = labels.into_iter().filter(|label| *label != "O").collect();
        let prefixes: BTreeSet<char> = labels.iter().filter_map(|label| prefix(label)).collect();
        if prefixes.is_empty() {
            let is_mistaken = |label: &&&str| label.contains('_') && prefix(&label.replacen('_', "-", 1)).is_some();
            let is_reversed = |label: &&&str| label.rsplit_once('-').is_some_and(|(_, end)| prefix(end).is_some());
            return match labels.iter().find(is_mistaken).or_else(|| labels.iter().find(is_reversed)) {
                Some(label) => Err(format!("the label `{label}` has no prefix such as `B-`; {HINT}")),
                None => Ok(Self::Plain),
            };
        }
        if let Some(label) = labels.iter().find(|label| prefix(label).is_none()) {
            return Err(format!("the label `{label}` has no prefix, and others have one; {HINT}"));
        }
        let has = |prefix: char| prefixes.contains(&prefix);
        // A word alone is `B-` in one scheme and `S-` or `U-` in the other, so the ends come together.
        let is_delimited = |end: char, single: char| {
            prefixes.iter().all(|prefix| ['B', 'I', end, single].contains(prefix))
                && has(single)
                && has('B') == has(end)
                && (has('B') || !has('I'))
        };
        match () {
            () if prefixes.iter().all(|prefix| "IE".contains(*prefix)) => Ok(Self::Io),
            () if prefixes.iter().all(|prefix| "BI".contains(*prefix)) => Ok(Self::Bio),
            () if is_delimited('E', 'S') => Ok(Self::Bioes),
            () if is_delimited('L', 'U') => Ok(Self::Bilou),
            () => {
                let found: Vec<String> = prefixes.iter().map(|prefix| format!("`{prefix}-`")).collect();
                let known = "BIO, IOB1, BIOES and BILOU are known";
                Err(format!("the prefixes {} are of no scheme of entities: {known}; {HINT}", found.join(", ")))
            }
        }
    }
}

impl fmt::Display for EntityScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "types without prefixes",
            Self::Io => "IO",
            Self::Bio => "BIO (IOB2 or IOB1)",
            Self::Bioes => "BIOES (IOBES)",
            Self::Bilou => "BILOU (BILUO)",
        })
    }
}

/// Returns the prefix of a label: one capital letter before a hyphen, or one of the letters of all schemes alone.
fn prefix(label: &str) -> Option<char> {
    let mut letters = label.chars();
    let first = letters.next()?;
    match letters.next() {
        None => "BIELSU".contains(first).then_some(first),
        Some('-') => first.is_ascii_uppercase().then_some(first),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheme(labels: &str) -> Result<EntityScheme, String> {
        EntityScheme::from_labels(labels.split(' '))
    }

    #[test]
    fn the_labels_show_their_scheme_or_are_refused() {
        for (labels, expected) in [
            ("O PER LOC ORG", EntityScheme::Plain),
            ("NOUN VERB -LRB-", EntityScheme::Plain),
            ("O I-PER I-LOC", EntityScheme::Io),
            ("O I-PER E-PER", EntityScheme::Io),
            ("O B-PER I-PER B-LOC", EntityScheme::Bio),
            ("B I O", EntityScheme::Bio),
            ("O B-PER I-PER E-PER S-PER S-X-Y", EntityScheme::Bioes),
            ("O S-PER", EntityScheme::Bioes),
            ("U-PER L-PER I-PER B-PER O", EntityScheme::Bilou),
            ("O U-PER B-LOC L-LOC", EntityScheme::Bilou),
        ] {
            assert_eq!(scheme(labels), Ok(expected), "{labels}");
        }
        for (labels, words) in [
            ("O B-PER M-PER E-PER S-PER", "`B-`, `E-`, `M-`, `S-`"),
            // Is a word alone `B-`, or `S-`?
            ("O B-PER I-PER S-PER", "no scheme"),
            ("O B-PER I-PER E-PER", "no scheme"),
            ("O B-PER I-PER L-PER S-PER", "no scheme"),
            ("O B-PER I-PER MISC", "the label `MISC` has no prefix"),
            ("O B_PER I_PER", "the label `B_PER` has no prefix such as `B-`"),
            ("O PER-B PER-I", "the label `PER-B` has no prefix such as `B-`"),
        ] {
            let problem = scheme(labels).expect_err(labels);
            assert!(problem.contains(words) && problem.contains("metric = \"accuracy\""), "{problem}");
        }
    }
}
