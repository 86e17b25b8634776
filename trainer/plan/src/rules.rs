//! Checks of a training request before it becomes a plan.

use std::collections::BTreeSet;

use schemas::{Problem, printable};

use super::config::SpikeAction;
use super::request::{ActiveObjective, TrainRequest};
use crate::device::DeviceChoice;
use crate::encoder::{Attend, EncoderConfig};
use crate::networks::{MAIN, NetworkCheckContext};
use crate::objectives::{AnyObjective, HeadContext, Normalize, RowSet};
use crate::precision::Precision;
use crate::relative_positions::Buckets;
use crate::weights::WeightSpecs;

/// More threads than any machine has. libtorch would try to start them.
const THREADS_MAX: usize = 4096;
/// Bounds of the spike guard's window: enough steps for a median, and few enough to sort at each step.
pub const GUARD_WINDOW_MIN: usize = 32;
const GUARD_WINDOW_MAX: usize = 4096;
/// Larger sizes are typing mistakes. Below these bounds, weight sizes and their sums do not overflow.
const LAYERS_MAX: u32 = 10_000;
const WIDTH_MAX: u32 = 1 << 20;
/// One century in hours. More is a typing mistake.
const HOURS_MAX: f64 = 24.0 * 365.25 * 100.0;
/// Smallest normal number of float32. Smaller ones are flushed to 0.
const LEAST: f64 = f32::MIN_POSITIVE as f64;

/// Returns every problem that makes a request impossible to train. The views are not checked here: compare
/// [`columns_read`](crate::requirements::columns_read) with them.
pub(super) fn problems(request: &TrainRequest) -> Vec<Problem> {
    let encoder = &request.encoder;
    let train = &request.train;
    let whole = |rows: u64, part: u64| part > 0 && rows > 0 && rows.is_multiple_of(part);
    let rules = [
        (
            encoder.heads > 0 && encoder.hidden > 0 && encoder.hidden.is_multiple_of(encoder.heads),
            "encoder.hidden",
            format!("{} is not a multiple of `encoder.heads` = {}", encoder.hidden, encoder.heads),
        ),
        (
            (0.0..1.0).contains(&encoder.dropout),
            "encoder.dropout",
            format!("{} is not a probability below 1", encoder.dropout),
        ),
        (
            (LEAST..=1.0).contains(&encoder.layer_norm_eps),
            "encoder.layer_norm_eps",
            format!("{:e} is not between {LEAST:.1e} and 1; usual are 1e-12 and 1e-5", encoder.layer_norm_eps),
        ),
        (
            request.width <= encoder.max_positions,
            "encoder.max_positions",
            format!("rows have {} tokens, the network {} positions", request.width, encoder.max_positions),
        ),
        (
            u16::try_from(encoder.max_positions).is_ok(),
            "encoder.max_positions",
            format!("{} is above the 65,535 tokens that a row can have", encoder.max_positions),
        ),
        (train.steps > 0, "train.steps", "at least one step is needed".to_owned()),
        // The same words as the loader's check, so that one mistake is reported once.
        (train.micro_batch_size > 0, "train.micro_batch_size", "it must be above 0".to_owned()),
        (
            train.threads <= THREADS_MAX,
            "train.threads",
            format!("{} threads are too many; write at most {THREADS_MAX}, or 0 for one per core", train.threads),
        ),
        (train.global_batch_size > 0, "train.global_batch_size", "it must be above 0".to_owned()),
        (
            train.micro_batch_size == 0
                || train.global_batch_size == 0
                || whole(train.global_batch_size, train.micro_batch_size),
            "train.global_batch_size",
            format!(
                "{} is not a multiple of `train.micro_batch_size` = {}",
                train.global_batch_size, train.micro_batch_size
            ),
        ),
        (
            !train.tf32 || train.device != DeviceChoice::Cpu,
            "train.tf32",
            "TF32 exists on CUDA only; the CPU computes in float32".to_owned(),
        ),
        (
            !train.tf32 || train.precision == Precision::F32,
            "train.tf32",
            format!(
                "TF32 applies to float32 products, but `train.precision` is `{}`; remove one of the two keys",
                train.precision.name()
            ),
        ),
        (request.checkpoints.every_steps > 0, "checkpoints.every_steps", "it must be above 0".to_owned()),
        (request.checkpoints.keep > 0, "checkpoints.keep", "at least one checkpoint must be kept".to_owned()),
        (request.report.every_steps > 0, "report.every_steps", "it must be above 0".to_owned()),
    ];
    let problems = rules.into_iter().filter(|(holds, ..)| !holds).map(|(_, key, message)| Problem::new(key, message));
    let others = [
        optimizer_problems(request),
        size_problems(encoder),
        guard_problems(request),
        budget_problems(request),
        network_problems(request),
        loss_problems(request),
        frozen_problems(request),
    ];
    let uncounted = train.rows_problem(train.steps).map(|message| Problem::new("train.steps", message));
    problems.chain(uncounted).chain(others.into_iter().flatten()).collect()
}

fn optimizer_problems(request: &TrainRequest) -> Vec<Problem> {
    let optimizer = &request.optimizer;
    let rules = [
        (optimizer.lr > 0.0 && optimizer.lr.is_finite(), "optimizer.lr", "it must be above 0".to_owned()),
        (
            optimizer.betas.iter().all(|beta| (0.0..1.0).contains(beta)),
            "optimizer.betas",
            format!("{:?} are not two rates from 0 to below 1", optimizer.betas),
        ),
        (
            (LEAST..=1.0).contains(&optimizer.eps),
            "optimizer.eps",
            format!("{:e} is not between {LEAST:.1e} and 1; usual are 1e-8 and 1e-6", optimizer.eps),
        ),
        (
            optimizer.weight_decay >= 0.0 && optimizer.weight_decay.is_finite(),
            "optimizer.weight_decay",
            format!("{} is not a number of at least 0; usual is 0.01", optimizer.weight_decay),
        ),
        (
            optimizer.max_grad_norm >= 0.0 && optimizer.max_grad_norm.is_finite(),
            "optimizer.max_grad_norm",
            format!("{} is not a number of at least 0; 0 disables clipping", optimizer.max_grad_norm),
        ),
        (
            optimizer.layer_decay > 0.0 && optimizer.layer_decay <= 1.0,
            "optimizer.layer_decay",
            format!("{} is not a factor above 0 and at most 1; ELECTRA has 0.8", optimizer.layer_decay),
        ),
    ];
    let problems = rules.into_iter().filter(|(holds, ..)| !holds);
    problems.map(|(_, key, message)| Problem::new(key, message)).collect()
}

fn guard_problems(request: &TrainRequest) -> Vec<Problem> {
    let guard = &request.guard;
    let checkpoints = &request.checkpoints;
    let report = &request.report;
    let mut problems = Vec::new();
    let before = (checkpoints.keep as u64).saturating_sub(1).saturating_mul(checkpoints.every_steps);
    if guard.action == SpikeAction::Skip && before < report.every_steps {
        let message = format!(
            "a loss spike is detected when its step is reported, up to {} steps later; by then no checkpoint before it may \
             be left for the rollback; increase `checkpoints.keep`, or decrease `report.every_steps`",
            report.every_steps
        );
        problems.push(Problem::new("spike_guard.action", message));
    }
    for (key, sigmas, usual) in
        [("spike_guard.loss_sigmas", guard.loss_sigmas, 10), ("spike_guard.norm_sigmas", guard.norm_sigmas, 30)]
    {
        if !(sigmas.is_finite() && sigmas >= 0.0) {
            let message =
                format!("{sigmas} is not a number of standard deviations; usual is {usual}, 0 disables the check");
            problems.push(Problem::new(key, message));
        }
    }
    let windows = GUARD_WINDOW_MIN..=GUARD_WINDOW_MAX;
    if !windows.contains(&guard.window) {
        let message =
            format!("{} steps are no usable window; write {GUARD_WINDOW_MIN} to {GUARD_WINDOW_MAX}", guard.window);
        problems.push(Problem::new("spike_guard.window", message));
    }
    problems
}

/// Returns the problems of the keys that end a run or select its checkpoints.
fn budget_problems(request: &TrainRequest) -> Vec<Problem> {
    let train = &request.train;
    let stop = request.validation.stop.as_ref();
    let rules = [
        (
            request.checkpoints.keep_best == 0 || request.validation.every_steps > 0,
            "checkpoints.keep_best",
            "without validation no checkpoint is the best; set `validation.every_steps`".to_owned(),
        ),
        (
            request.checkpoints.keep_best == 0 || is_validation_score(request, &request.checkpoints.best_by),
            "checkpoints.best_by",
            format!("no validation has a score `{}`", printable(&request.checkpoints.best_by)),
        ),
        (
            stop.is_none() || request.validation.every_steps > 0,
            "validation.stop",
            "without validation nothing ends the run early; set `validation.every_steps`".to_owned(),
        ),
        (
            stop.is_none_or(|stop| is_validation_score(request, &stop.metric)),
            "validation.stop.metric",
            format!("no validation has a score `{}`", printable(stop.map_or("", |stop| &stop.metric))),
        ),
        (
            stop.is_none_or(|stop| stop.patience > 0),
            "validation.stop.patience",
            "at least one validation without a better value is needed".to_owned(),
        ),
        (
            stop.is_none_or(|stop| request.checkpoints.keep_best == 0 || request.checkpoints.best_by == stop.metric),
            "checkpoints.best_by",
            "the run ends early by another metric; write the same metric here and in `validation.stop`".to_owned(),
        ),
        (train.max_tokens != Some(0), "train.max_tokens", "at least one token is needed".to_owned()),
        (
            train.max_hours.is_none_or(|hours| hours > 0.0 && hours <= HOURS_MAX),
            "train.max_hours",
            format!("{} is not a number of hours above 0 and at most {HOURS_MAX}", train.max_hours.unwrap_or_default()),
        ),
        (
            request.schedule.decay_fraction > 0.0 && request.schedule.decay_fraction <= 1.0,
            "schedule.decay_fraction",
            format!("{} is not a fraction above 0 and at most 1", request.schedule.decay_fraction),
        ),
    ];
    let broken = rules.into_iter().filter(|(holds, ..)| !holds);
    broken.map(|(_, key, message)| Problem::new(key, message)).collect()
}

/// Returns whether a validation may have that score: one of all runs, or one of an objective of the loss.
fn is_validation_score(request: &TrainRequest, name: &str) -> bool {
    let objective = name.split_once('.').map_or(name, |(objective, _)| objective);
    ["loss", "valid/mlm", "valid/mlm.accuracy"].contains(&name) || request.loss.contains_key(objective)
}

/// Returns the sizes of the main network that are zero or too large.
fn size_problems(encoder: &EncoderConfig) -> Vec<Problem> {
    let sizes = [
        ("encoder.layers", encoder.layers, LAYERS_MAX),
        ("encoder.hidden", encoder.hidden, WIDTH_MAX),
        ("encoder.feed_forward", encoder.feed_forward, WIDTH_MAX),
        ("encoder.embedding", encoder.embedding.unwrap_or(1), WIDTH_MAX),
    ];
    let is_wrong = |(_, size, max): &(&str, u32, u32)| !(1..=*max).contains(size);
    let problem = |(key, size, max)| Problem::new(key, format!("{size} is not between 1 and {max}"));
    sizes.into_iter().filter(is_wrong).map(problem).collect()
}

/// Returns the reason why a deterministic run is impossible on CUDA: a network with sums whose order varies on CUDA.
pub(super) fn order_problem(request: &TrainRequest) -> Option<String> {
    if !request.train.deterministic {
        return None;
    }
    let context = NetworkCheckContext { main: &request.encoder, in_order: true };
    request.networks.iter().find_map(|(name, network)| {
        let (key, message) = network.problems(context).into_iter().next()?;
        Some(format!("`networks.{name}.{key}`: {message}"))
    })
}

fn network_problems(request: &TrainRequest) -> Vec<Problem> {
    let mut problems = Vec::new();
    for message in request.encoder.relative_positions.buckets().map(Buckets::problems).unwrap_or_default() {
        problems.push(Problem::new("encoder.relative_positions", message));
    }
    // `auto` is resolved when training starts; `order_problem` is checked then.
    let in_order = request.train.deterministic && matches!(request.train.device, DeviceChoice::Cuda(_));
    for (name, network) in &request.networks {
        if name == MAIN || name == "heads" || name == "encoder" {
            let message = format!("`{name}` is a reserved name; rename this network");
            problems.push(Problem::new(format!("networks.{name}"), message).about("networks", name));
        }
        for (key, message) in network.problems(NetworkCheckContext { main: &request.encoder, in_order }) {
            problems.push(Problem::new(format!("networks.{name}.{key}"), message).about("networks", name));
        }
    }
    let mut made = BTreeSet::new();
    for (name, view) in request.networks.iter().filter_map(|(name, network)| Some((name, network.output_view()?.view)))
    {
        if !made.insert(view) {
            let message = format!("two networks write the view `{view}`");
            problems.push(Problem::new(format!("networks.{name}.output_view"), message).about("networks", name));
        }
    }
    problems
}

fn loss_problems(request: &TrainRequest) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !request.loss.values().any(|&weight| weight != 0.0) {
        problems.push(Problem::new("loss", "no objective has a weight above 0, so nothing would be trained"));
    }
    for (name, weight) in &request.loss {
        if !weight.is_finite() {
            problems.push(Problem::new(format!("loss.{name}"), format!("{weight} is not a finite number")));
        }
        let Some(objective) = request.objectives.get(name) else {
            let known = request.objectives.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let message = format!("objective `{name}` does not exist; existing objectives: {known}");
            problems.push(Problem::new(format!("loss.{name}"), message).about("objectives", name));
            continue;
        };
        let unknown = objective.vocab_problem(request.vocab.size);
        for message in objective.problems().into_iter().chain(unknown) {
            problems.push(Problem::new(format!("objectives.{name}"), message).about("objectives", name));
        }
        if request.encoder.embedding_width() != i64::from(request.encoder.hidden) && objective.uses_word_table() {
            let message = format!(
                "`{name}` compares hidden states with the word table: `encoder.embedding` must equal `encoder.hidden`"
            );
            problems.push(Problem::new("encoder.embedding", message).about("objectives", name));
        }
        let needed = objective.needs_row_attention().filter(|_| request.encoder.attention_scope == Attend::Document);
        if let Some(reason) = needed {
            let message = format!("`{name}` {reason}: write `attention_scope = \"row\"`");
            problems.push(Problem::new("encoder.attention_scope", message).about("objectives", name));
        }
        problems.extend(contrast_problems(request, name, objective));
    }
    problems
}

/// Returns the problems of an objective that contrasts rows with each other.
fn contrast_problems(request: &TrainRequest, name: &str, objective: &AnyObjective) -> Vec<Problem> {
    let Some(contrasted) = objective.contrasted_rows() else { return Vec::new() };
    let train = &request.train;
    let mut problems = Vec::new();
    let mut needs_two = |key: &str, what: &str| {
        let message = format!("`{name}` contrasts the rows of a {what} with each other; it needs at least 2 rows");
        problems.push(Problem::new(key, message).about("objectives", name));
    };
    if train.micro_batch_size == 1 {
        match contrasted {
            RowSet::MicroBatch => needs_two("train.micro_batch_size", "micro-batch"),
            RowSet::GlobalBatch if train.global_batch_size == 1 => needs_two("train.global_batch_size", "global batch"),
            RowSet::GlobalBatch if request.validation.every_steps > 0 => {
                needs_two("train.micro_batch_size", "micro-batch in validations");
            }
            RowSet::GlobalBatch => {}
        }
    }
    if contrasted == RowSet::GlobalBatch && train.normalize == Normalize::MicroBatch {
        let message = format!("`{name}` contrasts the rows of all micro-batches: write `normalize = \"step\"`");
        problems.push(Problem::new("train.normalize", message).about("objectives", name));
    }
    problems
}

/// Returns the problems of frozen layers and of objectives that read a layer.
fn frozen_problems(request: &TrainRequest) -> Vec<Problem> {
    let encoder = &request.encoder;
    let layers = encoder.layers;
    let mut problems = Vec::new();
    if let Some(frozen) = encoder.frozen_layers().filter(|frozen| *frozen > layers) {
        let message = format!("{frozen} layers are frozen, but the encoder has {layers}; write at most {layers}");
        problems.push(Problem::new("encoder.frozen", message));
    }
    let mut trains = false;
    for ActiveObjective { name, objective, weight } in request.active() {
        let mut head = WeightSpecs::default();
        let context = HeadContext { encoder, vocab_size: request.vocab.size };
        objective.declare(&context, &mut head.path("head"));
        let passes = objective.reads().passes;
        trains |= weight != 0.0 && (head.trained() > 0 || passes.iter().any(|pass| request.trains_through(pass)));
        for layer in passes.iter().filter(|pass| pass.network == MAIN).filter_map(|pass| pass.layers) {
            if layer > layers {
                let message = format!("`layer` is {layer}, but the encoder has {layers} layers");
                problems.push(Problem::new(format!("objectives.{name}"), message).about("objectives", name));
            }
        }
    }
    if encoder.frozen_layers().is_some() && !trains {
        let message = "no weight is trained: the encoder is frozen up to the layer that the loss reads, and no objective \
                       of the loss has a head";
        problems.push(Problem::new("encoder.frozen", message));
    }
    problems
}

#[cfg(test)]
mod tests {
    use crate::device::DeviceChoice;
    use crate::encoder::{Attend, Frozen};
    use crate::objectives::AnyObjective;
    use crate::request::TrainRequest;
    use crate::testing;
    use crate::train_plan::TrainPlan;

    #[test]
    fn valid_request_has_no_problems_and_an_invalid_one_reports_all() {
        let mut request = testing::request();
        assert!(TrainPlan::new(request.clone()).is_ok());
        (request.encoder.heads, request.encoder.dropout, request.width) = (3, 1.0, 17);
        (request.train.global_batch_size, request.optimizer.lr, request.checkpoints.keep) = (9, 0.0, 0);
        request.loss.insert("missing".to_owned(), 1.0);
        let keys: Vec<String> =
            TrainPlan::new(request).expect_err("a bad one").into_iter().map(|problem| problem.key).collect();
        let expected = [
            "encoder.hidden",
            "encoder.dropout",
            "encoder.max_positions",
            "train.global_batch_size",
            "checkpoints.keep",
            "optimizer.lr",
            "loss.missing",
        ];
        assert_eq!(keys, expected);
    }

    /// Numbers with which no step changes a weight, or that exceed any machine.
    #[test]
    fn plan_that_trains_nothing_is_refused() {
        let refused = |key: &str, change: &dyn Fn(&mut TrainRequest)| {
            let mut request = testing::request();
            change(&mut request);
            let problems = TrainPlan::new(request).map(|_| ()).expect_err(key);
            assert!(problems.iter().any(|problem| problem.key == key), "{key}: {problems:?}");
        };
        for bad in [f64::INFINITY, f64::NAN, 1e308, 0.0, -1.0, 1e-50] {
            refused("optimizer.eps", &|request| request.optimizer.eps = bad);
            refused("encoder.layer_norm_eps", &|request| request.encoder.layer_norm_eps = bad);
        }
        for bad in [f64::INFINITY, f64::NAN, -1.0] {
            refused("optimizer.weight_decay", &|request| request.optimizer.weight_decay = bad);
            refused("optimizer.max_grad_norm", &|request| request.optimizer.max_grad_norm = bad);
            refused("optimizer.lr", &|request| request.optimizer.lr = bad);
        }
        for bad in [f64::INFINITY, f64::NAN, -0.5, 0.0, 1.25] {
            refused("optimizer.layer_decay", &|request| request.optimizer.layer_decay = bad);
        }
        refused("train.threads", &|request| request.train.threads = usize::MAX);
        refused("train.threads", &|request| request.train.threads = 1 << 20);
        refused("train.steps", &|request| request.train.steps = u64::MAX);
        for bad in ["1e308", "1e-40", "inf", "nan", "0.0", "-0.07"] {
            for kind in ["token_contrastive", "sequence_contrastive", "teacher_contrastive"] {
                let text = format!("kind = \"{kind}\"\ntemperature = {bad}");
                let objective: AnyObjective = toml::from_str(&text).expect("a number");
                refused(&format!("objectives.{kind}"), &|request| {
                    request.objectives.insert(kind.to_owned(), objective.clone());
                });
            }
        }
    }

    #[test]
    fn frozen_encoder_needs_a_head_and_layers_must_exist() {
        let problems = |frozen: Vec<Frozen>, kind: &str, keys: &str| -> Vec<(String, String)> {
            let mut request = testing::request();
            request.encoder.frozen = frozen;
            let objective: AnyObjective = toml::from_str(&format!("kind = \"{kind}\"\n{keys}")).expect("an objective");
            request.objectives = [("only".to_owned(), objective)].into();
            request.loss = [("only".to_owned(), 1.0)].into();
            super::problems(&request).into_iter().map(|problem| (problem.key, problem.message)).collect()
        };
        let keys = |found: Vec<(String, String)>| found.into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        assert_eq!(problems(vec![Frozen::Encoder], "classification", "layer = 2"), []);
        assert_eq!(problems(vec![Frozen::Layers(1)], "token_contrastive", ""), []);
        assert_eq!(keys(problems(vec![Frozen::Encoder], "token_contrastive", "")), ["encoder.frozen"]);
        assert_eq!(keys(problems(vec![Frozen::Layers(3)], "classification", "")), ["encoder.frozen"]);
        let found = problems(vec![], "token_classification", "layer = 3");
        assert!(found[0].1.contains("`layer` is 3, but the encoder has 2 layers"), "{found:?}");
    }

    #[test]
    fn objectives_on_whole_rows_are_refused_where_documents_attend_to_themselves() {
        for (kind, expected) in [
            ("next_sentence", "needs attention between its two documents"),
            ("sequence_contrastive", "two views of a row may begin with different documents"),
            ("masked_lm", ""),
            ("token_contrastive", ""),
        ] {
            let mut request = testing::request();
            request.encoder.attention_scope = Attend::Document;
            let objective: AnyObjective = toml::from_str(&format!("kind = \"{kind}\"")).expect("an objective");
            request.objectives = [("only".to_owned(), objective)].into();
            request.loss = [("only".to_owned(), 1.0)].into();
            let problems = super::problems(&request);
            let found = problems.iter().find(|problem| problem.key == "encoder.attention_scope");
            let message = found.map_or("", |problem| problem.message.as_str());
            assert_eq!(message.contains(expected) && !message.is_empty(), !expected.is_empty(), "{kind}: {message}");
        }
    }

    #[test]
    fn deterministic_runs_are_refused_on_cuda_only() {
        let mut request = testing::request();
        request.train.deterministic = true;
        assert!(TrainPlan::new(request.clone()).is_ok(), "on the CPU");
        request.train.device = DeviceChoice::Auto;
        let plan = TrainPlan::new(request.clone()).expect("`auto` is planned as it is");
        let error = plan.check_on_cuda().expect_err("and refused where it turns out to be CUDA").to_string();
        assert!(error.contains("sampling_method = \"gumbel\"") && error.contains("networks."), "{error}");
        request.train.device = DeviceChoice::Cuda(0);
        assert!(TrainPlan::new(request).is_err(), "on CUDA sums come in no fixed order");
    }
}
