//! Configuration of a fine-tuning.

use std::fmt::Write as _;

use tasks::TaskOutput;
use trainer_plan::objectives::Activation;

use super::record::view_toml;
use super::request::{Prepared, Request, SplitRows};
use super::rows::RowOptions;
use super::start::StartModel;

/// Name of the view of the examples.
pub const VIEW: &str = "example";
/// Name of the objective that predicts the targets.
pub const OBJECTIVE: &str = "task";

/// Returns the configuration with comments.
pub(super) fn page(request: &Request<'_>, start: &StartModel, options: RowOptions, rows: SplitRows) -> String {
    let Request { task, out, hyper, .. } = request;
    let batch = hyper.batch_size.min(rows.train.max(1));
    let per_epoch = rows.train.div_ceil(batch).max(1);
    let steps = per_epoch * hyper.epochs;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the steps")]
    let warmup = (steps as f64 * hyper.warmup).round() as u64;
    let string = |text: String| toml::Value::String(text).to_string();
    let encoder = toml::to_string(&start.encoder).expect("a configuration is TOML");
    let mut text = format!(
        "# Fine-tuning on `{}`, written by `cloze finetune`.\nseed = {}\n\n[data]\nfolder = {}\n\n# Of the model in `train.init_from`.\n[encoder]\n{}\n",
        task.kind(),
        hyper.seed,
        string(out.join("data").display().to_string()),
        nested(&encoder),
    );
    let _ = write!(
        text,
        "[views.{VIEW}]\n{}\n[objectives.{OBJECTIVE}]\nview = \"{VIEW}\"\n{}\n\n",
        view_toml(&task.output(), options),
        objective(&task.output(), start.activation),
    );
    let _ = write!(
        text,
        "[loss]\n{OBJECTIVE} = 1.0\n\n[train]\nsteps = {steps}    # {} epochs of {per_epoch}\nglobal_batch_size = {batch}\n\
         micro_batch_size = {batch}\ninit_from = {}\n\n",
        hyper.epochs,
        string(start.weights.display().to_string()),
    );
    let _ = write!(
        text,
        "[optimizer]\nlr = {:e}\nweight_decay = {}\n\n[schedule]\nkind = \"linear\"\nwarmup_steps = {warmup}\n\n",
        hyper.lr, hyper.weight_decay,
    );
    let _ = write!(
        text,
        "[validation]\nevery_steps = {per_epoch}\nrows = {}\n\n[checkpoints]\nevery_steps = {per_epoch}\nkeep = 1\n\n\
         [report]\nevery_steps = {}\n\n[run]\nfolder = {}\n",
        rows.valid.max(1),
        (per_epoch / 4).clamp(1, 100),
        string(Prepared::below(out).run.display().to_string()),
    );
    text
}

/// Moves sub-tables of `[encoder]` below it.
fn nested(encoder: &str) -> String {
    encoder.replace("\n[", "\n[encoder.")
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
