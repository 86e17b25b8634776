//! Conversion of a row of a table to an example.

use std::ops::Range;

use serde_json::Value;

use super::table::TableRow;
use crate::RowError;
use crate::example::{Answer, Example, Gold, TaskOutput};
use crate::layout::{ColumnRef, ExampleColumns, GoldColumns};
use crate::row_error::{shown, shown_names};

/// Converter of rows to examples of one task.
pub(super) struct ExampleBuilder {
    columns: ExampleColumns,
    output: TaskOutput,
}

impl ExampleBuilder {
    pub(super) fn new(columns: ExampleColumns, output: TaskOutput) -> Self {
        Self { columns, output }
    }

    /// Returns the columns that `build` expects, in order.
    pub(super) fn requested(&self) -> Vec<ColumnRef> {
        let ExampleColumns { id, first, second, gold } = &self.columns;
        let gold = match gold {
            GoldColumns::Absent => vec![],
            GoldColumns::Label(label) => vec![label],
            GoldColumns::Answers { texts, starts } => vec![texts, starts],
        };
        id.iter().chain([first]).chain(second).chain(gold).cloned().collect()
    }

    /// Builds an example. `number` is its id if the file has none.
    pub(super) fn build(&self, row: TableRow, number: u64) -> Result<Example, RowError> {
        let TableRow { line, cells } = row;
        let mut cells = cells.into_iter();
        let mut next =
            |column: &ColumnRef| Cell { line, column: column.to_string(), value: cells.next().unwrap_or(Value::Null) };
        let id = self.columns.id.as_ref().map(|column| next(column).plain("an id")).transpose()?;
        let id = id.unwrap_or_else(|| number.to_string());
        let first = next(&self.columns.first);
        let words = if self.labels_words() { Some(first.words()?) } else { None };
        let (first, words) = match words {
            Some(words) => (words.text, words.ranges),
            None => (first.text()?, Vec::new()),
        };
        let second = self.columns.second.as_ref().map(|column| next(column).text()).transpose()?;
        let gold = match &self.columns.gold {
            GoldColumns::Absent => Gold::None,
            GoldColumns::Label(column) => self.label(&next(column), words.len())?,
            GoldColumns::Answers { texts, starts } => {
                let texts = next(texts);
                let starts = next(starts);
                self.answers(&texts, &starts, second.as_deref().unwrap_or(&first))?
            }
        };
        Ok(Example { id, line, first, second, words, gold })
    }

    fn labels_words(&self) -> bool {
        matches!(self.output, TaskOutput::WordLabels { .. })
    }

    fn label(&self, cell: &Cell, words: usize) -> Result<Gold, RowError> {
        match &self.output {
            TaskOutput::Class { .. } => Ok(Gold::Class(class(&self.output, &cell.plain("a label")?, cell)?)),
            TaskOutput::Score { range } => {
                let text = cell.plain("a score")?;
                let score: f64 = text
                    .trim()
                    .parse()
                    .map_err(|_| cell.error(format!("{} is no number", shown(&text)), "write a decimal number"))?;
                if !range.contains(&score) {
                    let hint = format!("scores are from {} to {}", range.start(), range.end());
                    return Err(cell.error(format!("{} is out of range", shown(&text)), hint));
                }
                Ok(Gold::Score(score))
            }
            TaskOutput::WordLabels { .. } => {
                let labels = cell.list("labels")?;
                if labels.len() != words {
                    let message = format!("{} labels for {words} words", labels.len());
                    return Err(cell.error(message, "write one label per word"));
                }
                let labels = labels.iter().map(|label| class(&self.output, label, cell));
                Ok(Gold::WordLabels(labels.collect::<Result<_, _>>()?))
            }
            TaskOutput::Spans { .. } => {
                Err(cell.error("a label instead of answers", "name the columns of the answers"))
            }
        }
    }

    fn answers(&self, texts: &Cell, starts: &Cell, passage: &str) -> Result<Gold, RowError> {
        let answers = texts.items();
        let offsets = starts.items();
        if answers.len() != offsets.len() {
            let message = format!("{} offsets for {} answers", offsets.len(), answers.len());
            return Err(starts.error(message, "write one offset per answer"));
        }
        let answers = answers.iter().zip(&offsets).map(|(text, start)| {
            let text = text.as_str().ok_or_else(|| texts.error("an answer that is no text", "write it as text"))?;
            let offset = start.as_i64().or_else(|| start.as_str()?.trim().parse().ok());
            let offset =
                offset.ok_or_else(|| starts.error("an offset that is no number", "count characters from 0"))?;
            locate(passage, text, offset).map_err(|fault| starts.error(fault, OFFSET_HINT))
        });
        let answers = answers.collect::<Result<Vec<_>, RowError>>()?;
        if answers.is_empty() && self.output == (TaskOutput::Spans { allows_none: false }) {
            return Err(texts.error("no answer", "give one, or allow unanswerable questions (`allow_unanswerable`)"));
        }
        Ok(Gold::Answers(answers))
    }
}

/// Remedy of an offset at which the answer is not found.
pub(super) const OFFSET_HINT: &str = "offsets count characters (code points) of the passage from 0";

/// Returns the answer at a character offset of the passage, or the reason why it is not there.
pub(super) fn locate(passage: &str, text: &str, offset: i64) -> Result<Answer, String> {
    let wrong = || format!("the answer {} is not at offset {offset}", shown(text));
    if text.is_empty() {
        return Err("an empty answer".to_owned());
    }
    let offset = usize::try_from(offset).map_err(|_| wrong())?;
    let start = passage.char_indices().nth(offset).map(|(byte, _)| byte).ok_or_else(wrong)?;
    if passage[start..].starts_with(text) { Ok(Answer { text: text.to_owned(), start }) } else { Err(wrong()) }
}

/// Returns the index of a label, or the message and the hint of an error.
pub(super) fn label_index(output: &TaskOutput, label: &str) -> Result<u32, [String; 2]> {
    output.label_index(label).ok_or_else(|| {
        let names = shown_names(output.labels().iter().map(String::as_str));
        [
            format!("unknown label {}", shown(label)),
            format!("the labels are {names}, in this order; the key `labels` of a custom task sets others"),
        ]
    })
}

/// Returns the index of a label.
fn class(output: &TaskOutput, label: &str, cell: &Cell) -> Result<u32, RowError> {
    label_index(output, label).map_err(|[message, hint]| cell.error(message, hint))
}

/// Splits a text at white space, but not at a no-break space: it is part of a word, as in `10 000`.
pub(super) fn split_at_blanks(text: &str) -> impl Iterator<Item = &str> {
    let is_blank =
        |character: char| character.is_whitespace() && !matches!(character, '\u{a0}' | '\u{2007}' | '\u{202f}');
    text.split(is_blank).filter(|word| !word.is_empty())
}

/// Words of a text.
pub(super) struct WordText {
    pub(super) text: String,
    pub(super) ranges: Vec<Range<usize>>,
}

impl WordText {
    /// Joins words with blanks.
    pub(super) fn join<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let mut joined = Self { text: String::new(), ranges: Vec::new() };
        for word in words {
            if !joined.text.is_empty() {
                joined.text.push(' ');
            }
            let start = joined.text.len();
            joined.text.push_str(word);
            joined.ranges.push(start..joined.text.len());
        }
        joined
    }

    /// Splits a text at blanks. The text stays as it is.
    fn split(text: &str) -> Self {
        let ranges = split_at_blanks(text).map(|word| {
            let start = word.as_ptr().addr() - text.as_ptr().addr();
            start..start + word.len()
        });
        Self { ranges: ranges.collect(), text: text.to_owned() }
    }
}

/// Cell of a row.
struct Cell {
    line: u64,
    column: String,
    value: Value,
}

impl Cell {
    fn error(&self, message: impl Into<String>, hint: impl Into<String>) -> RowError {
        RowError::new(self.line, message, hint).column(self.column.clone())
    }

    /// Returns a text. It may be empty.
    fn text(&self) -> Result<String, RowError> {
        match &self.value {
            Value::String(text) => self.checked(text),
            other => Err(self.error(format!("{} instead of text", kind_of(other)), "write a text")),
        }
    }

    /// Returns a text, number or truth value as text.
    fn plain(&self, what: &str) -> Result<String, RowError> {
        match &self.value {
            Value::String(text) => self.checked(text),
            Value::Number(number) => Ok(number.to_string()),
            Value::Bool(truth) => Ok(truth.to_string()),
            other => Err(self.error(format!("{} instead of {what}", kind_of(other)), "write a text or a number")),
        }
    }

    /// Returns a list of texts, or the words of a text.
    fn list(&self, what: &str) -> Result<Vec<String>, RowError> {
        match &self.value {
            Value::String(text) => Ok(split_at_blanks(&self.checked(text)?).map(str::to_owned).collect()),
            Value::Array(items) => {
                let cell = |item: &Value| Self { line: self.line, column: self.column.clone(), value: item.clone() };
                items.iter().map(|item| cell(item).plain(what)).collect()
            }
            other => {
                let message = format!("{} instead of {what}", kind_of(other));
                Err(self.error(message, "write a list, or a text with blanks"))
            }
        }
    }

    fn words(&self) -> Result<WordText, RowError> {
        if let Value::String(text) = &self.value {
            return Ok(WordText::split(&self.checked(text)?));
        }
        let words = self.list("words")?;
        if words.iter().any(|word| word.trim().is_empty()) {
            return Err(self.error("a word without characters", "remove the word and its label"));
        }
        Ok(WordText::join(words.iter().map(String::as_str)))
    }

    /// Returns the values of a list, nothing for `null`, and otherwise the value itself. An empty text is nothing.
    fn items(&self) -> Vec<Value> {
        match &self.value {
            Value::Null => Vec::new(),
            Value::Array(items) => items.clone(),
            Value::String(text) if text.is_empty() => Vec::new(),
            other => vec![other.clone()],
        }
    }

    /// JSON may escape a NUL, and Parquet may contain it.
    fn checked(&self, text: &str) -> Result<String, RowError> {
        if text.contains('\0') {
            return Err(self.error("NUL character", "remove the character"));
        }
        Ok(text.to_owned())
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "no value",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
