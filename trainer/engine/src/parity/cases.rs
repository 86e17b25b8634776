//! Objectives of parity cases: one function per objective, which calls the functions of training.

mod contrasts;
mod measures;
mod predictions;

use trainer_plan::Error;

use super::files::CaseOutcome;
use super::inputs::Inputs;

/// Computes the outcome of a case. `None` if the objective is unknown.
pub(super) fn compute(objective: &str, inputs: &mut Inputs<'_>) -> Option<Result<CaseOutcome, Error>> {
    let case: fn(&mut Inputs<'_>) -> Result<CaseOutcome, Error> = match objective {
        "mlm" => predictions::masked_lm,
        "tp" => predictions::token_prediction,
        "nsp" => predictions::next_sentence,
        "rtd" => predictions::replaced_token,
        "clm" => predictions::corrective_lm,
        "tc" => contrasts::token,
        "scl" => contrasts::sequence,
        "tacl" => contrasts::teacher,
        "contextual_score" => measures::contextual_score,
        "self_similarity" => measures::self_similarity,
        "alignment_uniformity" => measures::alignment_uniformity,
        "relpos_bucket" => measures::relative_bucket,
        "metric" => measures::metric,
        _ => return None,
    };
    Some(case(inputs))
}
