//! One function per objective: from named inputs to the functions that training calls.

use std::collections::BTreeMap;

use tch::{Kind, Tensor};

use super::Outcome;
use super::inputs::Inputs;
use crate::Error;
use crate::analysis;
use crate::objectives::heads::{Decoder, Dense, Transform};
use crate::objectives::masked_lm::{self, Head};
use crate::objectives::token_contrastive::{self, Candidates};
use crate::plan::Gelu;
use crate::precision::Precision;

/// The outcome of a case; `None` where the objective is unknown.
pub(super) fn compute(objective: &str, inputs: &mut Inputs<'_>) -> Option<Result<Outcome, Error>> {
    match objective {
        "mlm" => Some(masked_lm(inputs)),
        "tc" => Some(token_contrastive(inputs)),
        "contextual_score" => Some(contextual_score(inputs)),
        _ => None,
    }
}

fn masked_lm(inputs: &mut Inputs<'_>) -> Result<Outcome, Error> {
    let gelu = inputs.choice("gelu", &[("erf", Gelu::Erf), ("tanh", Gelu::Tanh)])?;
    let norm_eps = inputs.number("ln_eps", 1e-12, 0.0)?;
    let hidden_btd = inputs.floats("h", "btd")?;
    let (dense_dd, dense_bias_d) = (inputs.floats("W", "dd")?, inputs.floats("b", "d")?);
    let (norm_gain_d, norm_bias_d) = (inputs.floats("gamma", "d")?, inputs.floats("beta", "d")?);
    let (words_vd, bias_v) = (inputs.floats("E", "vd")?, inputs.floats("out_bias", "v")?);
    let precision = Precision::F32;
    let transform = Transform {
        dense: Dense { weight_oi: &dense_dd, bias_o: &dense_bias_d },
        norm_gain_d: &norm_gain_d,
        norm_bias_d: &norm_bias_d,
        gelu,
        norm_eps,
        precision,
    };
    let head = Head { transform, decoder: Decoder { words_vd: &words_vd, bias_v: &bias_v, precision } };
    let positions_n = inputs.index("positions", "n", 0..inputs.size('b') * inputs.size('t'))?;
    let targets_n = inputs.index("targets", "n", 0..inputs.size('v'))?;
    let sum = masked_lm::loss(&hidden_btd, &head, &positions_n, &targets_n, None).sum;
    Ok(mean(&sum, targets_n.numel(), inputs))
}

fn token_contrastive(inputs: &mut Inputs<'_>) -> Result<Outcome, Error> {
    let temperature = inputs.number("tau", 0.07, 0.0)?;
    let detach = inputs.choice("candidates", &[("detached", true), ("live", false)])?;
    let (hidden_btd, static_btd) = (inputs.floats("h", "btd")?, inputs.floats("e", "btd")?);
    let flat = FlatCandidates::read(inputs)?;
    let negatives = inputs.size('k');
    let candidates = Candidates {
        anchors_n: &Tensor::from_slice(&flat.anchors),
        positives_n: &Tensor::from_slice(&flat.positives),
        negatives_nk: &Tensor::from_slice(&flat.negatives).view([-1, negatives.max(1)]),
        excluded_nk: None,
        weights_n: None,
    };
    let sum = token_contrastive::loss(&hidden_btd, &static_btd, candidates, temperature, detach).sum;
    Ok(mean(&sum, flat.anchors.len(), inputs))
}

/// The anchors of a `tc` case and their candidates, as flat positions.
struct FlatCandidates {
    anchors: Vec<i64>,
    positives: Vec<i64>,
    negatives: Vec<i64>,
}

impl FlatCandidates {
    /// Reads and checks them. What is said of a position that is no anchor is not looked at.
    fn read(inputs: &mut Inputs<'_>) -> Result<Self, Error> {
        let columns = inputs.integers("pos_col", "bt")?;
        let (negative_rows, negative_columns) =
            (inputs.integers("neg_row", "btk")?, inputs.integers("neg_col", "btk")?);
        let is_anchor = if inputs.has("anchor") { inputs.integers("anchor", "bt")? } else { vec![1; columns.len()] };
        let (rows, width) = (inputs.size('b'), inputs.size('t'));
        let negatives = usize::try_from(inputs.size('k')).expect("sizes are not negative");
        let mut flat = Self { anchors: Vec::new(), positives: Vec::new(), negatives: Vec::new() };
        for (at, position) in (0..).zip(0..rows * width).filter(|&(at, _): &(usize, i64)| is_anchor[at] != 0) {
            inputs.check("pos_col", at, columns[at], &(0..width))?;
            flat.anchors.push(position);
            flat.positives.push(position - position % width + columns[at]);
            for at in at * negatives..(at + 1) * negatives {
                inputs.check("neg_row", at, negative_rows[at], &(0..rows))?;
                inputs.check("neg_col", at, negative_columns[at], &(0..width))?;
                flat.negatives.push(negative_rows[at] * width + negative_columns[at]);
            }
        }
        Ok(flat)
    }
}

fn contextual_score(inputs: &mut Inputs<'_>) -> Result<Outcome, Error> {
    let hidden_btd = inputs.floats("hidden", "btd")?.detach();
    let hidden_md = hidden_btd.view([-1, inputs.size('d')]);
    let positions = 0..inputs.size('b') * inputs.size('t');
    let token_n = inputs.index("token", "n", positions.clone())?;
    let intra_n = inputs.index("intra", "n", positions.clone())?;
    let inter_n = inputs.index("inter", "n", positions)?;
    let score = analysis::contextual_score(&hidden_md, &token_n, &intra_n, &inter_n);
    let parts = score.iter().flat_map(|similarity| {
        let name = |of: &str| format!("{of}_{}", similarity.measure);
        [
            (name("intra"), similarity.intra),
            (name("inter"), similarity.inter),
            (name("ratio"), similarity.intra / similarity.inter),
        ]
    });
    Ok(Outcome { loss: score[0].intra - score[0].inter, parts: parts.collect(), grads: BTreeMap::new() })
}

/// The outcome of a mean over `count` summands, 0 if there are none, with gradients.
fn mean(sum: &Tensor, count: usize, inputs: &Inputs<'_>) -> Outcome {
    let mean = sum / count.max(1) as f64;
    mean.backward();
    let loss = f64::try_from(mean.to_kind(Kind::Double)).expect("a mean is one number");
    Outcome { loss, parts: BTreeMap::new(), grads: inputs.gradients() }
}
