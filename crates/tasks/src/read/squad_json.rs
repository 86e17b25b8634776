//! SQuAD files, versions 1.1 and 2.0.

use std::collections::VecDeque;

use serde::{Deserialize, Deserializer};
use serde_json::Number;

use super::articles::{ArticleBytes, ArticleScanner};
use super::build::{OFFSET_HINT, locate};
use super::step::{ExampleSource, ExampleStep};
use crate::RowError;
use crate::example::{Example, Gold};

/// Reader of questions with their passages. The question is the first text, the passage the second.
pub(super) struct SquadReader {
    articles: ArticleScanner,
    allows_none: bool,
    /// Remaining questions of the current article.
    ahead: VecDeque<Result<Example, RowError>>,
}

#[derive(Deserialize)]
struct Article {
    paragraphs: Vec<Paragraph>,
}

#[derive(Deserialize)]
struct Paragraph {
    context: String,
    qas: Vec<Question>,
}

#[derive(Deserialize)]
struct Question {
    #[serde(deserialize_with = "id")]
    id: String,
    #[serde(rename = "question")]
    text: String,
    answers: Option<Vec<JsonAnswer>>,
    #[serde(default)]
    is_impossible: bool,
}

#[derive(Deserialize)]
struct JsonAnswer {
    text: String,
    answer_start: i64,
}

/// Reads an id: a text, or a number as its digits.
fn id<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "an id that is no text or number")]
    enum Id {
        Text(String),
        Number(Number),
    }
    Ok(match Id::deserialize(from)? {
        Id::Text(text) => text,
        Id::Number(number) => number.to_string(),
    })
}

impl SquadReader {
    pub(super) fn new(articles: ArticleScanner, allows_none: bool) -> Self {
        Self { articles, allows_none, ahead: VecDeque::new() }
    }

    fn read(&mut self, article: &ArticleBytes) -> Result<(), RowError> {
        let parsed: Article = serde_json::from_slice(&article.json).map_err(|error| {
            // serde_json counts lines from the start of the article.
            let line = article.line + u64::try_from(error.line().saturating_sub(1)).unwrap_or(0);
            let column = format!("byte {} of an article", error.column());
            RowError::new(line, format!("not an article of SQuAD: {error}"), "correct the article").column(column)
        })?;
        for paragraph in parsed.paragraphs {
            for question in paragraph.qas {
                let example = self.example(question, &paragraph.context, article.line);
                self.ahead.push_back(example);
            }
        }
        Ok(())
    }

    fn example(&self, question: Question, context: &str, line: u64) -> Result<Example, RowError> {
        let Question { id, text, answers, is_impossible } = question;
        let place = format!("question {}", crate::row_error::shown(&id));
        let error = |message: String, hint: &str| RowError::new(line, message, hint).column(place.clone());
        if [&id, &text, context].iter().any(|text| text.contains('\0')) {
            return Err(error("NUL character".to_owned(), "remove the character"));
        }
        let gold = match answers {
            Some(answers) if is_impossible && !answers.is_empty() => {
                let message = format!("{} answers although `is_impossible` is true", answers.len());
                return Err(error(message, "remove the answers, or set `is_impossible` to false"));
            }
            None if !is_impossible => Gold::None,
            answers => {
                let answers = answers.into_iter().flatten();
                let found = answers.map(|answer| locate(context, &answer.text, answer.answer_start));
                Gold::Answers(found.collect::<Result<_, _>>().map_err(|fault| error(fault, OFFSET_HINT))?)
            }
        };
        if !self.allows_none && matches!(&gold, Gold::Answers(answers) if answers.is_empty()) {
            return Err(error("no answer".to_owned(), "use the task for SQuAD 2.0, or give an answer"));
        }
        Ok(Example { id, line, first: text, second: Some(context.to_owned()), words: Vec::new(), gold })
    }
}

impl ExampleSource for SquadReader {
    fn step(&mut self, _number: u64) -> ExampleStep {
        loop {
            match self.ahead.pop_front() {
                Some(Ok(example)) => return ExampleStep::Example(example),
                Some(Err(error)) => return ExampleStep::Invalid(error),
                None => {}
            }
            match self.articles.next() {
                None => return ExampleStep::End,
                Some(Err(error)) => return ExampleStep::Invalid(error),
                Some(Ok(article)) => {
                    if let Err(error) = self.read(&article) {
                        return ExampleStep::Invalid(error);
                    }
                }
            }
        }
    }
}
