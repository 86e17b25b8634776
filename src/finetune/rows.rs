//! Rows of examples: one row for a class, a score or a short sentence, windows for answers and long sentences, and
//! [prompts](super::prompt).

use std::ops::Range;

use pipeline::labelled::{LabelledOptions, LabelledRow, RowTarget};
use pipeline::tokenize::{HfTokenizer, TokenRange, Tokenizer as _};
use schemas::columns::IGNORE;
use serde::{Deserialize, Serialize};
use tasks::span::{PassageWindow, WindowConfig, WindowStep, max_context, plan_windows};
use tasks::{Answer, Example, Gold, TaskOutput};

use super::example_row::{ExampleRow, RowLogits};
use super::prompt::PromptEncoder;
use crate::exit::Usage;

/// Form of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowOptions {
    /// Longest row, including the frame.
    pub max_seq_len: u32,
    /// Separators between two texts.
    pub separators: u32,
    /// Tokens between the starts of two windows over a passage.
    pub stride: u32,
}

impl RowOptions {
    /// Returns the part that the prepared folder needs.
    #[must_use]
    pub fn labelled(self) -> LabelledOptions {
        LabelledOptions { max_seq_len: self.max_seq_len, separators: self.separators }
    }
}

/// Converts the examples of a task to rows.
#[derive(Clone, Copy, Debug)]
pub struct RowEncoder<'a> {
    /// Output of the task.
    pub output: &'a TaskOutput,
    /// Tokenizer of the model.
    pub tokenizer: &'a HfTokenizer,
    /// Form of the rows.
    pub options: RowOptions,
    /// Prompt, if the rows have one.
    pub prompt: Option<&'a PromptEncoder>,
}

impl RowEncoder<'_> {
    /// Returns the rows of an example, at least one.
    ///
    /// # Errors
    /// If the tokenizer cannot split a text, or if a question leaves no room for its passage.
    pub fn rows(&self, example: &Example) -> anyhow::Result<Vec<ExampleRow>> {
        let mut rows = match (self.prompt, self.output) {
            (Some(prompt), _) => prompt.rows(example, self.tokenizer)?,
            (None, TaskOutput::Class { .. } | TaskOutput::Score { .. }) => vec![self.whole(example)?],
            (None, TaskOutput::Spans { .. }) => self.windows(example)?,
            (None, TaskOutput::WordLabels { .. }) => self.sentence(example)?,
        };
        // Counts of the texts are those of the example.
        let texts = || [Some(&example.first), example.second.as_ref()].into_iter().flatten();
        rows[0].row.text_bytes = texts().map(|text| text.len() as u64).sum();
        rows[0].row.words = texts().map(|text| text.split_whitespace().count() as u64).sum();
        Ok(rows)
    }

    /// Returns the rows of all examples.
    pub(super) fn split(&self, examples: &[Example]) -> anyhow::Result<Vec<LabelledRow>> {
        let mut rows = Vec::with_capacity(examples.len());
        for example in examples {
            rows.extend(self.rows(example)?.into_iter().map(|row| row.row));
        }
        Ok(rows)
    }

    /// Returns the rows of a validation: with demonstrations, those of the first set.
    pub(super) fn validation(&self, examples: &[Example]) -> anyhow::Result<Vec<LabelledRow>> {
        let mut rows = self.split(examples)?;
        if self.prompt.is_some() {
            let each = rows.len() / examples.len().max(1);
            rows = rows.into_iter().step_by(each.max(1)).collect();
        }
        Ok(rows)
    }

    fn whole(&self, example: &Example) -> anyhow::Result<ExampleRow> {
        let second = example.second.as_ref().map(|text| self.tokenizer.ids(text)).transpose()?;
        let target = match &example.gold {
            Gold::Class(class) => RowTarget::Class(*class),
            #[expect(clippy::cast_possible_truncation, reason = "the loss is computed in float32")]
            Gold::Score(score) => RowTarget::Score(*score as f32),
            Gold::None | Gold::Answers(_) | Gold::WordLabels(_) => RowTarget::None,
        };
        let row = LabelledRow {
            id: example.id.clone(),
            first: self.tokenizer.ids(&example.first)?,
            second: second.unwrap_or_default(),
            target,
            ..LabelledRow::default()
        };
        Ok(ExampleRow { row, logits: RowLogits::Example })
    }

    fn windows(&self, example: &Example) -> anyhow::Result<Vec<ExampleRow>> {
        let question = self.tokenizer.ids(&example.first)?;
        let passage = self.tokenizer.token_ranges(example.second.as_deref().unwrap_or_default())?;
        let config = WindowConfig {
            row_tokens: self.options.max_seq_len as usize,
            special_tokens: self.options.labelled().frame(true) as usize,
            step: WindowStep::Advance(self.options.stride as usize),
            ..WindowConfig::default()
        };
        let windows = plan_windows(&config, question.len(), passage.len())
            .map_err(|error| Usage(format!("question {}: {error}", example.id)))?;
        let best = max_context(&windows, passage.len());
        let row = |(number, window): (usize, &PassageWindow)| {
            let tokens = &passage[window.passage.clone()];
            let target = match &example.gold {
                Gold::Answers(answers) => RowTarget::Span(answers.first().and_then(|answer| span(answer, tokens))),
                _ => RowTarget::None,
            };
            let row = LabelledRow {
                id: example.id.clone(),
                first: question[..window.question_tokens].to_vec(),
                second: tokens.iter().map(|token| token.id).collect(),
                target,
                ..LabelledRow::default()
            };
            // Without a question, the passage is the only text of the row.
            let before = window.question_tokens;
            let position = if before == 0 { 1 } else { 1 + before + self.options.separators as usize };
            let logits = RowLogits::Passage {
                position,
                bytes: tokens.iter().map(|token| token.bytes.clone()).collect(),
                has_max_context: window.passage.clone().map(|token| best[token] == number).collect(),
            };
            ExampleRow { row, logits }
        };
        Ok(windows.iter().enumerate().map(row).collect())
    }

    /// Returns rows of whole words, as many words in each as fit. Only a word that exceeds a row is cut.
    fn sentence(&self, example: &Example) -> anyhow::Result<Vec<ExampleRow>> {
        let tokens = self.tokenizer.token_ranges(&example.first)?;
        let words = word_starts(&example.words, &tokens);
        let room = (self.options.max_seq_len - self.options.labelled().frame(false)) as usize;
        let class = |word: usize| match &example.gold {
            Gold::WordLabels(labels) => i32::try_from(labels[word]).expect("a task has fewer than 2^31 labels"),
            _ => IGNORE,
        };
        let row = |range: Range<usize>| {
            let mut classes = vec![IGNORE; range.len()];
            let own = words.iter().filter(|(_, token)| range.contains(token));
            let own: Vec<(usize, usize)> = own.map(|&(word, token)| (word, token - range.start)).collect();
            for &(word, token) in &own {
                classes[token] = class(word);
            }
            let row = LabelledRow {
                id: example.id.clone(),
                first: tokens[range].iter().map(|token| token.id).collect(),
                target: if example.gold == Gold::None { RowTarget::None } else { RowTarget::Tokens(classes) },
                ..LabelledRow::default()
            };
            ExampleRow { row, logits: RowLogits::Words(own.iter().map(|&(word, token)| (word, token + 1)).collect()) }
        };
        let mut rows = Vec::new();
        let mut start = 0;
        while tokens.len() - start > room {
            let last =
                words.iter().rev().map(|&(_, token)| token).find(|token| (start + 1..=start + room).contains(token));
            let end = last.unwrap_or(start + room);
            rows.push(row(start..end));
            start = end;
        }
        rows.push(row(start..tokens.len()));
        Ok(rows)
    }
}

/// Returns the first and the last token of an answer, if it is wholly within the tokens.
fn span(answer: &Answer, tokens: &[TokenRange]) -> Option<[usize; 2]> {
    // White space around an answer belongs to no token.
    let text = answer.text.trim_start();
    let start = answer.range().end - text.len();
    let range = start..start + text.trim_end().len();
    let first = tokens.iter().position(|token| token.bytes.end > range.start && !token.bytes.is_empty())?;
    let last = tokens.iter().rposition(|token| token.bytes.start < range.end && !token.bytes.is_empty())?;
    let is_covered = tokens[first].bytes.start <= range.start && range.end <= tokens[last].bytes.end;
    (is_covered && first <= last).then_some([first, last])
}

/// Returns each word that has tokens, with its first one. A token belongs to the word in which it begins.
fn word_starts(words: &[Range<usize>], tokens: &[TokenRange]) -> Vec<(usize, usize)> {
    let mut starts: Vec<(usize, usize)> = Vec::new();
    let mut word = 0;
    for (number, token) in tokens.iter().enumerate().filter(|(_, token)| !token.bytes.is_empty()) {
        while words.get(word).is_some_and(|range| range.end <= token.bytes.start) {
            word += 1;
        }
        let is_inside = words.get(word).is_some_and(|range| range.contains(&token.bytes.start));
        if is_inside && starts.last().is_none_or(|&(last, _)| last != word) {
            starts.push((word, number));
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPANS: TaskOutput = TaskOutput::Spans { allows_none: true };

    /// WordPiece with the pieces of the tests.
    fn tokenizer() -> HfTokenizer {
        let home = tempfile::tempdir().expect("a temporary folder");
        let pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d", "e", "##x", "##y", "?", "é"];
        let store = store::Store::folder(home.path()).expect("there");
        store.put("vocab.txt", pieces.join("\n").as_bytes()).expect("written");
        pipeline::tokenize::load(home.path(), Some(false)).expect("a tokenizer")
    }

    fn rows(output: &TaskOutput, max_seq_len: u32, example: &Example) -> Vec<ExampleRow> {
        let options = RowOptions { max_seq_len, separators: 1, stride: 2 };
        RowEncoder { output, tokenizer: &tokenizer(), options, prompt: None }.rows(example).expect("rows")
    }

    fn question(passage: &str, answers: &[(&str, usize)]) -> Example {
        let answer = |&(text, start): &(&str, usize)| Answer { text: text.to_owned(), start };
        Example {
            id: "q".to_owned(),
            line: 1,
            first: "a ?".to_owned(),
            second: Some(passage.to_owned()),
            words: Vec::new(),
            gold: Gold::Answers(answers.iter().map(answer).collect()),
        }
    }

    #[test]
    fn windows_have_the_answer_where_it_is() {
        // Tokens: a ##x b c d é e; bytes 0, 1, 3, 5, 7, 9, 12.
        let example = question("ax b c d é e", &[("d é", 7)]);
        let found = rows(&SPANS, 9, &example);
        let shape: Vec<_> = found.iter().map(|it| (it.row.second.len(), it.row.target.clone())).collect();
        let none = RowTarget::Span(None);
        assert_eq!(shape, [(4, none), (4, RowTarget::Span(Some([2, 3]))), (3, RowTarget::Span(Some([0, 1])))]);
        let RowLogits::Passage { position, bytes, has_max_context } = &found[1].logits else { panic!("a window") };
        assert_eq!((*position, bytes.clone()), (4, vec![3..4, 5..6, 7..8, 9..11]));
        assert_eq!(has_max_context, &[false, true, true, false], "the edges have more context in the other windows");
        let [words, bytes] = [0, 1].map(|row: usize| (found[row].row.words, found[row].row.text_bytes));
        assert_eq!((words, bytes), ((8, 16), (0, 0)), "texts count once");
    }

    #[test]
    fn an_answer_within_a_token_is_its_token() {
        let target = |passage: &str, answer: &(&str, usize)| {
            rows(&SPANS, 16, &question(passage, &[*answer]))[0].row.target.clone()
        };
        assert_eq!(target("ax b", &("x", 1)), RowTarget::Span(Some([1, 1])));
        assert_eq!(target("aq b", &("q", 1)), RowTarget::Span(Some([0, 0])), "an unknown word is one token");
        assert_eq!(target("a  b", &(" ", 1)), RowTarget::Span(None), "white space has no token");
        assert_eq!(target("a b c", &(" b ", 1)), RowTarget::Span(Some([1, 1])), "white space around it is ignored");
        assert_eq!(rows(&SPANS, 16, &question("a b", &[]))[0].row.target, RowTarget::Span(None));
    }

    #[test]
    fn a_passage_without_room_is_refused() {
        let options = RowOptions { max_seq_len: 5, separators: 1, stride: 2 };
        let tokenizer = tokenizer();
        let encoder = RowEncoder { output: &SPANS, tokenizer: &tokenizer, options, prompt: None };
        let error = encoder.rows(&question("a", &[])).expect_err("no room").to_string();
        assert!(error.contains("question q") && error.contains("use longer rows"), "{error}");
    }

    #[test]
    fn words_are_labelled_at_their_first_tokens() {
        let labels = ["O", "B-X", "I-X"].map(str::to_owned).to_vec();
        let output = TaskOutput::WordLabels { labels };
        // Tokens: a ##x ##y | b | c ##x | d. The control character has none.
        let text = "axy b \u{1} cx d";
        let words = vec![0..3, 4..5, 6..7, 8..10, 11..12];
        let gold = Gold::WordLabels(vec![1, 2, 0, 1, 0]);
        let example = Example { id: "s".to_owned(), line: 1, first: text.to_owned(), second: None, words, gold };
        let whole = rows(&output, 9, &example);
        assert_eq!(whole[0].row.target, RowTarget::Tokens(vec![1, IGNORE, IGNORE, 2, 1, IGNORE, 0]));
        assert_eq!(whole[0].logits, RowLogits::Words(vec![(0, 1), (1, 4), (3, 5), (4, 7)]));
        // Five tokens fit: the third word would be cut.
        let halves = rows(&output, 7, &example);
        let lengths: Vec<usize> = halves.iter().map(|it| it.row.first.len()).collect();
        assert_eq!(lengths, [4, 3]);
        assert_eq!(halves[1].logits, RowLogits::Words(vec![(3, 1), (4, 3)]));
        // Two tokens fit: only the first word is cut.
        let many = rows(&output, 4, &example);
        assert_eq!(many.iter().map(|it| it.row.first.len()).collect::<Vec<_>>(), [2, 2, 2, 1]);
        let first: Vec<&RowLogits> = many.iter().map(|it| &it.logits).collect();
        assert_eq!(first[1], &RowLogits::Words(vec![(1, 2)]));
    }
}
