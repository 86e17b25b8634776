//! Files with one word per line and a blank line after each sentence.

use super::build::{WordText, label_index, split_at_blanks};
use super::lines::{LineReader, too_long};
use super::step::{ExampleSource, ExampleStep};
use crate::RowError;
use crate::example::{Example, Gold, TaskOutput};
use crate::layout::WordFileLayout;

/// Marker of a document start in the files of CoNLL 2003. It is not a sentence.
const DOCUMENT_START: &str = "-DOCSTART-";

/// Reader of sentences. Fields are separated by tabs, or by blanks in lines without a tab.
pub(super) struct WordFileReader {
    lines: LineReader,
    layout: WordFileLayout,
    output: TaskOutput,
    max_bytes: usize,
}

#[derive(Default)]
struct Sentence {
    words: Vec<String>,
    labels: Vec<u32>,
    bytes: usize,
}

impl WordFileReader {
    pub(super) fn new(lines: LineReader, layout: WordFileLayout, output: TaskOutput, max_bytes: usize) -> Self {
        Self { lines, layout, output, max_bytes }
    }

    /// Reads a sentence. An error is returned after the whole sentence was read.
    fn sentence(&mut self) -> Result<Sentence, RowError> {
        let mut sentence = Sentence::default();
        let mut fault = None;
        loop {
            let line = match self.lines.next_line() {
                None => break,
                Some(Err(error)) if error.is_last => return Err(error),
                Some(Err(error)) => {
                    fault.get_or_insert(error);
                    continue;
                }
                Some(Ok(line)) => line.to_owned(),
            };
            if line.trim().is_empty() {
                break;
            }
            if fault.is_none()
                && let Err(error) = self.push(&line, &mut sentence)
            {
                fault = Some(error);
            }
        }
        fault.map_or(Ok(sentence), Err)
    }

    fn push(&self, line: &str, sentence: &mut Sentence) -> Result<(), RowError> {
        let number = self.lines.line();
        sentence.bytes += line.len();
        if sentence.bytes > self.max_bytes {
            return Err(too_long(number, self.max_bytes));
        }
        let fields: Vec<&str> =
            if line.contains('\t') { line.split('\t').collect() } else { split_at_blanks(line).collect() };
        let field = |column: usize, what: &str| {
            let found = fields.get(column).map(|field| field.trim_ascii()).filter(|field| !field.trim().is_empty());
            found.ok_or_else(|| {
                let message = format!("no {what}: the line has {} fields", fields.len());
                let hint = "separate fields with a tab or a blank, and sentences with a blank line";
                RowError::new(number, message, hint).column(format!("column {column}"))
            })
        };
        let word = field(self.layout.word_column, "word")?;
        if self.layout.has_labels {
            let column = self.layout.label_column.unwrap_or(fields.len() - 1);
            if column == self.layout.word_column {
                return Err(RowError::new(number, "no label: the line has one field", "add the label of the word"));
            }
            let label = field(column, "label")?;
            let index = label_index(&self.output, label);
            sentence.labels.push(
                index.map_err(|[message, hint]| {
                    RowError::new(number, message, hint).column(format!("column {column}"))
                })?,
            );
        }
        sentence.words.push(word.to_owned());
        Ok(())
    }
}

impl ExampleSource for WordFileReader {
    fn step(&mut self, number: u64) -> ExampleStep {
        let before = self.lines.line();
        let sentence = match self.sentence() {
            Ok(sentence) => sentence,
            Err(error) => return ExampleStep::Invalid(error),
        };
        if self.lines.line() == before {
            return ExampleStep::End;
        }
        if sentence.words.is_empty() || sentence.words == [DOCUMENT_START] {
            return ExampleStep::Blank;
        }
        let WordText { text, ranges } = WordText::join(sentence.words.iter().map(String::as_str));
        let gold = if self.layout.has_labels { Gold::WordLabels(sentence.labels) } else { Gold::None };
        let line = before + 1;
        ExampleStep::Example(Example { id: number.to_string(), line, first: text, second: None, words: ranges, gold })
    }
}
