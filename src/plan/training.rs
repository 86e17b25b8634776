//! Planning of the trainer.

use std::collections::BTreeMap;
use std::path::Path;

use pipeline::load::{LoadPlan, Rows};
use pipeline::views::AnyView;
use schemas::Problem;
use schemas::columns::{ATTENTION_MASK, LABELS};
use trainer_plan::config::{ModelFamily, TrainConfig};
use trainer_plan::encoder::VocabFacts;
use trainer_plan::hf::{self, ExportChoice};
use trainer_plan::networks::MAIN;
use trainer_plan::requirements::{VALID_MLM, columns_encoded};
use trainer_plan::run::step_budget;
use trainer_plan::schedule::Span;
use trainer_plan::{AmendedRequest, TrainPlan, TrainRequest};

use super::identity::identity;
use super::stream::{WantedColumns, checked};
use crate::config::{Config, Parsed};
use crate::run::data::{PreparedData, Purpose};

/// 40 TB of float32: more than any single machine trains.
const PARAMETERS_MAX: u64 = 10_000_000_000_000;

/// Plans the validation stream: the views of the run, and one fixed mask that is the same for every run on the data.
/// Returns `None` if the data has no validation split, or validation is disabled.
pub(super) fn validation(parsed: &mut Parsed, data: &PreparedData, wanted: &WantedColumns) -> Option<LoadPlan> {
    let validation = &parsed.config.training.validation;
    if validation.every_steps == 0 || data.valid_rows() == 0 {
        return None;
    }
    let rows = Rows::Valid { rows: validation.rows };
    let mut views = parsed.config.views.clone();
    let mask = AnyView::of_kind("mask").expect("`mask` is registered");
    if views.insert(VALID_MLM.to_owned(), mask).is_some() {
        let message = format!("`{VALID_MLM}` is reserved for validation");
        let problem = parsed.source.mistake(&format!("views.{VALID_MLM}"), message).hint("rename the view");
        parsed.add(problem);
        return None;
    }
    let mut wanted = wanted.clone();
    let encoded = columns_encoded(&parsed.config.training.encoder);
    for column in encoded.into_iter().chain([ATTENTION_MASK.spec(), LABELS.spec()]) {
        wanted.insert((VALID_MLM.to_owned(), column));
    }
    checked(parsed, data, rows, &views, &wanted)
}

/// Plans the trainer. Problems are added to those of `parsed`.
pub(super) fn plan(
    parsed: &mut Parsed,
    data: &PreparedData,
    load: Option<&LoadPlan>,
    purpose: Purpose,
) -> Option<TrainPlan> {
    let folder = &parsed.config.run.folder;
    let found = if remote_store::may_exist(folder) { spans_of(folder) } else { Ok(Vec::new()) };
    let spans = found.unwrap_or_else(|error| {
        parsed.add(parsed.source.mistake("run.folder", error.to_string()));
        Vec::new()
    });
    let mut config = parsed.config.clone();
    let train = &mut config.training.train;
    // The configured number of steps may be the first or the present one of the run: both mean the run as it is now. A
    // branch that sets the number means that number.
    let is_of_branch = purpose == Purpose::Branch && parsed.source.is_override("train.steps");
    let is_known = !is_of_branch && spans.iter().any(|span| span.steps == train.steps);
    let (spans, steps) = match (spans.first(), spans.last()) {
        (Some(first), Some(last)) if is_known => {
            let begun_with = first.steps;
            let now = last.steps;
            train.steps = begun_with;
            (spans, now)
        }
        _ => (Vec::new(), train.steps),
    };
    let config = &config;
    let training = &config.training;
    let mut validation = training.validation.clone();
    if data.valid_rows() == 0 {
        validation.every_steps = 0;
    }
    let request = TrainRequest {
        seed: config.seed,
        width: config.data.seq_len.unwrap_or(data.manifest.max_seq_len),
        view_widths: view_widths(load),
        encoder: training.encoder.clone(),
        networks: training.networks.clone(),
        vocab: VocabFacts {
            size: data.vocab.size(),
            special: data.vocab.special(),
            // A streamed run has no counts at its start.
            unigram_log_probabilities: if data.segment_source(Rows::Train).is_some() {
                Vec::new()
            } else {
                data.vocab.unigram_log_probabilities()
            },
        },
        objectives: training.objectives.clone(),
        loss: training.loss.clone(),
        train: TrainConfig { steps, ..training.train.clone() },
        optimizer: training.optimizer.clone(),
        schedule: training.schedule.clone(),
        validation,
        checkpoints: training.checkpoints.keeping_best_of(training.validation.stop.as_ref()),
        report: training.report.clone(),
        guard: training.spike_guard.clone(),
        identity: identity(config, data, load),
        data_content: data.content(),
        amended: AmendedRequest { spans, allowed: Vec::new() },
    };
    let mut found = Vec::new();
    let plan = TrainPlan::new(request).map_err(|problems| found.extend(problems)).ok();
    found.extend(plan.as_ref().and_then(size_problem));
    if let (Some(plan), Some(family)) = (&plan, training.checkpoints.export) {
        let problem = export_choice(config, plan, MAIN, Some(family)).err();
        found.extend(problem.map(|problem| Problem::new("checkpoints.export", problem.to_string())));
    }
    parsed.report(found);
    plan
}

/// Returns the problem of a network that no machine can hold: its sizes are typing mistakes.
fn size_problem(plan: &TrainPlan) -> Option<Problem> {
    let (trained, frozen) = plan.parameters();
    let parameters = trained.saturating_add(frozen);
    (parameters > PARAMETERS_MAX).then(|| {
        let message = format!("the networks have {parameters} parameters, more than {PARAMETERS_MAX}");
        Problem::new("encoder.hidden", message)
            .hint("check `encoder.layers`, `encoder.hidden` and `encoder.feed_forward`")
    })
}

fn spans_of(folder: &Path) -> Result<Vec<Span>, trainer_plan::Error> {
    step_budget::spans(&remote_store::existing_path(folder)?)
}

/// Returns the class that a network of a run is exported as. `family` is the choice of the user.
///
/// # Errors
/// [`Error::Config`](trainer_plan::Error::Config) if the network cannot be exported as the family, or at all.
pub fn export_choice(
    config: &Config,
    plan: &TrainPlan,
    network: &str,
    family: Option<ModelFamily>,
) -> Result<ExportChoice, trainer_plan::Error> {
    hf::choose(plan, network, family, view_with_segments(config))
}

/// Returns the name of a view whose rows have two segments, if there is one.
#[must_use]
pub fn view_with_segments(config: &Config) -> Option<&str> {
    config.views.iter().find(|(_, view)| view.makes_segments()).map(|(name, _)| name.as_str())
}

/// Returns the number of tokens in a row of each view.
fn view_widths(load: Option<&LoadPlan>) -> BTreeMap<String, u32> {
    let views = load.into_iter().flat_map(|load| load.facts().views);
    views.map(|view| (view.name, u32::try_from(view.width).expect("a width of a 32-bit plan"))).collect()
}
