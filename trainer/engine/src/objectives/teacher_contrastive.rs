//! Token contrast with a frozen teacher (TaCL).
//!
//! # What
//! At each predicted position the student reads the masked row and its teacher reads the clean row. The loss pulls the
//! student's vector towards the teacher's vector at the same position, and away from the teacher's other vectors of the
//! row.
//!
//! # Why
//! Token vectors of BERT are very similar within a text. This objective spreads them without any labels.
//!
//! # Definition
//! With student `u`, teacher `v` (a constant), selected positions `P` and keys `K(i)` of the row of `i`:
//!
//! ```text
//! S = Σ_{i ∈ P} ω_i ( ln Σ_{j ∈ K(i)} exp(cos(u_i, v_j) / τ) − cos(u_i, v_i) / τ )
//! ```
//!
//! `K(i)` are the real positions of the row, or all positions including padding, as in the released code. `ω` is 1. If
//! rows are averaged first, `ω` is one over the row's number of selected positions. At `τ = 0.01` scores reach ±100:
//! they are at least float32.
//!
//! # Columns
//! `labels` (the selected positions) and `attention_mask` of the masked view; `original` in addition, for the teacher.
//!
//! # Reference
//! Su et al. 2022, "TaCL: Improving BERT Pre-training with Token-aware Contrastive Learning", section 3. According to
//! the comments of the released code, unselected positions are compared; its arrays compute the definition above.
//!
//! Axes: `b` rows, `t` positions, `m` = b · t, `n` selected positions, `d` hidden.

use tch::{Kind, Tensor};
use trainer_plan::networks::MAIN;
use trainer_plan::objectives::teacher_contrastive::{PadKeys, TeacherContrastive};

use super::{Build, Loss, Metric, ObjectiveOutput, Term, masked_lm};
use crate::model::forward::Forward;
use crate::model::host_batch::HostBatch;
use crate::model::networks::built::Networks;
use crate::model::parameters::Path;
use crate::model::staging_buffer::Staging;
use crate::objectives::similarity;

/// Positions that have a loss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SelectedTokens<'a> {
    /// Flat positions `row · t + column`, `[n]`, int64; each must be its own key row.
    pub positions_n: &'a Tensor,
    /// Factor of each loss, `[n]`; `None` for 1.
    pub weights_n: Option<&'a Tensor>,
}

/// Result of [`loss`]: scalars on the device.
#[derive(Debug)]
pub(crate) struct Alignment {
    /// Weighted sum of the positions' losses in nats, with gradient.
    pub sum: Tensor,
    /// Number of positions that are nearest to their own key, int64.
    pub hits: Tensor,
}

/// Computes the loss of a student `[b, t, d]` against a teacher of the same shape, which gets no gradient.
///
/// `keys_bt` is boolean and marks the keys; `None` for all positions. All `t · t` scores of a row are computed, then
/// those of selected positions are gathered. That is as many numbers as one attention head has. A copy of the row's
/// keys for each selected position would take `n · t · d`.
#[must_use]
pub(crate) fn loss(
    student_btd: &Tensor,
    teacher_btd: &Tensor,
    selected: SelectedTokens<'_>,
    keys_bt: Option<&Tensor>,
    temperature: f64,
) -> Alignment {
    let SelectedTokens { positions_n, weights_n } = selected;
    let kind = student_btd.kind();
    let width = student_btd.size()[1];
    let key_bdt = similarity::unit(&teacher_btd.detach()).transpose(1, 2);
    let score_btt = similarity::unit(student_btd).bmm(&key_bdt) / temperature;
    let score_btt = match keys_bt {
        None => score_btt,
        Some(keys_bt) => score_btt.masked_fill(&keys_bt.logical_not().unsqueeze(1), f64::NEG_INFINITY),
    };
    let score_nt = score_btt.view([-1, width]).index_select(0, positions_n);
    let column_n = positions_n.remainder(width);
    let own_n = score_nt.gather(1, &column_n.unsqueeze(1), false).squeeze_dim(1);
    let each_n = score_nt.logsumexp([1], false) - own_n;
    let sum = weights_n.map_or_else(|| each_n.sum(kind), |weights_n| each_n.dot(weights_n));
    let hits = score_nt.detach().argmax(1, false).eq_tensor(&column_n).sum(Kind::Int64);
    Alignment { sum, hits }
}

impl Build for TeacherContrastive {
    fn build(&self, _name: &str, _head: &Path<'_>, _networks: &Networks) -> Box<dyn Loss> {
        Box::new(TeacherContrastiveLoss { config: self.clone() })
    }
}

struct TeacherContrastiveLoss {
    config: TeacherContrastive,
}

impl Loss for TeacherContrastiveLoss {
    fn terms(&self, batch: &HostBatch<'_>) -> Vec<Term> {
        vec![Term { name: "", weight: 1.0, count: masked_lm::count(self.config.reduction, batch, &self.config.view) }]
    }

    fn send(&self, batch: &HostBatch<'_>, staging: &mut Staging) {
        masked_lm::send_weights(self.config.reduction, batch, &self.config.view, staging);
    }

    fn compute(&self, forward: &Forward<'_>) -> ObjectiveOutput {
        let config = &self.config;
        let student_btd = &forward.encoded(MAIN, &config.view).hidden_btd;
        let teacher_btd = &forward.encoded(&config.teacher, &config.clean).hidden_btd;
        let predicted = forward.predicted(&config.view);
        let weights_n = masked_lm::sent_weights(config.reduction, forward, &self.config.view);
        let selected = SelectedTokens { positions_n: &predicted.positions_n, weights_n: weights_n.as_ref() };
        let valid_bt = forward.view(&config.view).valid_bt.as_ref();
        let keys_bt = valid_bt.filter(|_| config.pad_keys == PadKeys::Exclude);
        let found = loss(student_btd, teacher_btd, selected, keys_bt, config.temperature);
        ObjectiveOutput {
            sums: vec![found.sum],
            metrics: vec![Metric::new("accuracy", found.hits, predicted.count as f64)],
        }
    }
}

#[cfg(test)]
mod tests {
    use tch::{Kind, Tensor};

    use super::{SelectedTokens, loss};

    fn number(tensor: &Tensor) -> f64 {
        f64::try_from(tensor.to_kind(Kind::Double)).expect("one number")
    }

    fn check(what: &str, found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-11, "{what}: {found} is not {expected}");
    }

    /// One row of three positions and one padding position.
    fn example() -> (Tensor, Tensor) {
        let student = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.3, -0.2];
        let teacher = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, -1.0];
        (Tensor::from_slice(&student).view([1, 4, 2]), Tensor::from_slice(&teacher).view([1, 4, 2]))
    }

    fn reference(selected: &[i64], with_padding: bool, temperature: f64) -> (f64, i64) {
        let (student_btd, teacher_btd) = example();
        let keys_bt = Tensor::from_slice(&[true, true, true, false]).view([1, 4]);
        let selected = SelectedTokens { positions_n: &Tensor::from_slice(selected), weights_n: None };
        let found = loss(&student_btd, &teacher_btd, selected, (!with_padding).then_some(&keys_bt), temperature);
        (number(&found.sum), i64::try_from(found.hits).expect("one count"))
    }

    #[test]
    fn sums_are_those_of_the_worked_example() {
        check("mean", reference(&[1, 2], false, 1.0).0 / 2.0, 1.123_763_379_103);
        check("cold", reference(&[1, 2], false, 0.01).0 / 2.0, 29.289_321_881_346);
        check("with padding", reference(&[1, 2], true, 1.0).0 / 2.0, 1.189_918_135_626);
    }

    #[test]
    fn a_collapsed_row_costs_the_logarithm_of_its_length() {
        let same_btd = Tensor::ones([2, 7, 3], (Kind::Double, tch::Device::Cpu));
        let positions_n = Tensor::from_slice(&[0_i64, 6, 9]);
        let selected = SelectedTokens { positions_n: &positions_n, weights_n: None };
        check("sum", number(&loss(&same_btd, &same_btd, selected, None, 0.01).sum), 3.0 * 7.0_f64.ln());
    }

    #[test]
    fn hits_are_positions_that_are_nearest_to_themselves() {
        assert_eq!([&[0_i64][..], &[1], &[2], &[0, 1, 2]].map(|at| reference(at, false, 1.0).1), [1, 0, 0, 1]);
    }

    #[test]
    fn weights_multiply_and_the_teacher_stays() {
        let (student_btd, teacher_btd) = example();
        let teacher_btd = teacher_btd.set_requires_grad(true);
        let student_btd = student_btd.set_requires_grad(true);
        let positions_n = Tensor::from_slice(&[1_i64, 2]);
        let weights_n = Tensor::from_slice(&[0.5, 2.0]);
        let selected = SelectedTokens { positions_n: &positions_n, weights_n: Some(&weights_n) };
        let found = loss(&student_btd, &teacher_btd, selected, None, 1.0);
        check("sum", number(&found.sum), 0.5 * reference(&[1], true, 1.0).0 + 2.0 * reference(&[2], true, 1.0).0);
        found.sum.backward();
        assert!(!teacher_btd.grad().defined());
        let gradient: Vec<f64> = Vec::try_from(student_btd.grad().view([-1])).expect("a vector");
        assert!(gradient[2..6].iter().any(|entry| entry.abs() > 0.1));
        assert!(
            gradient[..2].iter().chain(&gradient[6..]).all(|entry| entry.abs() < f64::MIN_POSITIVE),
            "{gradient:?}"
        );
    }

    #[test]
    fn nothing_selected_is_a_loss_of_0() {
        let (sum, hits) = reference(&[], false, 0.01);
        assert!(sum.abs() < f64::MIN_POSITIVE && hits == 0, "{sum}, {hits}");
    }
}
