//! The trainer's half of a plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use pipeline::load::{LoadPlan, Rows};
use pipeline::views::AnyView;
use schemas::columns::{ATTENTION_MASK, INPUT_IDS, LABELS};
use schemas::{Manifest, Vocab};
use toml::Value;
use trainer::model::VocabFacts;
use trainer::objectives::Normalize;
use trainer::optimizer::ScheduleKind;
use trainer::plan::{Identity, TrainPlan, used_networks};
use trainer::training::VALID_MLM;

use super::{Wanted, checked};
use crate::config::{Config, Parsed};

/// The validation stream: the run's views and, beside them, one fixed mask that is the same for every run on the data.
/// None where the data has no validation split or the configuration wants none.
pub(super) fn validation(
    parsed: &mut Parsed,
    manifest: &Manifest,
    vocab: &Arc<Vocab>,
    wanted: &Wanted,
) -> Option<LoadPlan> {
    let validation = &parsed.config.training.validation;
    if validation.every_steps == 0 || manifest.now().valid.rows() == 0 {
        return None;
    }
    let rows = Rows::Valid { rows: validation.rows };
    let mut views = parsed.config.views.clone();
    let mask = AnyView::of_kind("mask").expect("`mask` is registered");
    if views.insert(VALID_MLM.to_owned(), mask).is_some() {
        let message = format!("`{VALID_MLM}` is the view that every run is measured on");
        let problem = parsed.source.problem(&format!("views.{VALID_MLM}"), message).hint("give your view another name");
        parsed.add(problem);
        return None;
    }
    let mut wanted = wanted.clone();
    for column in [INPUT_IDS.spec(), ATTENTION_MASK.spec(), LABELS.spec()] {
        wanted.insert((VALID_MLM.to_owned(), column));
    }
    checked(parsed, manifest, vocab, rows, &views, &wanted)
}

/// The trainer's plan; what is wrong with it goes to the other problems.
pub(super) fn plan(parsed: &mut Parsed, manifest: &Manifest, vocab: &Arc<Vocab>, load: Option<&LoadPlan>) -> TrainPlan {
    let config = &parsed.config;
    let training = &config.training;
    let mut validation = training.validation.clone();
    if manifest.now().valid.rows() == 0 {
        validation.every_steps = 0;
    }
    let plan = TrainPlan {
        seed: config.seed,
        width: config.data.width.unwrap_or(manifest.tokens_max),
        view_widths: view_widths(load),
        encoder: training.encoder.clone(),
        networks: training.networks.clone(),
        vocab: VocabFacts {
            size: vocab.size(),
            special: vocab.special(),
            unigram_log_probabilities: vocab.unigram_log_probabilities(),
        },
        objectives: training.objectives.clone(),
        loss: training.loss.clone(),
        train: training.train.clone(),
        optimizer: training.optimizer.clone(),
        schedule: training.schedule.clone(),
        validation,
        checkpoints: training.checkpoints.clone(),
        report: training.report.clone(),
        identity: identity(config, manifest, load),
        data_content: manifest.generation(manifest.newest()).content.clone(),
        folder: config.run.folder.clone(),
    };
    let mut found: Vec<_> = plan.problems().into_iter().map(|problem| (problem.key, problem.message)).collect();
    if config.run.folder.as_os_str().is_empty() {
        found.push(("run.folder".to_owned(), "a run needs a folder: set `run.folder`".to_owned()));
    }
    for (key, message) in found {
        let blamed = key.strip_prefix("loss.").is_some_and(|name| parsed.is_broken("objectives", name));
        if !blamed {
            let problem = parsed.source.problem(&key, message);
            parsed.add(problem);
        }
    }
    plan
}

/// Tokens of a row of each view.
fn view_widths(load: Option<&LoadPlan>) -> BTreeMap<String, u32> {
    let views = load.into_iter().flat_map(|load| load.facts().views);
    views.map(|view| (view.name, u32::try_from(view.width).expect("a width of a 32-bit plan"))).collect()
}

/// All that changes a run's numbers, what it starts from as it is written there. Lanes, depth, threads, intervals, other
/// paths and the device do not.
fn identity(config: &Config, manifest: &Manifest, load: Option<&LoadPlan>) -> Identity {
    let resolved = config.resolved();
    let training = &config.training;
    let mut keys = BTreeMap::new();
    for section in ["seed", "encoder", "loss", "optimizer", "schedule"] {
        if let Some(value) = resolved.get(section) {
            flatten(section, value, &mut keys);
        }
    }
    let facts = load.map(LoadPlan::facts);
    let rendered = facts.iter().flat_map(|facts| &facts.views).map(|view| ("views", view.name.as_str()));
    let trained = training.loss.keys().map(|name| ("objectives", name.as_str()));
    let active = training.objectives.iter().filter(|(name, _)| training.loss.contains_key(*name));
    let networks = used_networks(&training.networks, active.map(|(_, objective)| objective));
    let built = networks.keys().map(|name| ("networks", name.as_str()));
    for (section, name) in rendered.chain(trained).chain(built) {
        if let Some(value) = resolved.get(section).and_then(|section| section.get(name)) {
            flatten(&format!("{section}.{name}"), value, &mut keys);
        }
    }
    let coupled = training
        .objectives
        .iter()
        .any(|(name, objective)| training.loss.contains_key(name) && objective.batch_coupled());
    let constant = training.schedule.kind == ScheduleKind::Constant;
    let mut train = vec!["rows_per_step", "normalize", "precision", "init"];
    let draws_by_batch = networks.values().filter_map(|network| network.makes()).any(|made| !made.reads_draws);
    let by_micro_batch = coupled || draws_by_batch || training.train.normalize == Normalize::MicroBatch;
    train.extend(by_micro_batch.then_some("rows_per_micro_batch"));
    train.extend((!constant).then_some("steps"));
    for key in train {
        if let Some(value) = resolved.get("train").and_then(|train| train.get(key)) {
            flatten(&format!("train.{key}"), value, &mut keys);
        }
    }
    keys.insert("data.content".into(), manifest.generation(manifest.newest()).content.clone());
    keys.insert("data.width".into(), config.data.width.unwrap_or(manifest.tokens_max).to_string());
    keys.insert("data.copies".into(), config.data.copies.to_string());
    keys.insert("data.fraction".into(), config.data.fraction.to_string());
    if let Some(facts) = facts {
        keys.insert("data.shuffle_blocks".into(), facts.window_blocks.to_string());
    }
    Identity::new(keys)
}

fn flatten(path: &str, value: &Value, keys: &mut BTreeMap<String, String>) {
    match value {
        Value::Table(table) => table.iter().for_each(|(key, value)| flatten(&format!("{path}.{key}"), value, keys)),
        plain => {
            keys.insert(path.to_owned(), plain.to_string());
        }
    }
}
