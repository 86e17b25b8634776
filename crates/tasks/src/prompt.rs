//! Prompts: templates that turn an example into a text with a blank, and label words that fill it.
//!
//! The prompts of the tasks of GLUE are the manual ones of Gao et al. 2021, LM-BFF, table 1. As in the released code, no space
//! is between a blank and the punctuation after it.

/// Template with a label word for each class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Text with `{first}`, `{second}` and `{mask}`.
    pub template: String,
    /// Label words, in the order of the classes.
    pub words: Vec<String>,
}

/// Part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptPart {
    /// Text without the spaces at its end: they belong to the next part.
    Text(String),
    /// First text of the example.
    First {
        /// Whether white space is before it.
        is_spaced: bool,
    },
    /// Second text of the example.
    Second {
        /// Whether white space is before it.
        is_spaced: bool,
    },
    /// Blank for the label word.
    Blank {
        /// Whether white space is before it.
        is_spaced: bool,
    },
}

impl Prompt {
    /// Creates a prompt.
    pub(crate) fn new(template: &str, words: &[&str]) -> Self {
        Self { template: template.to_owned(), words: words.iter().map(|&word| word.to_owned()).collect() }
    }

    /// Returns one message per problem for a task with that many classes, and with pairs of texts or not.
    #[must_use]
    pub fn problems(&self, classes: usize, has_second: bool) -> Vec<String> {
        let Self { template, words } = self;
        let mut problems = Vec::new();
        match self.parts() {
            Err(problem) => problems.push(problem),
            Ok(parts) => {
                let count = |is_it: fn(&PromptPart) -> bool| parts.iter().filter(|part| is_it(part)).count();
                let second = usize::from(has_second);
                for (name, found, wanted) in [
                    ("{mask}", count(|part| matches!(part, PromptPart::Blank { .. })), 1),
                    ("{first}", count(|part| matches!(part, PromptPart::First { .. })), 1),
                    ("{second}", count(|part| matches!(part, PromptPart::Second { .. })), second),
                ] {
                    if found != wanted {
                        problems.push(format!(
                            "`template` = {template:?} has `{name}` {found} times; write it {wanted} times for this task"
                        ));
                    }
                }
            }
        }
        if words.len() != classes {
            problems.push(format!("`words` has {} words for {classes} labels; write one for each label", words.len()));
        }
        if let Some(word) = words.iter().find(|word| word.trim().is_empty() || word.contains(char::is_control)) {
            problems.push(format!("`words` has {word:?}; write a word with letters"));
        }
        if let Some(at) = (0..words.len()).find(|&at| words[..at].contains(&words[at])) {
            problems.push(format!("`words` names `{}` twice; each label needs a different word", words[at]));
        }
        problems
    }

    /// Splits the template.
    ///
    /// # Errors
    /// A message, if a brace is no part of `{first}`, `{second}` or `{mask}`.
    pub fn parts(&self) -> Result<Vec<PromptPart>, String> {
        let mut parts = Vec::new();
        let mut rest = self.template.as_str();
        while !rest.is_empty() {
            let (text, name) = match rest.split_once('{') {
                None => (std::mem::take(&mut rest), None),
                Some((text, after)) => {
                    let (name, after) = after.split_once('}').ok_or_else(|| self.refusal("a `{` without its `}`"))?;
                    rest = after;
                    (text, Some(name))
                }
            };
            if text.contains('}') || text.contains(char::is_control) {
                return Err(self.refusal("a `}` without its `{`, or a control character"));
            }
            let shown = text.trim_end();
            if !shown.is_empty() {
                parts.push(PromptPart::Text(shown.to_owned()));
            }
            let is_spaced = shown.len() < text.len();
            match name {
                None => {}
                Some("first") => parts.push(PromptPart::First { is_spaced }),
                Some("second") => parts.push(PromptPart::Second { is_spaced }),
                Some("mask") => parts.push(PromptPart::Blank { is_spaced }),
                Some(other) => return Err(self.refusal(&format!("`{{{other}}}`"))),
            }
        }
        Ok(parts)
    }

    fn refusal(&self, found: &str) -> String {
        let template = &self.template;
        format!("`template` = {template:?} has {found}; only `{{first}}`, `{{second}}` and `{{mask}}` are known")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of an accepted template are the template, without spaces before its names and at its end.
    #[test]
    fn a_template_is_split_or_refused() {
        let seeds = ["{first} It was {mask}.", "{first}? {mask}, {second}"].map(|seed| seed.as_bytes().to_vec());
        fuzz::target!("prompt", seeds.to_vec(), |bytes: &[u8]| {
            let template = String::from_utf8_lossy(bytes);
            if let Ok(parts) = Prompt::new(&template, &[]).parts() {
                let name = |name: &str, is_spaced: bool| format!("{}{{{name}}}", if is_spaced { " " } else { "" });
                let text = |part: &PromptPart| match part {
                    PromptPart::Text(text) => text.clone(),
                    PromptPart::First { is_spaced } => name("first", *is_spaced),
                    PromptPart::Second { is_spaced } => name("second", *is_spaced),
                    PromptPart::Blank { is_spaced } => name("mask", *is_spaced),
                };
                let joined: String = parts.iter().map(text).collect();
                let letters = |text: &str| text.split_whitespace().collect::<String>();
                assert_eq!(letters(&joined), letters(&template));
                assert_eq!(Prompt::new(&joined, &[]).parts(), Ok(parts));
            }
        });
    }

    fn prompt(template: &str) -> Prompt {
        Prompt::new(template, &["No", "Yes"])
    }

    #[test]
    fn a_template_is_split_at_its_names() {
        let text = |text: &str| PromptPart::Text(text.to_owned());
        let parts = prompt("{first}? {mask}, {second}").parts();
        let first = PromptPart::First { is_spaced: false };
        let mask = PromptPart::Blank { is_spaced: true };
        assert_eq!(parts, Ok(vec![first.clone(), text("?"), mask, text(","), PromptPart::Second { is_spaced: true }]));
        let parts = prompt("{first} It was {mask}.").parts();
        assert_eq!(parts, Ok(vec![first, text(" It was"), PromptPart::Blank { is_spaced: true }, text(".")]));
        let parts = prompt("{mask}: {first}").parts();
        let mask = PromptPart::Blank { is_spaced: false };
        assert_eq!(parts, Ok(vec![mask, text(":"), PromptPart::First { is_spaced: true }]));
    }

    #[test]
    fn wrong_prompts_are_refused_with_what_is_wrong() {
        let problems = |template: &str, words: &[&str], has_second| {
            Prompt::new(template, words).problems(2, has_second).join("; ")
        };
        let words = ["No", "Yes"];
        assert_eq!(problems("{first} {mask}", &words, false), "");
        for (template, has_second, expected) in [
            ("", false, "`{mask}` 0 times"),
            ("{first}", false, "`{mask}` 0 times; write it 1 times"),
            ("{mask} {mask} {first}", false, "`{mask}` 2 times"),
            ("{first} {mask}", true, "`{second}` 0 times"),
            ("{first} {mask} {second}", false, "`{second}` 1 times; write it 0 times"),
            ("{first} {third} {mask}", false, "has `{third}`"),
            ("{first} {mask", false, "a `{` without"),
            ("{first} {mask} {", false, "a `{` without"),
            ("{first}} {mask}", false, "a `}` without"),
            ("{{first}} {mask}", false, "has `{{first}`"),
            ("{first}\n{mask}", false, "control character"),
        ] {
            let found = problems(template, &words, has_second);
            assert!(found.contains(expected), "{template}: {found}");
        }
        assert!(problems("{first} {mask}", &["No"], false).contains("1 words for 2 labels"));
        assert!(problems("{first} {mask}", &["No", "No"], false).contains("`No` twice"));
        assert!(problems("{first} {mask}", &["No", " "], false).contains("\" \""));
    }
}
