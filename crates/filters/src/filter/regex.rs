//! Regular expressions.
//!
//! # What
//! Removes documents that match, keeps only those, or replaces the matches.
//!
//! # Why
//! Boilerplate of one source, such as licence headers or navigation lines, needs a rule for that source.
//!
//! # Definition
//! The syntax is that of the crate `regex`: Unicode classes, no look-around, no back-references. A search takes linear time.
//! `^` and `$` match at line ends after `(?m)`. `replacement` may refer to groups as `${1}` or `${name}`; `$$` is a dollar
//! sign. Without braces, all letters and digits that follow belong to the name. A replacement can match again, so this filter
//! is not idempotent. Rules:
//! - `match` for `action = "remove"`, `no_match` for `"keep"`, `blank_after_replacement` for `"replace"`;
//! - `too_long_after_replacement`: the text would grow to more than 4 times its length and 64 KiB. Each `$` of the
//!   replacement counts with the length of the match.
//!
//! # Reference
//! Thompson 1968, "Regular Expression Search Algorithm"; <https://docs.rs/regex> for the syntax.

use std::borrow::Cow;

use schemars::JsonSchema;
use schemas::Problem;
use serde::{Deserialize, Serialize};

use super::{Filter, FilterVerdict, RemovalReason, TextFilter};

/// Maximum memory of a compiled pattern, and of the states that a search caches, in bytes.
const MAX_COMPILED_BYTES: usize = 8 << 20;

/// Maximum growth of a text by replacements, and bytes that every text may grow by.
const MAX_GROWTH: usize = 4;
const FREE_GROWTH_BYTES: usize = 1 << 16;

/// Regular expression. See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Regex {
    /// Regular expression. It must be given.
    pub pattern: String,
    /// Reaction to a match.
    pub action: RegexAction,
    /// Replacement of each match, for `action = "replace"`.
    pub replacement: String,
}

/// Reaction to a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RegexAction {
    /// Removes documents that match.
    #[default]
    Remove,
    /// Removes documents that do not match.
    Keep,
    /// Replaces each match.
    Replace,
}

impl Regex {
    fn compile(&self) -> Result<regex::Regex, Problem> {
        let mut builder = regex::RegexBuilder::new(&self.pattern);
        let built = builder.size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES).build();
        built.map_err(|error| {
            let pattern = self.pattern.escape_debug();
            let (what, hint) = match error {
                regex::Error::CompiledTooBig(most) => (
                    format!("it needs more than {most} bytes when compiled"),
                    "use smaller repetitions such as `{1,9}`, or several filters",
                ),
                // The message of the crate repeats the pattern on lines before the last.
                other => {
                    let text = other.to_string();
                    let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                    (last, "the syntax is that of <https://docs.rs/regex>; in TOML, write patterns in single quotes")
                }
            };
            Problem::new("pattern", format!("`{pattern}`: {what}")).hint(hint)
        })
    }
}

impl Filter for Regex {
    fn problems(&self) -> Vec<Problem> {
        if self.pattern.is_empty() {
            let hint = "give a regular expression in single quotes";
            return vec![Problem::new("pattern", "it is missing").hint(hint)];
        }
        let mut problems: Vec<Problem> = self.compile().err().into_iter().collect();
        if !self.replacement.is_empty() && self.action != RegexAction::Replace {
            let hint = "set `action = \"replace\"`, or leave it out";
            problems.push(Problem::new("replacement", "the action replaces nothing").hint(hint));
        }
        problems
    }

    fn is_idempotent(&self) -> bool {
        self.action != RegexAction::Replace
    }

    fn build(&self, _: Option<&[u8]>) -> Result<Box<dyn TextFilter>, Problem> {
        Ok(Box::new(Matcher { regex: self.compile()?, action: self.action, replacement: self.replacement.clone() }))
    }
}

struct Matcher {
    regex: regex::Regex,
    action: RegexAction,
    replacement: String,
}

impl TextFilter for Matcher {
    fn apply(&self, text: &str) -> FilterVerdict {
        match self.action {
            RegexAction::Remove => FilterVerdict::remove_if(
                self.regex.find(text).map(|found| RemovalReason::of_rule("match").with_found(found.as_str())),
            ),
            RegexAction::Keep if !self.regex.is_match(text) => FilterVerdict::remove("no_match"),
            RegexAction::Replace => self.replace(text),
            RegexAction::Keep => FilterVerdict::Keep,
        }
    }
}

impl Matcher {
    fn replace(&self, text: &str) -> FilterVerdict {
        let most = text.len().saturating_mul(MAX_GROWTH).saturating_add(FREE_GROWTH_BYTES);
        let Some(replaced) = replace_all(&self.regex, text, &self.replacement, most) else {
            return FilterVerdict::remove("too_long_after_replacement");
        };
        match replaced {
            replaced if replaced == text => FilterVerdict::Keep,
            replaced if replaced.trim().is_empty() => FilterVerdict::remove("blank_after_replacement"),
            replaced => FilterVerdict::Change(replaced.into_owned()),
        }
    }
}

/// Replaces all matches. Returns `None` if the result would be longer than `most` bytes.
fn replace_all<'t>(regex: &regex::Regex, text: &'t str, replacement: &str, most: usize) -> Option<Cow<'t, str>> {
    let mut replaced = String::new();
    let mut end = 0;
    let mut is_changed = false;
    let references = replacement.matches('$').count();
    for captures in regex.captures_iter(text) {
        let found = captures.get_match();
        replaced.push_str(&text[end..found.start()]);
        let longest = references.saturating_mul(found.len()).saturating_add(replacement.len());
        // Checked before the expansion, which could need more memory than there is.
        if replaced.len().saturating_add(longest) > most {
            return None;
        }
        captures.expand(replacement, &mut replaced);
        end = found.end();
        is_changed = true;
    }
    if !is_changed {
        return Some(Cow::Borrowed(text));
    }
    replaced.push_str(&text[end..]);
    Some(Cow::Owned(replaced))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(pattern: &str, action: RegexAction, replacement: &str, text: &str) -> FilterVerdict {
        let filter = Regex { pattern: pattern.into(), action, replacement: replacement.into() };
        assert!(filter.problems().is_empty(), "{:?}", filter.problems());
        filter.build(None).expect("valid").apply(text)
    }

    #[test]
    fn each_action_does_what_it_names() {
        use RegexAction::{Keep, Remove, Replace};
        let matches = |found| FilterVerdict::Remove(RemovalReason::of_rule("match").with_found(found));
        assert_eq!(verdict("c.t", Remove, "", "a cat, a cot"), matches("cat"));
        assert_eq!(verdict("é+", Remove, "", &"é".repeat(99)), matches(&"é".repeat(50)));
        assert_eq!(verdict("c.t", Remove, "", "a dog"), FilterVerdict::Keep);
        assert_eq!(verdict("c.t", Keep, "", "a cat"), FilterVerdict::Keep);
        assert_eq!(verdict("c.t", Keep, "", "a dog"), FilterVerdict::remove("no_match"));
        assert_eq!(verdict("c(.)t", Replace, "d${1}g", "a cat, a cot"), FilterVerdict::Change("a dag, a dog".into()));
        assert_eq!(verdict("c.t", Replace, "x", "a dog"), FilterVerdict::Keep);
        assert_eq!(
            verdict(r"(?m)^Menu: .*\n", Replace, "", "Menu: a | b\nText.\nMenu: c\n"),
            FilterVerdict::Change("Text.\n".into())
        );
        assert_eq!(verdict("a+", Replace, " ", "aaa"), FilterVerdict::remove("blank_after_replacement"));
        let bomb = "$0".repeat(100);
        assert_eq!(
            verdict("a+", Replace, &bomb, &"a".repeat(10_000)),
            FilterVerdict::remove("too_long_after_replacement")
        );
        // The expansion would have 10^15 bytes.
        let bomb = "$0".repeat(1_000_000_000 / 1000);
        assert_eq!(
            verdict("(?s).+", Replace, &bomb, &"a".repeat(1_000_000)),
            FilterVerdict::remove("too_long_after_replacement")
        );
    }

    #[test]
    fn a_wrong_pattern_is_shown() {
        let problem = |pattern: &str| {
            let filter = Regex { pattern: pattern.into(), ..Regex::default() };
            filter.problems().first().expect("wrong").to_string()
        };
        assert!(problem("a(b").contains("`a(b`") && problem("a(b").contains("unclosed group"), "{}", problem("a(b"));
        assert!(problem(r"\w{999}{999}").contains("more than 8388608 bytes"), "{}", problem(r"\w{999}{999}"));
        assert!(problem("").contains("missing"));
        let idle = Regex { pattern: "a".into(), replacement: "b".into(), ..Regex::default() };
        assert_eq!(idle.problems().len(), 1);
    }
}
