//! The trainer's half of a plan.

use std::collections::BTreeMap;

use pipeline::load::{LoadPlan, Rows};
use pipeline::views::AnyView;
use schemas::columns::{ATTENTION_MASK, LABELS};
use trainer::model::VocabFacts;
use trainer::plan::{TrainPlan, TrainRequest, columns_encoded};
use trainer::training::VALID_MLM;

use super::identity::identity;
use super::stream::{Wanted, checked};
use crate::config::Parsed;
use crate::data::PreparedData;

/// The validation stream: the run's views and, beside them, one fixed mask that is the same for every run on the data.
/// None where the data has no validation split or the configuration wants none.
pub(super) fn validation(parsed: &mut Parsed, data: &PreparedData, wanted: &Wanted) -> Option<LoadPlan> {
    let validation = &parsed.config.training.validation;
    if validation.every_steps == 0 || data.valid_rows() == 0 {
        return None;
    }
    let rows = Rows::Valid { rows: validation.rows };
    let mut views = parsed.config.views.clone();
    let mask = AnyView::of_kind("mask").expect("`mask` is registered");
    if views.insert(VALID_MLM.to_owned(), mask).is_some() {
        let message = format!("`{VALID_MLM}` is the view that every run is measured on");
        let problem = parsed.source.mistake(&format!("views.{VALID_MLM}"), message).hint("give your view another name");
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

/// The trainer's plan; what is wrong with it goes to the other problems.
pub(super) fn plan(parsed: &mut Parsed, data: &PreparedData, load: Option<&LoadPlan>) -> Option<TrainPlan> {
    let config = &parsed.config;
    let training = &config.training;
    let mut validation = training.validation.clone();
    if data.valid_rows() == 0 {
        validation.every_steps = 0;
    }
    let request = TrainRequest {
        seed: config.seed,
        width: config.data.width.unwrap_or(data.manifest.tokens_max),
        view_widths: view_widths(load),
        encoder: training.encoder.clone(),
        networks: training.networks.clone(),
        vocab: VocabFacts {
            size: data.vocab.size(),
            special: data.vocab.special(),
            unigram_log_probabilities: data.vocab.unigram_log_probabilities(),
        },
        objectives: training.objectives.clone(),
        loss: training.loss.clone(),
        train: training.train.clone(),
        optimizer: training.optimizer.clone(),
        schedule: training.schedule.clone(),
        validation,
        checkpoints: training.checkpoints.clone(),
        report: training.report.clone(),
        identity: identity(config, data, load),
        data_content: data.content(),
    };
    let mut found = Vec::new();
    let plan = TrainPlan::new(request).map_err(|problems| found.extend(problems)).ok();
    parsed.report(found);
    plan
}

/// Tokens of a row of each view.
fn view_widths(load: Option<&LoadPlan>) -> BTreeMap<String, u32> {
    let views = load.into_iter().flat_map(|load| load.facts().views);
    views.map(|view| (view.name, u32::try_from(view.width).expect("a width of a 32-bit plan"))).collect()
}
