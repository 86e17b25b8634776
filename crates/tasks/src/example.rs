//! Labelled example of a task, and the output that a task predicts.

use std::fmt;
use std::ops::{Range, RangeInclusive};

/// Example: one or two texts with a gold value.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// Id: the value of the id column, else the number of the example in its file, from 0.
    pub id: String,
    /// Line or row of the file, from 1.
    pub line: u64,
    /// First text. For a question with a passage, it is the question.
    pub first: String,
    /// Second text, if the task has pairs. For a question with a passage, it is the passage.
    pub second: Option<String>,
    /// Words of the first text as byte ranges, for tasks that label words. Otherwise empty.
    pub words: Vec<Range<usize>>,
    /// Gold value.
    pub gold: Gold,
}

/// Gold value of an example.
#[derive(Clone, Debug, PartialEq)]
pub enum Gold {
    /// No gold value: a test set without labels.
    None,
    /// Class as an index into the labels of the task.
    Class(u32),
    /// Score.
    Score(f64),
    /// Answers within the second text. No answer: the question is unanswerable.
    Answers(Vec<Answer>),
    /// Label of each word as an index into the labels of the task.
    WordLabels(Vec<u32>),
}

/// Answer within a passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Text. It equals the passage from `start` on.
    pub text: String,
    /// First byte within the passage.
    pub start: usize,
}

impl Answer {
    /// Returns the byte range of the answer within the passage.
    pub fn range(&self) -> Range<usize> {
        self.start..self.start + self.text.len()
    }
}

/// Output that a task predicts.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskOutput {
    /// One of several classes.
    Class {
        /// Names of the classes as in the files. The order defines the indices.
        labels: Vec<String>,
    },
    /// Real number.
    Score {
        /// Range of gold values. Predictions may exceed it.
        range: RangeInclusive<f64>,
    },
    /// Span of the second text.
    Spans {
        /// Whether questions may be unanswerable.
        allows_none: bool,
    },
    /// Class of each word.
    WordLabels {
        /// Names of the labels as in the files, such as `O` and `B-PER`. The order defines the indices.
        labels: Vec<String>,
    },
}

impl fmt::Display for TaskOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Class { labels } => write!(f, "one of {}", labels.join(", ")),
            Self::Score { range } => write!(f, "a score from {} to {}", range.start(), range.end()),
            Self::Spans { allows_none: false } => f.write_str("an answer"),
            Self::Spans { allows_none: true } => f.write_str("an answer or none"),
            Self::WordLabels { labels } => write!(f, "labels of words: {}", labels.join(", ")),
        }
    }
}

impl TaskOutput {
    /// Returns the names of the labels. Empty for scores and spans.
    pub fn labels(&self) -> &[String] {
        match self {
            Self::Class { labels } | Self::WordLabels { labels } => labels,
            Self::Score { .. } | Self::Spans { .. } => &[],
        }
    }

    /// Returns the index of a label.
    pub fn label_index(&self, name: &str) -> Option<u32> {
        let index = self.labels().iter().position(|label| label == name)?;
        u32::try_from(index).ok()
    }

    /// Returns the number of logits per example, or per word for word labels, or per token for spans.
    pub fn width(&self) -> usize {
        match self {
            Self::Class { labels } | Self::WordLabels { labels } => labels.len(),
            Self::Score { .. } => 1,
            Self::Spans { .. } => 2,
        }
    }
}
