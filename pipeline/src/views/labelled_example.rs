//! Labelled example: one text or two, with what is to be predicted.
//!
//! # What
//! `[CLS] A [SEP]`, or `[CLS] A [SEP] B [SEP]` for two texts, padded to the width, and the target.
//!
//! # Why
//! Input of fine-tuning: classification, regression, extraction of answers, classification of tokens.
//!
//! # Definition
//! The sample has the tokens of A and then those of B; its second sentence start, if there is one, is the start of B.
//! `targets` depends on `target`:
//!
//! | `target` | cells of `targets` |
//! |---|---|
//! | `row` | cell 0: the class, or the bits of the float32 score |
//! | `span` | cells 0 and 1: the positions in the row of the first and the last token of the answer; 0 (`[CLS]`) without answer |
//! | `tokens` | the cell of each content token: its class, or −100 |
//!
//! All other cells are −100, as are those of a row without a target.
//!
//! Texts that do not fit are truncated at their ends, a token of the longer one at a time, of B if they are equal. An
//! answer that is not wholly in the row is none.
//!
//! # Columns
//! `input_ids`, `token_types` (0 for `[CLS] A [SEP]`, 1 for `B [SEP]`; 0 everywhere with two separators), `targets`; on
//! demand `attention_mask`, `origin`, `document`.
//!
//! # Reference
//! Devlin et al., *BERT*, NAACL 2019, section 3.2 and figure 4; Liu et al., *RoBERTa*, 2019, for two separators.

use std::ops::Range;

use schemars::JsonSchema;
use schemas::columns::{IGNORE, INPUT_IDS, TARGETS, TOKEN_TYPES};
use schemas::{ColumnSpec, Sample, Vocab};
use serde::{Deserialize, Serialize};

use super::spans::{Sentences, Span, truncated, write};
use super::{View, ViewName, ViewSource};
use crate::rng::RowAddress;
use crate::row::RowMut;

/// Labelled example.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LabelledExample {
    /// Form of the targets.
    pub target: TargetForm,
    /// Whether two separators are between the texts, as in RoBERTa and COCO-LM, and no second segment.
    pub two_separators: bool,
}

/// Form of the targets of labelled examples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TargetForm {
    /// A class or a score of the row.
    #[default]
    Row,
    /// First and last token of an answer.
    Span,
    /// A class of each token.
    Tokens,
}

impl View for LabelledExample {
    fn of(&self) -> Option<&ViewName> {
        None
    }

    fn columns(&self) -> &'static [ColumnSpec] {
        const { &[INPUT_IDS.spec(), TOKEN_TYPES.spec(), TARGETS.spec()] }
    }

    fn makes_segments(&self) -> bool {
        !self.two_separators
    }

    fn needs_sentences(&self) -> bool {
        true
    }

    fn needs_targets(&self) -> bool {
        true
    }

    fn render(&self, source: ViewSource<'_>, vocab: &Vocab, _: &RowAddress<'_>, row: &mut RowMut<'_>) {
        let sample = source.sample();
        let texts = self.texts(sample, row.input_ids.len());
        let [a, b] = [texts.a.clone(), texts.b.clone()].map(|range| [Span::new(sample, range, 0)]);
        write(row, vocab, &a, &b, self.separators());
        if self.two_separators
            && let Some(token_types) = row.cells.get(TOKEN_TYPES)
        {
            token_types.fill(0);
        }
        if let Some(cells) = row.cells.get(TARGETS) {
            self.write_targets(sample, &texts, cells);
        }
    }
}

/// Tokens of the two texts that are in a row.
struct Texts {
    a: Range<usize>,
    b: Range<usize>,
    /// Position of the first token of B in the row.
    second: usize,
}

impl Texts {
    /// Returns the position in the row of a token of the sample; `None` if it was truncated.
    fn position(&self, token: usize) -> Option<usize> {
        if self.a.contains(&token) {
            Some(1 + token)
        } else {
            self.b.contains(&token).then(|| self.second + token - self.b.start)
        }
    }
}

impl LabelledExample {
    fn separators(&self) -> usize {
        if self.two_separators { 2 } else { 1 }
    }

    fn texts(&self, sample: &Sample<'_>, width: usize) -> Texts {
        let tokens = sample.input_ids.len();
        let border = Sentences::new(sample).bound(1);
        if border == tokens {
            let a = 0..tokens.min(width - 2);
            return Texts { second: a.end + 2, a, b: tokens..tokens };
        }
        let (a, b) = truncated(border, tokens - border, width - 2 - self.separators());
        Texts { a: 0..a, b: border..border + b, second: 1 + a + self.separators() }
    }

    fn write_targets(&self, sample: &Sample<'_>, texts: &Texts, cells: &mut [i32]) {
        cells.fill(IGNORE);
        match (self.target, sample.targets) {
            (TargetForm::Row, &[target]) => cells[0] = target,
            (TargetForm::Span, &[first, last]) => {
                let position = |token: i32| texts.position(usize::try_from(token).ok()?);
                let cell = |position: usize| i32::try_from(position).expect("a row has fewer than 65,536 tokens");
                let answer = position(first).zip(position(last));
                (cells[0], cells[1]) = answer.map_or((0, 0), |(first, last)| (cell(first), cell(last)));
            }
            (TargetForm::Tokens, targets) => {
                for (token, &target) in targets.iter().enumerate() {
                    if let Some(position) = texts.position(token) {
                        cells[position] = target;
                    }
                }
            }
            // A row without a target, such as the padding of a batch.
            (TargetForm::Row | TargetForm::Span, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use schemas::Batch;

    use super::*;
    use crate::testing::{StoredSample, frame_rows};
    use crate::views::AnyView;

    const CLS: i32 = 2;
    const SEP: i32 = 3;

    /// Renders a row of 10 from texts of these lengths, whose tokens are 10, 11, ….
    fn row(example: LabelledExample, lengths: &[usize], targets: &[i32]) -> Batch {
        let sample = StoredSample::new(lengths, 10).labelled(targets);
        frame_rows(AnyView::LabelledExample(example), 10, &sample.items(None, 1))
    }

    fn ids(batch: &Batch) -> Vec<i32> {
        batch.column("view", INPUT_IDS).expect("made").row(0).to_vec()
    }

    fn cells(batch: &Batch) -> Vec<i32> {
        batch.column("view", TARGETS).expect("made").row(0).to_vec()
    }

    #[test]
    fn one_text_or_two_are_framed_and_labelled() {
        let one = row(LabelledExample::default(), &[3], &[7]);
        assert_eq!(ids(&one), [CLS, 10, 11, 12, SEP, 0, 0, 0, 0, 0]);
        assert_eq!(cells(&one), [7, -100, -100, -100, -100, -100, -100, -100, -100, -100]);
        let two = row(LabelledExample::default(), &[2, 1], &[]);
        assert_eq!(ids(&two), [CLS, 10, 11, SEP, 12, SEP, 0, 0, 0, 0]);
        assert_eq!(two.column("view", TOKEN_TYPES).expect("made").row(0), [0, 0, 0, 0, 1, 1, 0, 0, 0, 0]);
        assert!(cells(&two).iter().all(|&label| label == IGNORE), "no target");
        let roberta = row(LabelledExample { two_separators: true, ..LabelledExample::default() }, &[2, 1], &[1]);
        assert_eq!(ids(&roberta), [CLS, 10, 11, SEP, SEP, 12, SEP, 0, 0, 0]);
        assert_eq!(roberta.column("view", TOKEN_TYPES).expect("made").row(0), [0; 10]);
    }

    #[test]
    fn spans_and_classes_of_tokens_follow_their_tokens() {
        let spans = |two_separators, targets: &[i32]| {
            cells(&row(LabelledExample { target: TargetForm::Span, two_separators }, &[2, 3], targets))[..3].to_vec()
        };
        assert_eq!(spans(false, &[2, 4]), [4, 6, IGNORE]);
        assert_eq!(spans(true, &[2, 4]), [5, 7, IGNORE]);
        assert_eq!(spans(false, &[-1, -1]), [0, 0, IGNORE], "no answer");
        let tokens = LabelledExample { target: TargetForm::Tokens, two_separators: false };
        assert_eq!(cells(&row(tokens, &[3], &[5, IGNORE, 6])), {
            let mut expected = [IGNORE; 10];
            (expected[1], expected[3]) = (5, 6);
            expected
        });
    }

    #[test]
    fn texts_that_do_not_fit_lose_their_ends() {
        let long = row(LabelledExample::default(), &[20], &[1]);
        assert_eq!(ids(&long), [CLS, 10, 11, 12, 13, 14, 15, 16, 17, SEP]);
        // Room for 7 tokens of both.
        let both = row(LabelledExample { target: TargetForm::Span, ..LabelledExample::default() }, &[6, 6], &[8, 9]);
        assert_eq!(ids(&both), [CLS, 10, 11, 12, 13, SEP, 16, 17, 18, SEP]);
        assert_eq!(cells(&both)[..2], [0, 0], "the last token of the answer is truncated");
    }
}
