//! Losses that predict ids or labels.

use std::collections::BTreeMap;

use tch::Tensor;
use trainer_plan::Error;
use trainer_plan::encoder::Gelu;
use trainer_plan::objectives::corrective_lm::LmForm;
use trainer_plan::objectives::replaced_token::LabelOne;
use trainer_plan::objectives::token_prediction::PredictionReduction;

use crate::device::precision::Precision;
use crate::model::heads::{Decoder, Dense, TokenHead, Transform};
use crate::model::layers::Mode;
use crate::objectives::corrective_lm::RestoreTargets;
use crate::objectives::row_head::RowHead;
use crate::objectives::token_prediction::Targets;
use crate::objectives::{classification, corrective_lm, masked_lm, replaced_token, token_prediction};
use crate::parity::files::CaseOutcome;
use crate::parity::inputs::Inputs;
use crate::parity::outcomes::{learned, mean, number, parts, positions_where, share};

/// Precision of the heads. Cases are computed in the requested float type, so nothing is cast.
const PRECISION: Precision = Precision::F32;

pub(super) fn masked_lm(inputs: &mut Inputs<'_>) -> Result<CaseOutcome, Error> {
    let hidden_btd = inputs.floats("h", "btd")?;
    let head = token_head(inputs)?;
    let (positions_n, targets_n) = part(inputs, "positions", "targets", "n")?;
    let sum = masked_lm::loss(&hidden_btd, &head, &positions_n, &targets_n, None).sum;
    Ok(learned(&mean(&sum, targets_n.numel()), BTreeMap::new(), inputs))
}

pub(super) fn token_prediction(inputs: &mut Inputs<'_>) -> Result<CaseOutcome, Error> {
    let pool =
        inputs.choice("pool", &[("separate", PredictionReduction::Separate), ("joint", PredictionReduction::Joint)])?;
    let hidden_btd = inputs.floats("h", "btd")?;
    let head = token_head(inputs)?;
    let (masked_n, masked_targets_n) = part(inputs, "positions", "targets", "n")?;
    let (others_m, other_targets_m) = part(inputs, "other_positions", "other_targets", "m")?;
    let masked = Targets { positions_n: &masked_n, targets_n: &masked_targets_n };
    let unmasked = Targets { positions_n: &others_m, targets_n: &other_targets_m };
    let found = token_prediction::loss(&hidden_btd, &head, masked, unmasked);
    let masked = found.masked.sum;
    let unmasked = found.unmasked.sum;
    let loss = match pool {
        PredictionReduction::Separate => mean(&masked, masked_n.numel()) + mean(&unmasked, others_m.numel()),
        PredictionReduction::Joint => mean(&(masked + unmasked), masked_n.numel() + others_m.numel()),
    };
    Ok(learned(&loss, BTreeMap::new(), inputs))
}

pub(super) fn next_sentence(inputs: &mut Inputs<'_>) -> Result<CaseOutcome, Error> {
    let hidden_btd = inputs.floats("h", "btd")?;
    let pooler_dd = inputs.floats("W", "dd")?;
    let pooler_bias_d = inputs.floats("b", "d")?;
    let classifier_2d = inputs.floats("U", "2d")?;
    let classifier_bias_2 = inputs.floats("c", "2")?;
    let is_random_b = inputs.index("is_random", "b", 0..2)?;
    let pooler = Dense { weight_oi: pooler_dd, bias_o: pooler_bias_d };
    let classifier = Dense { weight_oi: classifier_2d, bias_o: classifier_bias_2 };
    let logits_b2 = RowHead::of_pairs(pooler, classifier, PRECISION).logits(&hidden_btd, Mode::Eval);
    let found = classification::loss(&logits_b2, &is_random_b, None);
    let rows = is_random_b.numel();
    let parts = parts([("accuracy", share(&found.hits, rows))]);
    Ok(learned(&mean(&found.sum, rows), parts, inputs))
}

pub(super) fn replaced_token(inputs: &mut Inputs<'_>) -> Result<CaseOutcome, Error> {
    let label_one =
        inputs.choice("label_one", &[("replaced", LabelOne::IsReplaced), ("original", LabelOne::IsOriginal)])?;
    let is_dense = inputs.choice("head", &[("linear", false), ("dense_gelu", true)])?;
    let hidden_btd = inputs.floats("h", "btd")?;
    let weight_d = inputs.floats("w", "d")?;
    let bias_1 = inputs.floats("b", "1")?;
    let dense = if is_dense { Some((inputs.floats("W", "dd")?, inputs.floats("bW", "d")?)) } else { None };
    let dense = dense.map(|(weight_oi, bias_o)| (Dense { weight_oi, bias_o }, Gelu::Erf));
    let head = replaced_token::DetectionHead { dense, weight_d, bias_1, precision: PRECISION };
    let tokens = Tokens::read(inputs, i64::MAX)?;
    let replaced_bt = tokens.replaced_bt(inputs);
    let valid_bt = inputs.grid(&tokens.valid);
    let found = replaced_token::loss(&hidden_btd, &head, &replaced_bt, Some(&valid_bt), label_one);
    let count = positions_where(&[&tokens.valid]).len();
    let accuracy = share(&(found.replaced_hits + found.original_hits), count);
    Ok(learned(&mean(&found.sum, count), parts([("accuracy", accuracy)]), inputs))
}

pub(super) fn corrective_lm(inputs: &mut Inputs<'_>) -> Result<CaseOutcome, Error> {
    let forms =
        [("mixture", LmForm::Mixture), ("weighted_ce", LmForm::WeightedCe), ("softmax_only", LmForm::SoftmaxOnly)];
    let form = inputs.choice("lm_form", &forms)?;
    let only_masked = inputs.choice("lm_scope", &[("masked", true), ("all", false)])?;
    let stop_grad = inputs.flag("stop_grad", true)?;
    let copy_weight = inputs.number("copy_weight", 50.0, f64::NEG_INFINITY)?;
    let averaged = inputs.choice("norm", &[("mean", true), ("sum", false)])?;

    let hidden_btd = inputs.floats("h", "btd")?;
    let decoder = decoder(inputs)?;
    let weight_d = inputs.floats("w", "d")?;
    let bias_1 = inputs.floats("b", "1")?;
    let copy = replaced_token::DetectionHead { dense: None, weight_d, bias_1, precision: PRECISION };
    let vocab = inputs.size('v');
    let tokens = Tokens::read(inputs, vocab)?;
    let masked = inputs.flags("masked", "bt")?;
    let valid = positions_where(&[&tokens.valid]);
    let chosen = if only_masked { positions_where(&[&tokens.valid, &masked]) } else { valid.clone() };
    let positions_n = Tensor::from_slice(&chosen);
    let at = |ids: &[i64]| Tensor::from_slice(ids).index_select(0, &positions_n);
    let fed_n = at(&tokens.corrupt);
    let targets_n = at(&tokens.orig);
    let found = corrective_lm::loss(
        &hidden_btd,
        &corrective_lm::CorrectionHead { copy, decoder },
        &tokens.replaced_bt(inputs),
        Some(&inputs.grid(&tokens.valid)),
        RestoreTargets { positions_n: &positions_n, fed_n: &fed_n, targets_n: &targets_n },
        form,
        stop_grad,
    );
    let (copies, words) = if averaged { (valid.len(), chosen.len()) } else { (1, 1) };
    let copy_loss = mean(&found.copy.sum, copies);
    let lm_loss = mean(&found.lm_sum, words);
    let parts = parts([("copy_loss", number(&copy_loss)), ("lm_loss", number(&lm_loss))]);
    Ok(learned(&(copy_loss * copy_weight + lm_loss), parts, inputs))
}

fn part(inputs: &mut Inputs<'_>, at: &str, what: &str, axis: &str) -> Result<(Tensor, Tensor), Error> {
    let positions = inputs.index(at, axis, 0..inputs.size('b') * inputs.size('t'))?;
    Ok((positions, inputs.index(what, axis, 0..inputs.size('v'))?))
}

/// Reads a masked language modelling head.
fn token_head(inputs: &mut Inputs<'_>) -> Result<TokenHead, Error> {
    let transform = Transform {
        dense: Dense { weight_oi: inputs.floats("W", "dd")?, bias_o: inputs.floats("b", "d")? },
        norm_gain_d: inputs.floats("gamma", "d")?,
        norm_bias_d: inputs.floats("beta", "d")?,
        gelu: inputs.choice("gelu", &[("erf", Gelu::Erf), ("tanh", Gelu::Tanh)])?,
        norm_eps: inputs.number("ln_eps", 1e-12, 0.0)?,
        precision: PRECISION,
    };
    Ok(TokenHead { transform: Some(transform), decoder: decoder(inputs)? })
}

fn decoder(inputs: &mut Inputs<'_>) -> Result<Decoder, Error> {
    let words_vd = inputs.floats("E", "vd")?;
    let bias_v = inputs.floats("out_bias", "v")?;
    Ok(Decoder { words_vd, bias_v, precision: PRECISION })
}

/// Original and input ids, row by row, and the mask of real tokens.
struct Tokens {
    orig: Vec<i64>,
    corrupt: Vec<i64>,
    valid: Vec<bool>,
}

impl Tokens {
    /// Reads all three. Ids must be below `vocab`.
    fn read(inputs: &mut Inputs<'_>, vocab: i64) -> Result<Self, Error> {
        let mut ids = |name: &str| -> Result<Vec<i64>, Error> {
            let ids = inputs.integers(name, "bt")?;
            let check = |(at, &id): (usize, &i64)| inputs.check(name, at, id, &(0..vocab));
            ids.iter().enumerate().try_for_each(check)?;
            Ok(ids)
        };
        let orig = ids("orig")?;
        let corrupt = ids("corrupt")?;
        Ok(Self { orig, corrupt, valid: inputs.flags("valid", "bt")? })
    }

    fn replaced_bt(&self, inputs: &Inputs<'_>) -> Tensor {
        let replaced: Vec<bool> = self.orig.iter().zip(&self.corrupt).map(|(orig, corrupt)| orig != corrupt).collect();
        inputs.grid(&replaced)
    }
}
