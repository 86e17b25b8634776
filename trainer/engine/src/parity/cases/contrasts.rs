//! Contrastive losses.

use std::collections::BTreeMap;

use tch::Tensor;
use trainer_plan::Error;
use trainer_plan::objectives::Reduction;
use trainer_plan::objectives::sequence_contrastive::Negatives;
use trainer_plan::objectives::teacher_contrastive::PadKeys;

use crate::objectives::teacher_contrastive::SelectedTokens;
use crate::objectives::token_contrastive::Candidates;
use crate::objectives::{sequence_contrastive, teacher_contrastive, token_contrastive};
use crate::parity::files::CaseOutcome;
use crate::parity::inputs::Inputs;
use crate::parity::outcomes::{learned, mean, parts, positions_where, share};

pub(super) fn token(inputs: &mut Inputs<'_>) -> Result<CaseOutcome, Error> {
    let temperature = inputs.number("tau", 0.07, 0.0)?;
    let detach = inputs.choice("candidates", &[("detached", true), ("live", false)])?;
    let hidden_btd = inputs.floats("h", "btd")?;
    let static_btd = inputs.floats("e", "btd")?;
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
    Ok(learned(&mean(&sum, flat.anchors.len()), BTreeMap::new(), inputs))
}

/// Anchors of a `tc` case and their candidates, as flat positions.
struct FlatCandidates {
    anchors: Vec<i64>,
    positives: Vec<i64>,
    negatives: Vec<i64>,
}

impl FlatCandidates {
    /// Reads and checks them. Ignores the inputs of positions that are no anchor.
    fn read(inputs: &mut Inputs<'_>) -> Result<Self, Error> {
        let columns = inputs.integers("pos_col", "bt")?;
        let negative_rows = inputs.integers("neg_row", "btk")?;
        let negative_columns = inputs.integers("neg_col", "btk")?;
        let is_anchor =
            if inputs.contains("anchor") { inputs.integers("anchor", "bt")? } else { vec![1; columns.len()] };
        let rows = inputs.size('b');
        let width = inputs.size('t');
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

pub(super) fn sequence(inputs: &mut Inputs<'_>) -> Result<CaseOutcome, Error> {
    let temperature = inputs.number("tau", 1.0, 0.0)?;
    let negatives = inputs.choice("negatives", &[("both", Negatives::Both), ("cross", Negatives::Cross)])?;
    let masked_nd = inputs.floats("view_mlm", "nd")?;
    let crop_nd = inputs.floats("view_crop", "nd")?;
    let sum = sequence_contrastive::loss(&masked_nd, &crop_nd, temperature, negatives).sum;
    let anchors = usize::try_from(2 * inputs.size('n')).expect("sizes are not negative");
    Ok(learned(&mean(&sum, anchors), BTreeMap::new(), inputs))
}

pub(super) fn teacher(inputs: &mut Inputs<'_>) -> Result<CaseOutcome, Error> {
    let temperature = inputs.number("tau", 0.01, 0.0)?;
    let pad_keys = inputs.choice("pad_keys", &[("exclude", PadKeys::Exclude), ("include", PadKeys::Include)])?;
    let averaged = inputs.choice("reduction", &[("tokens", Reduction::Tokens), ("sequences", Reduction::Sequences)])?;
    let student_btd = inputs.floats("student", "btd")?;
    let teacher_btd = inputs.constants("teacher", "btd")?;
    let valid = inputs.flags("valid", "bt")?;
    let selected = inputs.flags("selected", "bt")?;
    let positions = positions_where(&[&valid, &selected]);
    let shares = averaged_by_row(&positions, inputs.size('t'));
    let (weights_n, count) = match averaged {
        Reduction::Tokens => (None, positions.len()),
        Reduction::Sequences => (Some(Tensor::from_slice(&shares.of_each).to_kind(student_btd.kind())), shares.rows),
    };
    let keys_bt = (pad_keys == PadKeys::Exclude).then(|| inputs.grid(&valid));
    let chosen = SelectedTokens { positions_n: &Tensor::from_slice(&positions), weights_n: weights_n.as_ref() };
    let found = teacher_contrastive::loss(&student_btd, &teacher_btd, chosen, keys_bt.as_ref(), temperature);
    let accuracy = share(&found.hits, positions.len());
    Ok(learned(&mean(&found.sum, count), parts([("accuracy", accuracy)]), inputs))
}

/// Weight of each position if rows are averaged first, and the number of rows with positions.
struct Shares {
    of_each: Vec<f64>,
    rows: usize,
}

fn averaged_by_row(positions: &[i64], width: i64) -> Shares {
    let mut shares = Shares { of_each: Vec::new(), rows: 0 };
    for row in positions.chunk_by(|a, b| a / width == b / width) {
        shares.of_each.extend(row.iter().map(|_| 1.0 / row.len() as f64));
        shares.rows += 1;
    }
    shares
}
