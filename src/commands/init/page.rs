//! Text of the written file, and its numbers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use schemas::{manifest, shell_quoted};
use telemetry::quantities::{bytes, short};
use trainer_plan::encoder::{EncoderConfig, Gelu, RelativeForm};

use super::recipe::{Recipe, recipe};
use super::survey::Survey;
use crate::cli::{Method, ModelSize};

/// Approximate bytes of text per token, for a vocabulary trained on the corpus.
const BYTES_PER_TOKEN: u64 = 4;

/// Largest micro-batch in tokens of a base model; fits 24 GB of device memory.
const MICRO_BATCH_TOKENS: u64 = 16 * 512;

/// Share of padding from which a comment explains it.
const PADDING_TOLD: f64 = 0.2;

/// Choices of the user.
pub(super) struct Choice {
    pub(super) method: Method,
    /// Size of the model; `None` for one that suits the corpus.
    pub(super) size: Option<ModelSize>,
    /// Model that the run continues.
    pub(super) model: Option<StartModel>,
    /// Prepared folder that the run reads.
    pub(super) data: Option<SharedData>,
}

/// Prepared folder that several runs read, with the settings it was prepared with.
pub(super) struct SharedData {
    pub(super) folder: PathBuf,
    pub(super) max_seq_len: u64,
    pub(super) packing: String,
    /// Share of the documents for validation. None if it is not known.
    pub(super) valid_fraction: Option<f64>,
    /// Rows of the training split.
    pub(super) rows: u64,
    /// Tokens of the training split.
    pub(super) tokens: u64,
}

/// Model of a `transformers` folder that a run begins with.
pub(super) struct StartModel {
    pub(super) folder: PathBuf,
    pub(super) encoder: EncoderConfig,
    /// Value of `prepare.lowercase`, if the tokenizer file does not determine it.
    pub(super) lowercase: Option<bool>,
    /// Fingerprint of its tokenizer.
    pub(super) fingerprint: String,
}

/// Schedule and vocabulary for a corpus of up to `below` tokens.
struct CorpusSize {
    /// Upper limit of the corpus, in tokens.
    below: u64,
    ids: u32,
    valid_fraction: &'static str,
    max_seq_len: u64,
    shape: Shape,
    global_batch_size: u64,
    epochs: u64,
    like: &'static str,
}

/// Layers, width and heads of an encoder.
#[derive(Clone, Copy)]
struct Shape {
    layers: u32,
    hidden: u32,
    heads: u32,
}

const TINY: Shape = Shape { layers: 2, hidden: 128, heads: 2 };
const SMALL: Shape = Shape { layers: 12, hidden: 256, heads: 4 };
const BASE: Shape = Shape { layers: 12, hidden: 768, heads: 12 };
const LARGE: Shape = Shape { layers: 24, hidden: 1024, heads: 16 };

const CORPORA: [CorpusSize; 4] = [
    CorpusSize {
        below: 2_000_000,
        ids: 4096,
        valid_fraction: "0.05",
        max_seq_len: 128,
        shape: TINY,
        global_batch_size: 64,
        epochs: 40,
        like: "minutes on a laptop",
    },
    CorpusSize {
        below: 50_000_000,
        ids: 8192,
        valid_fraction: "0.02",
        max_seq_len: 128,
        shape: Shape { layers: 4, hidden: 256, heads: 4 },
        global_batch_size: 128,
        epochs: 20,
        like: "hours on a laptop",
    },
    CorpusSize {
        below: 2_000_000_000,
        ids: 30_522,
        valid_fraction: "0.005",
        max_seq_len: 128,
        shape: SMALL,
        global_batch_size: 128,
        epochs: 10,
        like: "ELECTRA-small's encoder: a GPU",
    },
    CorpusSize {
        below: u64::MAX,
        ids: 30_522,
        valid_fraction: "0.001",
        max_seq_len: 512,
        shape: BASE,
        global_batch_size: 256,
        epochs: 3,
        like: "BERT-base: days on a GPU",
    },
];

/// Passes over the corpus of a run that continues a trained model.
const CONTINUED_EPOCHS: u64 = 3;

/// Returns the configuration with comments.
pub(super) fn page(survey: &Survey, name: &str, choice: &Choice) -> String {
    let estimated = survey.text_bytes / BYTES_PER_TOKEN;
    let tokens = choice.data.as_ref().map_or(estimated, |data| data.tokens).max(1);
    let corpus = CORPORA.iter().find(|corpus| tokens < corpus.below).unwrap_or(&CORPORA[CORPORA.len() - 1]);
    let encoder = encoder(choice, corpus);
    let recipe = recipe(choice.method, &encoder, choice.model.is_some());
    let schedule = Schedule::new(tokens, corpus, choice, &encoder, &recipe);
    let sections = [
        head(survey, tokens, corpus, choice, &recipe),
        tokenizer_section(survey, corpus, choice),
        prepare_section(survey, name, choice, corpus, &schedule, &recipe),
        data_section(&recipe),
        encoder_section(choice, &encoder, &schedule, &recipe),
        recipe.sections.clone(),
        train_section(choice, &schedule, &recipe),
        run_sections(name, &schedule),
    ];
    let text = sections.iter().filter(|section| !section.is_empty()).map(String::as_str).collect::<Vec<_>>().join("\n");
    text.lines().map(|line| align(line) + "\n").collect()
}

/// Column of the comments behind values.
const COMMENT_COLUMN: usize = 30;

/// Moves the comment behind a value to its column.
fn align(line: &str) -> String {
    // A line that is TOML without its end has the comment there; inside of a string it is none.
    let is_comment = |at: usize| !line[..at].trim().is_empty() && line[..at].parse::<toml::Table>().is_ok();
    match line.match_indices(" # ").map(|(at, _)| at).find(|&at| is_comment(at)) {
        Some(at) => format!("{:COMMENT_COLUMN$}{}", line[..at].trim_end(), line[at..].trim_end()),
        None => line.to_owned(),
    }
}

/// Numbers of the run.
struct Schedule {
    max_seq_len: u64,
    global_batch_size: u64,
    micro_batch_size: u64,
    steps: u64,
    /// Passes over the training split, from the other numbers.
    epochs: f64,
    lr: String,
    lr_reason: String,
}

impl Schedule {
    fn new(tokens: u64, corpus: &CorpusSize, choice: &Choice, encoder: &EncoderConfig, recipe: &Recipe) -> Self {
        let is_wide = encoder.hidden >= BASE.hidden;
        let wanted = if is_wide { 512 } else { corpus.max_seq_len };
        let max_seq_len = wanted.min(u64::from(encoder.max_positions)).max(8);
        let max_seq_len = choice.data.as_ref().map_or(max_seq_len, |data| data.max_seq_len);
        let rows = choice.data.as_ref().map_or(tokens / max_seq_len, |data| data.rows).max(1);
        // At least eight steps per epoch for a small corpus.
        let wanted = if is_wide { corpus.global_batch_size.max(256) } else { corpus.global_batch_size };
        let global_batch_size = (rows / 8).max(2).next_power_of_two().min(wanted);
        let epochs = if choice.model.is_some() { CONTINUED_EPOCHS } else { corpus.epochs };
        let steps = round((rows * epochs / global_batch_size).clamp(20, 1_000_000));
        // The rounded steps make more passes than were asked for, and no step reads the validation split.
        let trained = if choice.data.is_some() { 1.0 } else { 1.0 - valid_fraction(corpus) };
        let epochs = (steps * global_batch_size) as f64 / (rows as f64 * trained);
        // Activations grow with layers, width and passes.
        let cost = u64::from(encoder.layers) * u64::from(encoder.hidden) * recipe.passes;
        let base = u64::from(BASE.layers) * u64::from(BASE.hidden);
        let most = (MICRO_BATCH_TOKENS * base / cost.max(1) / max_seq_len).clamp(2, 64);
        let micro_batch_size = (1 << most.ilog2()).min(global_batch_size);
        let (lr, lr_reason) = rate(choice, encoder, recipe);
        Self { max_seq_len, global_batch_size, micro_batch_size, steps, epochs, lr, lr_reason }
    }
}

/// Share of the documents that no step reads.
fn valid_fraction(corpus: &CorpusSize) -> f64 {
    corpus.valid_fraction.parse().expect("the table has numbers")
}

/// Returns the learning rate with its reason.
fn rate(choice: &Choice, encoder: &EncoderConfig, recipe: &Recipe) -> (String, String) {
    let (base, source) = recipe.base_lr;
    match encoder.hidden {
        _ if choice.model.is_some() => ("1e-4".to_owned(), "continued training (TaCL, fully-explored MLM)".to_owned()),
        0..=128 => ("1e-3".to_owned(), "small models take a higher rate".to_owned()),
        129..=512 => ("5e-4".to_owned(), "ELECTRA-small".to_owned()),
        513..=768 => (base.to_owned(), source.to_owned()),
        _ => ("1e-4".to_owned(), "large models need a lower rate: BERT-large".to_owned()),
    }
}

fn encoder(choice: &Choice, corpus: &CorpusSize) -> EncoderConfig {
    if let Some(model) = &choice.model {
        return model.encoder.clone();
    }
    let Shape { layers, hidden, heads } = match choice.size {
        None => corpus.shape,
        Some(ModelSize::Tiny) => TINY,
        Some(ModelSize::Small) => SMALL,
        Some(ModelSize::Base) => BASE,
        Some(ModelSize::Large) => LARGE,
    };
    let max_positions = if hidden >= BASE.hidden { 512 } else { u32::try_from(corpus.max_seq_len).unwrap_or(512) };
    EncoderConfig { layers, hidden, heads, feed_forward: 4 * hidden, max_positions, ..EncoderConfig::default() }
}

fn head(survey: &Survey, tokens: u64, corpus: &CorpusSize, choice: &Choice, recipe: &Recipe) -> String {
    let shape = match (&choice.model, choice.size) {
        (Some(model), _) => format!("the model of {}", model.folder.display().to_string().escape_debug()),
        (None, Some(size)) => format!("the size `{}`", size.name()),
        (None, None) => corpus.like.to_owned(),
    };
    format!(
        "# {files} of format `{format}`, {disk} on disk, about {text} of text: some {tokens} tokens.\n\
         # {title}; sizes for {shape}.\n\
         # Written by `cloze init`. `cloze config` lists every key, `cloze plan` prints the cost.\n\
         seed = 1\n",
        files = survey.files(),
        format = survey.format,
        disk = bytes(survey.bytes),
        text = bytes(survey.text_bytes),
        tokens = short(tokens as f64),
        title = recipe.title,
    )
}

fn tokenizer_section(survey: &Survey, corpus: &CorpusSize, choice: &Choice) -> String {
    if choice.model.is_some() || choice.data.is_some() {
        return String::new();
    }
    let (kind, lowercase) = if survey.is_latin {
        ("wordpiece", "lowercase = true          # strips accents too; `false` for a cased model")
    } else {
        ("byte_bpe", "# Most letters are not Latin: byte-level BPE covers every script.")
    };
    format!(
        "[tokenizer]               # `cloze tokenizer train`\nkind = \"{kind}\"\nvocab_size = {}\n{lowercase}\n",
        corpus.ids
    )
}

/// Returns the beginning of `[prepare]`: the corpus and its fields.
fn corpus_keys(survey: &Survey) -> String {
    let string = |text: &str| toml::Value::from(text).to_string();
    let inputs: Vec<String> = survey.inputs.iter().map(|input| string(input)).collect();
    let mut text = format!(
        "[prepare]                 # `cloze prepare`\ninputs = [{}]\nformat = \"{}\"\n",
        inputs.join(", "),
        survey.format
    );
    if let Some(field) = &survey.text_field {
        let _ = writeln!(text, "text_field = {}       # field with the text", string(field));
    }
    if let Some(field) = &survey.id_field {
        let _ = writeln!(
            text,
            "id_field = {}           # field with the document id, for `cloze prepare forget`",
            string(field)
        );
    }
    text
}

/// Returns the folder for the tokenizer and the prepared data: `data`, unless the corpus is there.
fn parent_of_data(inputs: &[String]) -> &'static str {
    let is_there = |input: &String| Path::new(input).strip_prefix(".").unwrap_or(Path::new(input)).starts_with("data");
    if inputs.iter().any(is_there) { "prepared" } else { "data" }
}

fn prepare_section(
    survey: &Survey,
    name: &str,
    choice: &Choice,
    corpus: &CorpusSize,
    schedule: &Schedule,
    recipe: &Recipe,
) -> String {
    let string = |text: &str| toml::Value::from(text).to_string();
    let mut text = match &choice.data {
        None => corpus_keys(survey),
        // Its filters, duplicates and test sets are those of the file that it was prepared with. A second file that
        // names the corpus would prepare it differently.
        Some(_) => {
            "[prepare]                 # prepared before: change the corpus with the file of its preparation\n".into()
        }
    };
    match (&choice.model, &choice.data) {
        (None, None) => {
            let _ = writeln!(text, "tokenizer = \"{}/{name}-tokenizer.json\"", parent_of_data(&survey.inputs));
        }
        (None, Some(data)) => {
            let tokenizer = data.folder.join(manifest::TOKENIZER).display().to_string();
            let _ = writeln!(text, "tokenizer = {}       # that of the prepared folder", string(&tokenizer));
        }
        (Some(model), _) => {
            let _ =
                writeln!(text, "tokenizer = {}       # that of the model", string(&model.folder.display().to_string()));
            if let Some(lowercase) = model.lowercase {
                let _ = writeln!(text, "lowercase = {lowercase}          # `do_lower_case` of the model");
            }
        }
    }
    if let Some(data) = &choice.data {
        let _ = writeln!(
            text,
            "folder = {}    # prepared before; its packing and row length are below\npacking = {}",
            string(&data.folder.display().to_string()),
            string(&data.packing)
        );
    } else {
        let parent = parent_of_data(&survey.inputs);
        let _ = writeln!(text, "folder = \"{parent}/{name}\"    # `data.folder` follows it");
    }
    if let Some((packing, reason)) = recipe.packing.filter(|_| choice.data.is_none()) {
        let _ = writeln!(text, "packing = \"{packing}\"     # {reason}");
        let padding = padding(&survey.document_bytes, schedule.max_seq_len);
        if padding >= PADDING_TOLD {
            let _ = writeln!(
                text,
                "# A row holds one document, and these are short: about {:.0} % of the positions are padding. Longer\n\
                 # documents (several paragraphs, a whole file) or a smaller `max_seq_len` waste less.",
                100.0 * padding
            );
        }
    }
    if let Some(place) = &survey.long_document {
        let place = place.escape_debug();
        let _ = writeln!(
            text,
            "# Longer documents, such as {place}, are skipped and counted: more needs 64 times as much memory\n\
             # (`max_memory_bytes`).\n\
             max_document_bytes = {}",
            survey.max_document_bytes
        );
    }
    let _ = writeln!(
        text,
        "max_seq_len = {}          # tokens per row; longer rows cost more and give more context",
        schedule.max_seq_len
    );
    let _ = writeln!(
        text,
        "valid_fraction = {}     # share of the documents for validation, never trained on",
        choice.data.as_ref().and_then(|data| data.valid_fraction).unwrap_or_else(|| valid_fraction(corpus))
    );
    text
}

/// Returns the expected share of padding if no row has text of two documents.
fn padding(document_bytes: &[u64], max_seq_len: u64) -> f64 {
    let tokens = document_bytes.iter().map(|bytes| (bytes / BYTES_PER_TOKEN).max(1));
    let positions: u64 = tokens.clone().map(|tokens| tokens.next_multiple_of(max_seq_len)).sum();
    let filled: u64 = tokens.sum();
    positions.saturating_sub(filled) as f64 / positions.max(1) as f64
}

fn data_section(recipe: &Recipe) -> String {
    let window = "shuffle_window_groups = 64 # row groups that are shuffled together; more mix sources better and take more memory\n";
    format!("[data]\n{}{window}", recipe.data)
}

fn encoder_section(choice: &Choice, encoder: &EncoderConfig, schedule: &Schedule, recipe: &Recipe) -> String {
    let EncoderConfig { layers, hidden, heads, feed_forward, dropout, .. } = encoder;
    let origin = if choice.model.is_some() { "                 # that of the model" } else { "" };
    let mut text = format!(
        "[encoder]{origin}\nlayers = {layers}\nhidden = {hidden}\nheads = {heads}\nfeed_forward = {feed_forward}\n"
    );
    // More positions than a row has would never be trained; those of a model are trained already.
    let positions = if choice.model.is_some() { u64::from(encoder.max_positions) } else { schedule.max_seq_len };
    let _ = writeln!(text, "max_positions = {positions}");
    let _ = writeln!(text, "dropout = {dropout:?}");
    if choice.model.is_some() {
        let _ = writeln!(text, "layer_norm_eps = {:e}", encoder.layer_norm_eps);
        if encoder.gelu == Gelu::Tanh {
            text.push_str("gelu = \"tanh\"\n");
        }
        if encoder.relative_positions.kind != RelativeForm::None {
            let value = toml::Value::try_from(encoder.relative_positions).expect("plain values");
            let _ = writeln!(text, "relative_positions = {value}");
        }
        if let Some(embedding) = encoder.embedding {
            let _ = writeln!(text, "embedding = {embedding}");
        }
    } else {
        text.push_str(recipe.encoder);
    }
    text
}

fn train_section(choice: &Choice, schedule: &Schedule, recipe: &Recipe) -> String {
    let Schedule { global_batch_size, micro_batch_size, steps, epochs, lr, lr_reason, .. } = schedule;
    let mut text = "[train]\n".to_owned();
    if let Some(model) = &choice.model {
        let folder = toml::Value::from(model.folder.display().to_string());
        let _ = writeln!(text, "init_from = {folder}       # start weights");
    }
    let (precision, reason) = recipe.precision;
    let _ = write!(
        text,
        "steps = {steps}            # about {epochs:.0} passes over the corpus\n\
         global_batch_size = {global_batch_size}\n\
         micro_batch_size = {micro_batch_size}     # limited by device memory; `cloze tune` finds the fastest\n\
         # precision = \"{precision}\" # {reason}\n\n\
         [optimizer]\nlr = {lr}                 # {lr_reason}\n{}\n\
         [schedule]\nkind = \"linear\"\nwarmup_steps = {}        # a twentieth of the steps\n",
        recipe.optimizer,
        (steps / 20).max(1),
    );
    text
}

fn run_sections(name: &str, schedule: &Schedule) -> String {
    // A validation or a checkpoint costs more than a step of a small run.
    let every = interval(schedule.steps, 10, 50);
    format!(
        r#"[validation]
every_steps = {every}

[checkpoints]
every_steps = {every}

[report]
every_steps = {report}

[run]
folder = "runs/{name}"

# A page of the run, and metrics for Prometheus: docs/monitoring.md. `cloze top {run}` is the same on a terminal.
# [serve]
# address = "127.0.0.1:8080"
#
# Alerts when the run ends or the loss spikes: docs/operations.md.
# [alerts]
# command = ["./tell", "the-team"]
"#,
        report = interval(schedule.steps, 100, 10),
        run = shell_quoted(format!("runs/{name}")),
    )
}

/// Returns the steps between events of which a run has about `count`: at least `min`, at most all.
fn interval(steps: u64, count: u64, min: u64) -> u64 {
    (steps / count).max(min).min(steps)
}

/// Rounds to two significant digits.
fn round(steps: u64) -> u64 {
    let unit = 10_u64.pow(steps.max(1).ilog10().saturating_sub(1));
    steps.div_ceil(unit) * unit
}

#[cfg(test)]
mod tests;
