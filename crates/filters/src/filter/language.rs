//! Language of the text.
//!
//! # What
//! Keeps documents whose most likely language is one of a list.
//!
//! # Why
//! A tokenizer and a model of few languages lose capacity on others.
//!
//! # Definition
//! The crate `whatlang` compares the script, the letters and the most frequent trigrams of the first 10,000 bytes with
//! profiles of 69 languages. Its confidence is 1 if the best language leads by a margin that shrinks with the number of
//! trigrams, and less in proportion below the margin. It is also 1 if no other known language uses the script. Rules:
//! `unknown_language` (no letters), `other_language`, `low_confidence`.
//!
//! # Reference
//! Cavnar and Trenkle 1994, "N-Gram-Based Text Categorization"; Wenzek et al. 2020, "CCNet", for the use as a filter.

use schemars::JsonSchema;
use schemas::Problem;
use serde::{Deserialize, Serialize};
use whatlang::Lang;

use super::reason::{RemovalReason, below};
use super::{Filter, FilterVerdict, TextFilter, share_problem};
use crate::text::front;

/// Bytes that are compared with the profiles. They bound the time of a long text.
const EXAMINED_BYTES: usize = 10_000;

/// Allowed languages. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Language {
    /// Allowed languages, by their ISO 639-3 codes: `eng`, `deu`, `fra`, `cmn`, ….
    pub languages: Vec<String>,
    /// Minimum confidence, 0 to 1.
    pub min_confidence: f64,
}

impl Default for Language {
    fn default() -> Self {
        Self { languages: vec!["eng".to_owned()], min_confidence: 0.5 }
    }
}

impl Filter for Language {
    fn problems(&self) -> Vec<Problem> {
        let mut problems: Vec<Problem> = share_problem("min_confidence", self.min_confidence).into_iter().collect();
        if self.languages.is_empty() {
            problems.push(Problem::new("languages", "it is empty").hint("name at least one, such as `eng`"));
        }
        let unknown = self.languages.iter().filter(|code| Lang::from_code(code.as_str()).is_none());
        problems.extend(unknown.map(|code| {
            let known: Vec<&str> = Lang::all().iter().map(Lang::code).collect();
            let message = format!("`{}` is not a known language", code.escape_debug());
            Problem::new("languages", message).hint(format!("give some of {}", known.join(", ")))
        }));
        problems
    }

    fn build(&self, _: Option<&[u8]>) -> Result<Box<dyn TextFilter>, Problem> {
        let languages = self.languages.iter().filter_map(|code| Lang::from_code(code.as_str())).collect();
        Ok(Box::new(Detector { languages, min_confidence: self.min_confidence }))
    }
}

struct Detector {
    languages: Vec<Lang>,
    min_confidence: f64,
}

impl TextFilter for Detector {
    fn apply(&self, text: &str) -> FilterVerdict {
        let Some(found) = whatlang::detect(front(text, EXAMINED_BYTES)) else {
            return FilterVerdict::remove("unknown_language");
        };
        let reason = if self.languages.contains(&found.lang()) {
            below("low_confidence", found.confidence(), self.min_confidence)
        } else {
            Some(RemovalReason::of_rule("other_language"))
        };
        FilterVerdict::remove_if(reason.map(|reason| reason.with_found(found.lang().code())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_allowed_languages_are_kept() {
        let english =
            "The committee of the whole house met in the morning, and the members were asked to give their views.";
        let german =
            "Der Ausschuss trat am Morgen zusammen, und die Mitglieder wurden gebeten, ihre Ansichten zu äußern.";
        let chinese = "委员会上午开会，要求各成员发表意见。";
        let of = |codes: &[&str]| {
            let languages = codes.iter().map(|&code| code.to_owned()).collect();
            Language { languages, ..Language::default() }.build(None).expect("known codes")
        };
        assert_eq!(of(&["eng"]).apply(english), FilterVerdict::Keep);
        let other = |code| FilterVerdict::Remove(RemovalReason::of_rule("other_language").with_found(code));
        assert_eq!(of(&["eng"]).apply(german), other("deu"));
        assert_eq!(of(&["eng", "cmn"]).apply(chinese), FilterVerdict::Keep);
        assert_eq!(of(&["eng"]).apply("12 + 3 = ?"), FilterVerdict::remove("unknown_language"));
        let strict = Language { min_confidence: 1.0, ..Language::default() }.build(None).expect("a share");
        assert_eq!(strict.apply("no manual").without_measures(), FilterVerdict::remove("other_language"));
        let FilterVerdict::Remove(reason) = strict.apply("The doctor") else { panic!("too short to be certain") };
        assert_eq!((reason.rule, reason.bound, reason.found.as_deref()), ("low_confidence", Some(1.0), Some("eng")));
        assert!(reason.value.is_some_and(|value| (0.0..1.0).contains(&value)), "{reason:?}");
    }

    #[test]
    fn unknown_codes_are_refused_with_the_known_ones() {
        let filter = Language { languages: vec!["en".into()], min_confidence: 2.0 };
        let found: Vec<String> = filter.problems().iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].contains("`en`") && found[1].contains("eng"), "{found:?}");
        assert!(!Language { languages: Vec::new(), ..Language::default() }.problems().is_empty());
    }
}
