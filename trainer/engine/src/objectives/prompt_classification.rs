//! Classification by label words.
//!
//! # What
//! Predicts the class of a text at the masked position of a template. Each class has a label word, and a head that
//! predicts tokens scores them.
//!
//! # Why
//! Fine-tuning on a few examples: no weight is new, so the knowledge of the pretrained head is used.
//!
//! # Definition
//! `S = Σ_rows CE(l, y)`, `l_c = f(h_m)·E_{v(c)} + b_{v(c)}`, where `m` is the masked position, `v(c)` the label word of class
//! `c`, and `f`, `E`, `b` the head of masked language modelling: so `softmax(l)` is the distribution of the masked token,
//! given that it is a label word. For COCO-LM, `f` is the identity and the copy gate is not used.
//!
//! # Columns
//! `targets` of the view `labelled_example` with `target = "tokens"`: the class at the masked position.
//!
//! # Reference
//! Gao et al. 2021, "Making Pre-trained Language Models Better Few-shot Learners", equation 1; Meng et al. 2021, COCO-LM,
//! table 4.
//!
//! Axes: `b` rows, `t` positions, `d` hidden, `n` masked positions, `k` classes.

use tch::Tensor;
use trainer_plan::networks::MAIN;
use trainer_plan::objectives::TokenHeadForm;
use trainer_plan::objectives::prompt_classification::PromptClassification;

use super::classification::loss;
use super::token_classification::labelled;
use super::{Build, Loss, Metric, ObjectiveOutput, Term};
use crate::device::tensors::upload_once;
use crate::model::forward::Forward;
use crate::model::head_weights::{DecoderWeights, TokenHeadWeights};
use crate::model::heads::TokenHead;
use crate::model::host_batch::HostBatch;
use crate::model::networks::built::Networks;
use crate::model::parameters::Path;
use crate::model::staging_buffer::Staging;

/// Names of the arrays that are uploaded.
const POSITIONS: &str = "masked positions";
const CLASSES: &str = "classes";

impl Build for PromptClassification {
    fn build(&self, name: &str, head: &Path<'_>, networks: &Networks) -> Box<dyn Loss> {
        let words = networks.word_table(MAIN);
        let head = match self.form {
            TokenHeadForm::Transform => {
                HeadWeights::Transformed(TokenHeadWeights::build(networks.config(), Some(words), head))
            }
            TokenHeadForm::Untied => HeadWeights::Transformed(TokenHeadWeights::build(networks.config(), None, head)),
            TokenHeadForm::Table => HeadWeights::Table(DecoderWeights::tied(words, &head.sub("lm"))),
        };
        let words: Vec<i64> = self.words.iter().copied().map(i64::from).collect();
        let words_k = upload_once(&Tensor::from_slice(&words), networks.device());
        Box::new(PromptClassificationLoss { name: name.to_owned(), view: self.view.clone(), words_k, head })
    }
}

/// Weights of a head that predicts tokens.
enum HeadWeights {
    Transformed(TokenHeadWeights),
    Table(DecoderWeights),
}

struct PromptClassificationLoss {
    name: String,
    view: String,
    words_k: Tensor,
    head: HeadWeights,
}

impl PromptClassificationLoss {
    /// Returns the scores `[…, k]` of the label words for hidden states `[…, d]`.
    fn logits(&self, forward: &Forward<'_>, hidden: &Tensor) -> Tensor {
        let precision = forward.networks().precision();
        let head = match &self.head {
            HeadWeights::Transformed(weights) => weights.leaves(precision),
            HeadWeights::Table(weights) => TokenHead { transform: None, decoder: weights.leaves(precision) },
        };
        head.logits_of(hidden, &self.words_k)
    }
}

impl Loss for PromptClassificationLoss {
    fn terms(&self, batch: &HostBatch<'_>) -> Vec<Term> {
        vec![Term { name: "", weight: 1.0, count: labelled(batch, &self.view).0.len() as f64 }]
    }

    fn send(&self, batch: &HostBatch<'_>, staging: &mut Staging) {
        let (positions, classes) = labelled(batch, &self.view);
        staging.add_list(&self.name, POSITIONS, &positions);
        staging.add_list(&self.name, CLASSES, &classes);
    }

    fn compute(&self, forward: &Forward<'_>) -> ObjectiveOutput {
        let positions_n = forward.uploaded(&self.name, POSITIONS);
        let hidden_nd = Forward::gather(&forward.encoded(MAIN, &self.view).hidden_btd, &positions_n);
        let found = loss(&self.logits(forward, &hidden_nd), &forward.uploaded(&self.name, CLASSES), None);
        let rows = self.terms(forward.batch())[0].count;
        ObjectiveOutput { sums: vec![found.sum], metrics: vec![Metric::new("accuracy", found.hits, rows)] }
    }

    fn scores(&self, forward: &Forward<'_>) -> Option<Tensor> {
        Some(self.logits(forward, &forward.encoded(MAIN, &self.view).hidden_btd))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests read values back to the host")]
mod tests {
    use tch::Kind;

    use super::*;
    use crate::device::precision::Precision;
    use crate::model::heads::Decoder;

    /// Two hidden states, a table of four words of which the ids 3 and 1 are label words. Scores: (1·2 + 0.5, 1·0 − 1) and
    /// (−1·2 + 2·1 + 0.5, 2·3 − 1) = (2.5, −1) and (0.5, 5), so the losses of the classes 0 and 0 are ln(1 + e^−3.5) and
    /// ln(1 + e^4.5).
    #[test]
    fn label_words_are_scored_by_their_rows_of_the_table() {
        let table = [9.0, 9.0, 0.0, 3.0, 8.0, 8.0, 2.0, 1.0_f64];
        let decoder = Decoder {
            words_vd: Tensor::from_slice(&table).view([4, 2]),
            bias_v: Tensor::from_slice(&[7.0, -1.0, 7.0, 0.5]),
            precision: Precision::F32,
        };
        let head = TokenHead { transform: None, decoder };
        let hidden_nd = Tensor::from_slice(&[1.0, 0.0, -1.0, 2.0]).view([2, 2]);
        let words_k = Tensor::from_slice(&[3_i64, 1]);
        let logits_nk = head.logits_of(&hidden_nd, &words_k);
        assert!(logits_nk.allclose(&Tensor::from_slice(&[2.5, -1.0, 0.5, 5.0]).view([2, 2]), 0.0, 1e-12, false));
        let all_nv = head.logits(&hidden_nd).index_select(1, &words_k);
        assert!(logits_nk.allclose(&all_nv, 0.0, 1e-12, false), "those of the whole vocabulary");
        let sum = loss(&logits_nk, &Tensor::from_slice(&[0_i64, 0]), None).sum.to_kind(Kind::Double);
        let expected = (-3.5_f64).exp().ln_1p() + 4.5_f64.exp().ln_1p();
        assert!((f64::try_from(&sum).expect("one number") - expected).abs() < 1e-12, "{sum:?}");
    }
}
