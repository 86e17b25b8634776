//! Warnings of a plan: properties of the data and settings that are legal and probably unintended.

use pipeline::load::LoadFacts;
use schemas::RowIndex;
use telemetry::quantities::bytes;
use telemetry::quantities::count;
use trainer_plan::encoder::Attend;
use trainer_plan::init_weights::{self, InitFolder};
use trainer_plan::objectives::AnyObjective;
use trainer_plan::precision::Precision;

use super::{Plan, step_estimate};
use crate::cli::Gpu;

/// Mixture error of a window above which a plan warns. It is reached with windows below the usual size: see
/// `docs/data.md`.
const MIXTURE_ERROR_MAX: f64 = 0.13;

/// Number of epochs above which a plan warns. RoBERTa made 40; runs on small corpora make hundreds.
const EPOCHS_MAX: f64 = 1000.0;

/// Speed-up by another precision above which a plan warns.
const SPEED_UP_MIN: f64 = 1.2;

/// Returns the warnings of a plan.
pub fn collect(plan: &Plan) -> Vec<String> {
    let config = &plan.config;
    let tokenizer = &plan.data.manifest.tokenizer;
    let mut warnings = Vec::new();
    if let Some(expected) = config.expects.vocab_size.filter(|size| *size != tokenizer.vocab_size) {
        warnings.push(format!("this configuration expects {expected} ids, but the data has {}", tokenizer.vocab_size));
    }
    if let Some(cased) = config.expects.cased.filter(|cased| *cased == tokenizer.lowercase) {
        let words = |cased: bool| if cased { "cased" } else { "lowercased" };
        warnings.push(format!(
            "this configuration expects {} text, but the data is {}",
            words(cased),
            words(!tokenizer.lowercase)
        ));
    }
    for data in plan.data.all() {
        let dataset_version = data.dataset_version;
        let source = data.name().map(|name| format!(" of `{name}`")).unwrap_or_default();
        warnings.extend(data.valid_left().map(|(left, all)| {
            format!("{left} of {all} validation rows of dataset version {dataset_version}{source} are left: metrics cover only those")
        }));
    }
    let facts = plan.load.facts();
    if facts.window_blocks > facts.shuffle_window_groups && !facts.resident && facts.streamed.is_none() {
        let asked = facts.shuffle_window_groups;
        let raised = facts.window_blocks;
        warnings.push(format!(
            "`data.shuffle_window_groups` is raised from {asked} to {raised}: a window must hold three batches"
        ));
    }
    // The windows of a small corpus hold all of it, and its size is unknown until it is prepared.
    let is_large = !plan.data.is_expected() && facts.mixture_error > MIXTURE_ERROR_MAX;
    if is_large && facts.streamed.is_none_or(|streamed| streamed.is_whole) {
        let more = 4 * facts.window_blocks;
        warnings.push(format!(
            "windows of {} row groups mix badly if the corpus is sorted by source: a source with half of the data has 50 ± {:.1} % of a window; \
             `data.shuffle_window_groups = {more}` halves the deviation, and decodes up to {} at a time",
            facts.window_blocks,
            100.0 * facts.mixture_error,
            bytes(4 * facts.groups_bytes),
        ));
    }
    let data = &config.data;
    if (facts.workers.workers, facts.workers.queue_depth) != (data.workers(), data.prefetch_batches) {
        let workers = facts.workers.workers;
        let depth = facts.workers.queue_depth;
        warnings.push(format!("using {workers} workers with queue depth {depth}: more would exceed the shuffle window or the memory limit; raise `data.shuffle_window_groups` or `data.max_memory_bytes` for more"));
    }
    for view in &facts.views {
        let doubts = config.views.get(&view.name).map(|view| view.warnings()).unwrap_or_default();
        warnings.extend(doubts.into_iter().map(|(key, doubt)| format!("`views.{}.{key}`: {doubt}", view.name)));
    }
    warnings.extend(training_warnings(plan, &facts));
    warnings.extend(packed_document_warnings(plan));
    warnings.extend(doubtful_settings(plan, &facts));
    warnings
}

/// Returns warnings about files: missing shards, and before the preparation missing weights for the start.
pub(super) fn of_folders(plan: &Plan) -> Vec<String> {
    let mut warnings = Vec::new();
    if !plan.data.is_expected() {
        for data in plan.data.all() {
            let source = data.name().and_then(|name| plan.config.sources.get(name));
            let folder = source.map_or(&plan.config.data.folder, |source| &source.folder).display();
            match data.missing_shards() {
                Ok((0, _)) => {}
                Ok((missing, all)) => warnings.push(format!(
                    "{folder}: {missing} of {all} training shards are gone; `cloze prepare` prepares their parts again"
                )),
                Err(error) => warnings.push(format!("{folder}: cannot list the shards: {error}")),
            }
        }
        return warnings;
    }
    for InitFolder { key, folder, .. } in init_weights::folders(&plan.train) {
        if !folder.exists() {
            warnings.push(format!("`{key}`: {} does not exist yet, and the run begins with it", folder.display()));
        }
    }
    warnings
}

/// Returns the warning of a run in float32 on a GPU whose tensor cores it does not use.
pub(super) fn of_precision(plan: &Plan, gpu: Option<Gpu>) -> Option<String> {
    let gpu = gpu.filter(|_| plan.train.train.precision == Precision::F32)?;
    let is_sensitive = trained_objectives(plan).any(|(_, objective)| objective.is_sensitive_to_rounding());
    let other = if is_sensitive { Precision::Bf16 } else { Precision::Bf16Hidden };
    let times = step_estimate::speed_up(&plan.train, gpu, other).filter(|times| *times > SPEED_UP_MIN)?;
    Some(format!(
        "`train.precision` is `f32`, in which the tensor cores of an {} are idle: `train.precision = \"{}\"` is about {times:.1} times as fast",
        gpu.name(),
        other.name()
    ))
}

/// Returns the objectives whose losses are trained, by name.
fn trained_objectives(plan: &Plan) -> impl Iterator<Item = (&String, &AnyObjective)> {
    let loss = &plan.train.loss;
    let objectives = plan.config.training.objectives.iter();
    objectives.filter(|(name, _)| loss.get(*name).is_some_and(|weight| *weight != 0.0))
}

fn training_warnings(plan: &Plan, facts: &LoadFacts) -> Vec<String> {
    let train = &plan.train;
    let mut warnings = Vec::new();
    if facts.rows_per_epoch < train.train.global_batch_size && facts.streamed.is_none_or(|it| it.is_whole) {
        let epoch = count(facts.rows_per_epoch);
        let step = count(train.train.global_batch_size);
        warnings.push(format!(
            "an epoch has {epoch} rows, fewer than the {step} rows of a step: rows repeat within a step"
        ));
    }
    if plan.valid.is_none() && plan.config.training.validation.every_steps > 0 {
        warnings.push("the data has no validation split: validation is disabled".to_owned());
    }
    let single = plan.config.data.copies_per_sample < 2;
    for (name, _) in plan.config.views.iter().filter(|(_, view)| single && view.needs_copies()) {
        warnings.push(format!(
            "view `{name}` divides its selection among the copies of a row, but `data.copies_per_sample` is 1: set it to the number of copies"
        ));
    }
    let has_teacher = train.used_networks().values().any(|network| network.copies_main());
    if has_teacher && train.train.init_from.is_none() {
        warnings
            .push("the teacher is a copy of the initial weights, which are random: set `train.init_from`".to_owned());
    }
    for (name, _) in plan.config.training.objectives.iter().filter(|(name, _)| !train.loss.contains_key(*name)) {
        warnings.push(format!("objective `{name}` is not in `[loss]`: it is not built"));
    }
    if train.train.precision == Precision::Bf16Hidden {
        for (name, _) in trained_objectives(plan).filter(|(_, it)| it.is_sensitive_to_rounding()) {
            warnings.push(format!(
                "`{name}` compares hidden states closely, and `train.precision = \"bf16_hidden\"` rounds them to 8 bits: \
                 set `train.precision = \"bf16\"`"
            ));
        }
    }
    if let Some(steps) = train.steps_expected().filter(|steps| (1..train.schedule.warmup_steps).contains(steps)) {
        let warmup = train.schedule.warmup_steps;
        warnings.push(format!(
            "{warmup} steps of warm-up in a run of {steps}: the learning rate never reaches its maximum"
        ));
    }
    let rules = &train.checkpoints;
    let validated = train.validation.every_steps;
    let saved = [rules.every_steps, rules.keep_every_steps];
    let meets = |every: u64| every > 0 && (every.is_multiple_of(validated) || validated.is_multiple_of(every));
    if rules.keep_best > 0 && validated > 0 && !saved.into_iter().any(meets) {
        warnings.push(format!(
            "few checkpoints are at a validated step, as `checkpoints.keep_best` needs: make `checkpoints.every_steps` = {} \
             a multiple of `validation.every_steps` = {validated}, or vice versa",
            rules.every_steps
        ));
    }
    if !plan.data.is_expected() {
        warnings.extend(super::vocabulary::warnings(train, plan.vocab()));
    }
    warnings
}

/// Returns warnings about attention within documents in rows that are cut from a stream of documents.
fn packed_document_warnings(plan: &Plan) -> Vec<String> {
    let mut warnings = Vec::new();
    if plan.train.encoder.attention_scope != Attend::Document || !plan.data.manifest.pack.cuts {
        return warnings;
    }
    warnings.push(
        "`encoder.attention_scope = \"document\"` with `prepare.packing = \"block\"`: only the first document of a row \
         sees `[CLS]`, and its positions begin at 1; the others begin at 0"
            .to_owned(),
    );
    for (name, _) in plan.config.views.iter().filter(|(_, view)| view.window_reach().is_some()) {
        warnings.push(format!(
            "view `{name}` also pairs tokens of neighbouring documents in a row, although attention ends at the border of a \
             document: use `attention_scope = \"row\"`, or `prepare.packing = \"document\"`"
        ));
    }
    warnings
}

/// Returns warnings about legal values that are probably unintended.
fn doubtful_settings(plan: &Plan, facts: &LoadFacts) -> Vec<String> {
    let train = &plan.train;
    let encoder = &train.encoder;
    let optimizer = &train.optimizer;
    let hidden = encoder.hidden;
    let wide = encoder.feed_forward;
    let epochs = epochs(plan, facts);
    let steps = train.steps_expected().unwrap_or(u64::MAX);
    let every = train.report.every_steps;
    let doubts = [
        (
            wide < hidden || wide > 8 * hidden,
            format!("`encoder.feed_forward` is {wide} with `encoder.hidden` = {hidden}: the usual ratio is 4"),
        ),
        (
            encoder.max_positions > 4 * train.width,
            format!(
                "`encoder.max_positions` is {}, but rows have {} tokens: the other positions are never trained, and are exported",
                encoder.max_positions, train.width
            ),
        ),
        (encoder.dropout > 0.5, format!("`encoder.dropout` is {}: most of each layer is dropped", encoder.dropout)),
        (
            !plan.data.is_expected() && facts.streamed.is_none_or(|it| it.is_whole) && epochs > EPOCHS_MAX,
            format!("{} epochs are unusually many; lower `train.steps`, or prepare more text", epochs.round()),
        ),
        (optimizer.lr > 0.01, format!("`optimizer.lr` is {}: AdamW diverges well below", optimizer.lr)),
        (
            optimizer.weight_decay >= 1.0,
            format!("`optimizer.weight_decay` is {}: 0.01 to 0.1 is usual", optimizer.weight_decay),
        ),
        (every > steps, format!("`report.every_steps` is {every} in a run of {steps}: it reports only at its end")),
    ];
    let negative = train.loss.iter().filter(|(_, weight)| **weight < 0.0);
    let negative = negative.map(|(name, weight)| format!("`loss.{name}` is {weight}: the run maximizes this loss"));
    doubts.into_iter().filter(|(doubtful, _)| *doubtful).map(|(_, doubt)| doubt).chain(negative).collect()
}

/// Number of passes over the data; for a mixture, over the source with the most passes.
pub(super) fn epochs(plan: &Plan, facts: &LoadFacts) -> f64 {
    let alone = rows_expected(plan) as f64 / facts.rows_per_epoch as f64;
    epochs_by_source(plan).into_values().reduce(f64::max).unwrap_or(alone)
}

/// Number of passes over each source of a mixture.
pub(super) fn epochs_by_source(plan: &Plan) -> std::collections::BTreeMap<String, f64> {
    plan.load.planned_epochs(RowIndex(rows_expected(plan)))
}

/// Number of rows of the run; 0 if only hours end it, because the number is then unknown.
fn rows_expected(plan: &Plan) -> u64 {
    plan.train.steps_expected().unwrap_or(0).saturating_mul(plan.train.train.global_batch_size)
}
