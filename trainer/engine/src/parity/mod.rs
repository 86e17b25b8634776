//! Parity checks: reads cases of inputs and writes losses and gradients, for comparison with other implementations.
//!
//! It calls the same functions as training.
//!
//! ```text
//! in:  { "cases": [ { "id", "objective", "variant": {…},
//!                     "inputs": { name: { "shape": […], "data": [flat, row-major] } } } ] }
//! out: { "results": { id: { "loss": x, "parts": {…}, "grads": { name: { "shape", "data" } } } } }
//! ```
//!
//! Booleans are 0 and 1. A number that is not finite is written as `null`. Axes, by letter: `b` rows, `t` positions,
//! `d` hidden, `v` ids, `k` negatives, `n` and `m` any number of flat positions `row · t + column` or of vectors.
//! The first choice of a variant is the default; other defaults are in brackets.
//!
//! | objective | inputs | variant | gradients |
//! |---|---|---|---|
//! | `mlm` | `h` btd, `W` dd, `b` `gamma` `beta` d, `E` vd, `out_bias` v, `positions` `targets` n | `gelu` `erf` or `tanh`, `ln_eps` (1e-12) | of all floats |
//! | `tp` | those of `mlm`, `other_positions` `other_targets` m | those of `mlm`, `pool` `separate` or `joint` | of all floats |
//! | `nsp` | `h` btd, `W` dd, `b` d, `U` 2d, `c` 2, `is_random` b | | of all floats |
//! | `rtd` | `h` btd, `w` d, `b` 1, `orig` `corrupt` `valid` bt, with `head = dense_gelu` also `W` dd, `bW` d | `label_one` `replaced` or `original`, `head` `linear` or `dense_gelu` | of all floats |
//! | `clm` | `h` btd, `E` vd, `out_bias` v, `w` d, `b` 1, `orig` `corrupt` `valid` `masked` bt | `lm_form` `mixture`, `weighted_ce` or `softmax_only`, `lm_scope` `masked` or `all`, `stop_grad` (true), `copy_weight` (50), `norm` `mean` or `sum` | of all floats |
//! | `scl` | `view_mlm` `view_crop` nd | `tau` (1), `negatives` `both` or `cross` | of all floats |
//! | `tacl` | `student` `teacher` btd, `valid` `selected` bt | `tau` (0.01), `pad_keys` `exclude` or `include`, `reduction` `tokens` or `sequences` | of `student` |
//! | `tc` | `h` `e` btd, `pos_col` `anchor` bt, `neg_row` `neg_col` btk | `tau` (0.07), `candidates` `detached` or `live` | of `h` and `e` |
//! | `contextual_score` | `hidden` btd, `token` `intra` `inter` n | | |
//! | `self_similarity` | `hidden` btd, `valid` bt | | |
//! | `alignment_uniformity` | `x` `y` nd | `alpha` (2), `t` (2) | |
//! | `relpos_bucket` | `distance` n, key minus query | `form` `cocolm` or `t5`, `buckets` (32), `max_distance` (128) | |
//! | `metric` | `pred` `gold` n | `metric` `accuracy`, `f1`, `mcc`, `macro_f1`, `pearson` or `spearman`, `classes` (the largest + 1) | |
//!
//! `loss` and `parts` are means over positions, rows or anchors, 0 if there are none.
//!
//! - `tc`: without `anchor`, every position is an anchor.
//! - `clm`: `copy_weight · copy_loss + lm_loss`; `parts` has both; `norm = sum` divides neither.
//! - `scl`: mean over the `2n` anchors, for both choices of `negatives`.
//! - `tacl`: with `reduction = sequences`, each row with selected positions is averaged first.
//! - `rtd`, `tacl`, `nsp`: `parts.accuracy` is over valid or selected positions, or rows.
//! - `contextual_score`: the cosine score; `parts` has the rest.
//! - `self_similarity`: the mean over pairs; `parts.sentence_mean` is the mean of rows.
//! - `alignment_uniformity`: the alignment; `parts` has both.
//! - `relpos_bucket`: 0; `parts.bucket` lists the buckets.
//! - `metric`: the value.

mod cases;
mod files;
mod glue;
mod inputs;
mod outcomes;

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use store::Store;
use tch::Kind;
use trainer_plan::Error;

use self::files::{Case, Request, Response};
use self::inputs::Inputs;

/// Float type of all tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dtype {
    /// Double precision.
    #[default]
    F64,
    /// Single precision.
    F32,
}

impl Dtype {
    fn kind(self) -> Kind {
        match self {
            Self::F64 => Kind::Double,
            Self::F32 => Kind::Float,
        }
    }
}

/// Summary of the cases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParitySummary {
    /// Ids of the cases that have results, in the order of the file.
    pub computed: Vec<String>,
    /// Id and objective of the cases with an unknown objective.
    pub skipped: Vec<(String, String)>,
    /// Unread fields, as `case: field`.
    pub ignored: Vec<String>,
}

/// Computes every case of `input` with a known objective and writes `output` atomically.
pub fn run(input: &Path, output: &Path, dtype: Dtype) -> Result<ParitySummary, Error> {
    let at = |path: &Path, error: &io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let bytes = fs::read(input).map_err(|error| at(input, &error))?;
    let request: Request = serde_json::from_slice(&bytes).map_err(|error| {
        let form = r#"{"cases": [{"id", "objective", "variant", "inputs"}]}"#;
        Error::Config(format!("{}: {error}; the expected form is {form}", input.display()))
    })?;
    let (response, summary) = compute(&request.cases, dtype)?;
    let json = serde_json::to_vec(&response).expect("results have string keys");
    let folder = output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = output.file_name().and_then(|name| name.to_str()).unwrap_or("parity.json");
    Store::folder(folder)?.put(name, &json)?;
    Ok(summary)
}

fn compute(cases: &[Case], dtype: Dtype) -> Result<(Response, ParitySummary), Error> {
    let mut summary = ParitySummary::default();
    let mut results = BTreeMap::new();
    for case in cases {
        let mut inputs = Inputs::new(case, dtype.kind());
        let Some(outcome) = cases::compute(&case.objective, &mut inputs).transpose()? else {
            summary.skipped.push((case.id.clone(), case.objective.clone()));
            continue;
        };
        summary.ignored.extend(inputs.unread().map(|field| format!("{}: {field}", case.id)));
        summary.computed.push(case.id.clone());
        if results.insert(case.id.clone(), outcome).is_some() {
            let problem = "two cases have this id; give each its own".to_owned();
            return Err(Error::Case { case: case.id.clone(), field: "id".to_owned(), problem });
        }
    }
    Ok((Response { results }, summary))
}

#[cfg(test)]
mod tests;
