//! Extraction of answers.
//!
//! # What
//! Predicts the first and the last token of the answer in each row.
//!
//! # Why
//! Fine-tuning on SQuAD and on other questions with answers in a text.
//!
//! # Definition
//! `[s_t, e_t] = W h_t + b` for every position `t`. `S = Σ_rows (CE(s, first) + CE(e, last)) / 2`, where padding has the
//! probability 0: so the loss of a row does not depend on the width of its batch. The first position is the target without
//! answer.
//!
//! # Columns
//! `targets` of the view `labelled_example` with `target = "span"`.
//!
//! # Reference
//! Devlin et al. 2019, section 4.2; `BertForQuestionAnswering` of Hugging Face, whose loss includes padding.
//!
//! Axes: `b` rows, `t` positions, `2` first and last.

use schemas::columns::{IGNORE, TARGETS};
use tch::{Kind, Tensor};
use trainer_plan::networks::MAIN;
use trainer_plan::objectives::span_extraction::SpanExtraction;

use super::classification::{ClassLoss, loss};
use super::{Build, Loss, Metric, ObjectiveOutput, Term};
use crate::device::precision::PrecisionCast as _;
use crate::model::forward::Forward;
use crate::model::head_weights::DenseWeights;
use crate::model::host_batch::HostBatch;
use crate::model::networks::built::Networks;
use crate::model::parameters::Path;
use crate::model::staging_buffer::Staging;

/// Names of the arrays that are uploaded.
const FIRST: &str = "first tokens";
const LAST: &str = "last tokens";

impl Build for SpanExtraction {
    fn build(&self, name: &str, head: &Path<'_>, _networks: &Networks) -> Box<dyn Loss> {
        let outputs = DenseWeights::build(&head.sub("outputs"));
        Box::new(SpanExtractionLoss { name: name.to_owned(), view: self.view.clone(), outputs })
    }
}

struct SpanExtractionLoss {
    name: String,
    view: String,
    outputs: DenseWeights,
}

impl SpanExtractionLoss {
    /// Returns the positions of the first and the last token of each row, −100 for a row without a target.
    fn spans(&self, batch: &HostBatch<'_>) -> (Vec<i64>, Vec<i64>) {
        let targets = batch.column(&self.view, TARGETS);
        let span = |row: usize| match targets.row(row) {
            [first, last, ..] if !batch.is_gap(&self.view, row) => (i64::from(*first), i64::from(*last)),
            _ => (i64::from(IGNORE), i64::from(IGNORE)),
        };
        (0..targets.rows()).map(span).unzip()
    }

    fn logits(&self, forward: &Forward<'_>) -> Tensor {
        let precision = forward.networks().precision();
        let hidden_btd = &forward.encoded(MAIN, &self.view).hidden_btd;
        precision.upcast(&self.outputs.leaves(precision).apply(hidden_btd, precision))
    }
}

impl Loss for SpanExtractionLoss {
    fn terms(&self, batch: &HostBatch<'_>) -> Vec<Term> {
        let count = self.spans(batch).0.into_iter().filter(|&first| first != i64::from(IGNORE)).count() as f64;
        vec![Term { name: "", weight: 1.0, count }]
    }

    fn send(&self, batch: &HostBatch<'_>, staging: &mut Staging) {
        let (first, last) = self.spans(batch);
        staging.add_list(&self.name, FIRST, &first);
        staging.add_list(&self.name, LAST, &last);
    }

    fn compute(&self, forward: &Forward<'_>) -> ObjectiveOutput {
        let mut logits_bt2 = self.logits(forward);
        if let Some(valid_bt) = &forward.view(&self.view).valid_bt {
            let padding_bt = valid_bt.logical_not();
            // A row without tokens keeps one position: a softmax over none is NaN.
            let _ = padding_bt.narrow(1, 0, 1).fill_(0);
            logits_bt2 = logits_bt2.masked_fill(&padding_bt.unsqueeze(-1), f64::NEG_INFINITY);
        }
        let [first_b, last_b] = [FIRST, LAST].map(|array| forward.uploaded(&self.name, array));
        let [first_bt, last_bt] = [0, 1].map(|output| logits_bt2.select(2, output));
        let ClassLoss { sum: first, .. } = loss(&first_bt, &first_b, None);
        let ClassLoss { sum: last, .. } = loss(&last_bt, &last_b, None);
        let is_hit = |logits_bt: &Tensor, target_b: &Tensor| logits_bt.detach().argmax(-1, false).eq_tensor(target_b);
        let hits = is_hit(&first_bt, &first_b).logical_and(&is_hit(&last_bt, &last_b)).sum(Kind::Int64);
        let rows = self.terms(forward.batch())[0].count;
        ObjectiveOutput { sums: vec![(first + last) / 2.0], metrics: vec![Metric::new("exact", hits, rows)] }
    }

    fn scores(&self, forward: &Forward<'_>) -> Option<Tensor> {
        Some(self.logits(forward))
    }
}
