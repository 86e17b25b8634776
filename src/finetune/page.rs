//! Configuration of a fine-tuning.

use std::fmt::Write as _;

use tasks::{AnyTask, TaskOutput};
use trainer_plan::objectives::Activation;

use super::preset::{CheckpointChoice, HeadDropout};
use super::prompt::PromptOptions;
use super::recipe::{Choice, Recipe};
use super::record::TaskRecord;
use super::request::{Prepared, Request, SplitRows};
use super::start::{StartHead, StartModel};

/// Name of the view of the examples.
pub const VIEW: &str = "example";
/// Name of the objective that predicts the targets.
pub const OBJECTIVE: &str = "task";

/// Returns the configuration with comments.
///
/// # Errors
/// If a label word of a prompt is not one token.
pub(super) fn page(
    request: &Request<'_>,
    start: &StartModel,
    record: &TaskRecord,
    token_head: Option<&StartHead>,
    rows: SplitRows,
) -> anyhow::Result<String> {
    let Request { task, out, hyper, .. } = request;
    let objective = match (&record.prompt, token_head) {
        (Some(prompt), Some(token_head)) => prompt_objective(prompt, &prompt.word_ids(&start.tokenizer)?, token_head),
        _ => objective(&task.output(), start.activation),
    };
    let recipe = Recipe::new(hyper, task.kind(), rows.train);
    let batch = recipe.batch_size.value.min(rows.train.max(1));
    let per_epoch = rows.train.div_ceil(batch).max(1);
    let Length { steps, reason } = Length::new(&recipe, per_epoch);
    let string = |text: String| toml::Value::String(text).to_string();
    let mut text = format!(
        "# Fine-tuning on `{}`, written by `cloze finetune` with the preset `{}`.\nseed = {}\n\n[data]\nfolder = {}\n\n{}\n",
        task.kind(),
        hyper.preset.name(),
        hyper.seed,
        string(out.join("data").display().to_string()),
        encoder(start, &recipe),
    );
    let _ = write!(
        text,
        "[views.{VIEW}]\n{}\n[objectives.{OBJECTIVE}]\nview = \"{VIEW}\"\n{}\n{}\n",
        record.view_toml(),
        objective,
        if record.prompt.is_some() { String::new() } else { head(&recipe, &task.output()) },
    );
    let _ = write!(
        text,
        "[loss]\n{OBJECTIVE} = 1.0\n\n[train]\nsteps = {steps}    # {reason}\n\
         global_batch_size = {batch}    # {}\nmicro_batch_size = {batch}\ninit_from = {}\n\n",
        recipe.batch_size.reason,
        string(start.weights.display().to_string()),
    );
    text += &optimizer(&recipe);
    let _ = write!(
        text,
        "[schedule]\nkind = \"linear\"\nwarmup_steps = {}    # {}: {}\n\n",
        recipe.warmup.value.steps_of(steps),
        recipe.warmup.value,
        recipe.warmup.reason,
    );
    text += &validation(&recipe, task, per_epoch, rows);
    let _ = write!(
        text,
        "[report]\nevery_steps = {}\n\n[run]\nfolder = {}\n",
        (per_epoch / 4).clamp(1, 100),
        string(Prepared::below(out).run.display().to_string()),
    );
    Ok(text)
}

/// Number of steps, with its reason.
struct Length {
    steps: u64,
    reason: String,
}

impl Length {
    /// Takes the steps of the preset, else the epochs.
    fn new(recipe: &Recipe, per_epoch: u64) -> Self {
        if let Some(steps) = &recipe.steps {
            return Self { steps: steps.value, reason: format!("{}; an epoch has {per_epoch}", steps.reason) };
        }
        let epochs = recipe.epochs.value;
        Self { steps: per_epoch * epochs, reason: format!("{epochs} epochs of {per_epoch}: {}", recipe.epochs.reason) }
    }
}

/// Returns `[encoder]`: that of the model, with the dropout of the preset.
fn encoder(start: &StartModel, recipe: &Recipe) -> String {
    let mut encoder = start.encoder.clone();
    let mut comment = "# Of the model in `train.init_from`.".to_owned();
    if let Some(dropout) = &recipe.dropout {
        encoder.dropout = dropout.value;
        let _ = write!(comment, " `dropout`: {}.", dropout.reason);
    }
    format!("{comment}\n[encoder]\n{}", nested(&toml::to_string(&encoder).expect("a configuration is TOML")))
}

/// Returns the keys for the dropout of the head.
fn head(recipe: &Recipe, output: &TaskOutput) -> String {
    let Some(head) = &recipe.head else { return String::new() };
    let HeadDropout { input, output: before_outputs } = head.value;
    let reason = &head.reason;
    let dropout = format!("dropout = {before_outputs:?}    # {reason}\n");
    match output {
        TaskOutput::Class { .. } | TaskOutput::Score { .. } => {
            format!("input_dropout = {input:?}    # {reason}\n{dropout}")
        }
        TaskOutput::WordLabels { .. } => dropout,
        TaskOutput::Spans { .. } => String::new(),
    }
}

/// Returns `[validation]` and `[checkpoints]`.
fn validation(recipe: &Recipe, task: &AnyTask, per_epoch: u64, rows: SplitRows) -> String {
    let checkpoint = recipe.checkpoint.as_ref();
    let every = per_epoch.div_ceil(checkpoint.map_or(1, |it| it.value.validations_per_epoch));
    let mut text = format!("[validation]\nevery_steps = {every}\nrows = {}\n", rows.valid.max(1));
    // Validations do not have the metrics of answers.
    let has_metrics = !matches!(task.output(), TaskOutput::Spans { .. });
    let primary = task.metrics().into_iter().next().filter(|_| has_metrics);
    let metric = primary.map_or_else(|| "loss".to_owned(), |metric| format!("{OBJECTIVE}.{metric}"));
    if let Some(Choice { value: CheckpointChoice { patience: Some(patience), .. }, reason }) = checkpoint {
        let _ = writeln!(text, "stop = {{ metric = \"{metric}\", patience = {patience} }}    # {reason}");
    }
    let _ = write!(text, "\n[checkpoints]\nevery_steps = {every}\nkeep = 1\n");
    if let Some(choice) = checkpoint {
        let _ = write!(text, "keep_best = 1    # {}\nbest_by = \"{metric}\"\n", choice.reason);
    }
    text + "\n"
}

/// Returns `[optimizer]`.
fn optimizer(recipe: &Recipe) -> String {
    let Recipe { lr, weight_decay, betas, eps, max_grad_norm, bias_correction, layer_decay, .. } = recipe;
    let [first, second] = betas.value;
    let mut text = format!(
        "[optimizer]\nlr = {:e}    # {}\nbetas = [{first:?}, {second:?}]    # {}\neps = {:e}    # {}\nweight_decay = {:?}    # {}\n",
        lr.value, lr.reason, betas.reason, eps.value, eps.reason, weight_decay.value, weight_decay.reason,
    );
    if let Some(bias_correction) = bias_correction {
        let _ = writeln!(text, "bias_correction = {}    # {}", bias_correction.value, bias_correction.reason);
    }
    if let Some(decay) = layer_decay {
        let _ = writeln!(text, "layer_decay = {:?}    # {}", decay.value, decay.reason);
    }
    let _ = writeln!(text, "max_grad_norm = {:?}    # {}\n", max_grad_norm.value, max_grad_norm.reason);
    text
}

/// Moves sub-tables of `[encoder]` below it.
fn nested(encoder: &str) -> String {
    encoder.replace("\n[", "\n[encoder.")
}

/// Returns the objective of a prompt.
fn prompt_objective(prompt: &PromptOptions, words: &[u32], head: &StartHead) -> String {
    let names: Vec<String> = prompt.words.iter().map(|word| word.escape_debug().to_string()).collect();
    let template = prompt.template.escape_debug();
    let mut text = format!(
        "kind = \"prompt_classification\"    # {template}\nwords = {words:?}    # {}\nform = {}    # of the model",
        names.join(", "),
        toml::Value::try_from(head.form).expect("a name"),
    );
    if let Some(objective) = &head.objective {
        let _ = write!(text, "\ninit_head = {}    # of the model", toml::Value::String(objective.clone()));
    }
    text
}

fn objective(output: &TaskOutput, activation: Activation) -> String {
    let activation = match activation {
        Activation::Tanh => "",
        Activation::Gelu => "\nactivation = \"gelu\"    # as in ELECTRA",
    };
    let classes = |labels: &[String]| {
        let names: Vec<String> = labels.iter().map(|label| label.escape_debug().to_string()).collect();
        format!("classes = {}    # {}", labels.len(), names.join(", "))
    };
    match output {
        TaskOutput::Class { labels } => format!("kind = \"classification\"\n{}{activation}", classes(labels)),
        TaskOutput::Score { .. } => format!("kind = \"regression\"{activation}"),
        TaskOutput::Spans { .. } => "kind = \"span_extraction\"".to_owned(),
        TaskOutput::WordLabels { labels } => format!("kind = \"token_classification\"\n{}", classes(labels)),
    }
}
