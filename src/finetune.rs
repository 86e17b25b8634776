//! Fine-tuning: labelled examples of a task to a prepared folder and a configuration, and metrics of predictions.
//!
//! [`prepare`] writes the folder and the configuration, which `cloze train` then runs like any other. [`TaskRecord`] in
//! the prepared folder names the task and its files for the evaluation.

mod example_row;
pub(crate) mod few_shot;
pub(crate) mod few_shot_plan;
mod page;
mod predictions;
pub(crate) mod preset;
pub(crate) mod prompt;
mod read;
mod recipe;
pub(crate) mod record;
mod request;
mod results;
mod rows;
mod start;
mod step;
pub(crate) mod subset;
mod validation;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pipeline::labelled;
use store::Store;
use tasks::metric::{EntityScheme, TaskMetric};
use tasks::task::{ExampleSet, SetPurpose};
use tasks::{AnyTask, Example, TaskOutput};
use telemetry::quantities::count;
use telemetry::terminal::{line, note};

pub use self::example_row::RowLogits;
use self::few_shot::FewShot;
pub use self::few_shot::{FewShotSplit, few_shot_dev};
pub use self::page::{OBJECTIVE, VIEW};
pub use self::predictions::{PredictedRows, Predictions};
pub use self::prompt::PromptEncoder;
use self::prompt::PromptOptions;
use self::read::each_example;
pub use self::read::examples;
use self::recipe::Recipe;
pub use self::record::{TaskFile, TaskRecord};
use self::request::{DrawnExamples, SplitRows};
pub use self::request::{Prepared, Request};
pub(crate) use self::results::decimals;
pub use self::results::{
    LastResults, PREDICTIONS, RESULTS, SetResult, TaskResults, predictions_file, predictions_name,
};
pub use self::rows::RowEncoder;
use self::rows::RowOptions;
use self::start::{StartHead, StartModel};
pub use self::step::chosen_step;
use self::step::kept_step;
pub use self::validation::{ValidatedTask, ValidationPredictions};
use crate::config::corpus::output_folder_problem;
use crate::exit::Usage;

/// Returns the task of that name, or of a TOML file with `kind` and its keys.
///
/// # Errors
/// If there is no such task, or if the file is none.
pub fn task(name: &str) -> anyhow::Result<AnyTask> {
    if let Some(task) = AnyTask::of_kind(name) {
        return Ok(task);
    }
    let refuse = |problem: String| Err(Usage(format!("--task {name}: {problem}")).into());
    if Path::new(name).extension().is_none_or(|ending| ending != "toml") {
        let names: Vec<&str> = AnyTask::examples().iter().map(AnyTask::kind).collect();
        return refuse(format!("no such task; the tasks are {}", names.join(", ")));
    }
    match std::fs::read_to_string(name).map_err(|error| error.to_string()) {
        Ok(text) => toml::from_str(&text).or_else(|error| refuse(error.to_string())),
        Err(error) => refuse(error),
    }
}

/// Prepares the examples and writes the configuration, unless both exist. Files that exist must be those of the same
/// request.
///
/// # Errors
/// If the task, the files or the model cannot be used, or if the folder has another fine-tuning.
pub fn prepare(request: &Request<'_>) -> anyhow::Result<Prepared> {
    let Request { task, data, from, from_step, out, hyper } = request;
    check_task(task)?;
    check_out(out)?;
    // A fine-tuning that exists continues with the weights that it started from.
    let start = StartModel::open(from, from_step.or_else(|| kept_step(out, from)))?;
    let options = RowOptions {
        max_seq_len: Recipe::max_seq_len(hyper).min(start.encoder.max_positions),
        separators: start.separators(),
        stride: hyper.stride,
    };
    if hyper.max_seq_len.is_some_and(|wanted| wanted > options.max_seq_len) {
        let most = start.encoder.max_positions;
        note(format_args!("warning: --max-seq-len: the model has {most} positions; rows have {most} tokens"));
    }
    let sets = existing_sets(task, data)?;
    let prompt = hyper.prompt.then(|| PromptOptions::new(task, hyper.demonstrations)).transpose()?;
    let head = prompt.as_ref().map(|_| StartHead::open(from)).transpose()?;
    let drawn = DrawnExamples::new(hyper);
    if drawn.few_shot.is_some() {
        FewShot::check(&task.output(), task.kind())?;
    }
    let record = TaskRecord::new(task, data, &sets, &start.tokenizer, options, drawn, prompt)?;
    let prepared = Prepared::below(out);
    let folder = out.join("data");
    let known = Store::existing(&folder).ok().map(|store| record.compare(&store)).transpose()?.flatten();
    let rows = if let Some(rows) = known {
        rows
    } else {
        // Invalid files are refused before anything is written.
        check_evaluated(&sets, data, task)?;
        let splits = Splits::read(task, data, drawn)?;
        let encoder = record.prompt_encoder(&start.tokenizer, &splits.train)?;
        let store = Store::folder(&folder).map_err(|error| Usage(format!("--out {}: {error}", out.display())))?;
        splits.write(&store, &start, encoder.as_ref(), &record)?
    };
    // An epoch has each example once, with any set of demonstrations.
    let rows = SplitRows { train: rows.train / record.prompt.as_ref().map_or(1, PromptOptions::rows), ..rows };
    line(format_args!(
        "{}: {} examples to train on, {} to validate on; rows of {}",
        folder.display(),
        count(rows.train),
        count(rows.valid),
        options.max_seq_len
    ));
    let text = page::page(request, &start, &record, head.as_ref(), rows)?;
    let place = Store::folder(out)?;
    match place.get_with_stat("run.toml")? {
        Some((found, _)) if found != text.as_bytes() => {
            let message = format!(
                "{}: the folder has a fine-tuning with other arguments; name another --out, or continue it with \
                 `cloze train -c {}`\n{}",
                prepared.config.display(),
                schemas::shell_quoted(&prepared.config),
                differences(&String::from_utf8_lossy(&found), &text)
            );
            return Err(Usage(message).into());
        }
        Some(_) => {}
        None => drop(place.put("run.toml", text.as_bytes())?),
    }
    Ok(prepared)
}

/// Returns the first lines of two configurations that differ, without their reasons.
fn differences(found: &str, wanted: &str) -> String {
    let lines = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split("    #").next().unwrap_or_default().to_owned()).collect()
    };
    let (found, wanted) = (lines(found), lines(wanted));
    let changed = wanted.iter().filter(|line| !line.is_empty() && !found.contains(line));
    changed.take(4).map(|line| format!("  wanted here: {line}")).collect::<Vec<_>>().join("\n")
}

/// Checks that files can be written to the folder: it is local, no file and no run.
fn check_out(out: &Path) -> anyhow::Result<()> {
    let refuse = |message: String| Err(Usage(format!("--out {}: {message}", out.display())).into());
    if let Some(url) = schemas::url_refusal(out) {
        return Err(Usage(format!("--out {url}; name a local folder")).into());
    }
    if let Some(problem) = output_folder_problem("out", out) {
        return refuse(format!("{}; name a local folder", problem.message));
    }
    if out.join("config.toml").is_file() {
        return refuse("a run is here; name another folder for the fine-tuning".to_owned());
    }
    Ok(())
}

/// Inputs of fine-tunings on a task.
pub(crate) struct CheckedInputs {
    /// Number of training examples.
    pub(crate) examples: u64,
    /// Files of the task.
    pub(crate) files: Vec<TaskFile>,
    /// Step of the checkpoint of each model; `None` for a model of `transformers`.
    pub(crate) steps: Vec<Option<u64>>,
}

/// Checks what every fine-tuning on a task needs: the task, its files and the models.
///
/// # Errors
/// If one of them cannot be used.
pub(crate) fn check(task: &AnyTask, data: &Path, from: &[PathBuf]) -> anyhow::Result<CheckedInputs> {
    check_task(task)?;
    let sets = existing_sets(task, data)?;
    let step = |from: &PathBuf| Ok(StartModel::open(from, None)?.step);
    let steps = from.iter().map(step).collect::<anyhow::Result<_>>()?;
    check_evaluated(&sets, data, task)?;
    let set = sets.iter().find(|set| set.purpose == SetPurpose::Train).context("a task has a training set")?;
    let mut train = 0_u64;
    each_example(set, data, task, |_| train += 1)?;
    Ok(CheckedInputs { examples: train, files: TaskFile::all(data, &sets)?, steps })
}

fn check_task(task: &AnyTask) -> anyhow::Result<()> {
    let refuse = |message: String| Err(Usage(format!("--task {}: {message}", task.kind())).into());
    if let Some(problem) = task.problems().first() {
        return refuse(problem.clone());
    }
    if let Some(other) = task.trained_as() {
        return refuse(format!("it has no training set; fine-tune `{other}`, whose model predicts it"));
    }
    if !task.sets().iter().any(|set| set.purpose == SetPurpose::Dev) {
        return refuse("it needs a dev set".to_owned());
    }
    Ok(())
}

/// Reads every file that is evaluated after the training, so that an invalid one is refused before it.
fn check_evaluated(sets: &[ExampleSet], data: &Path, task: &AnyTask) -> anyhow::Result<()> {
    for set in sets.iter().filter(|set| set.purpose != SetPurpose::Train) {
        each_example(set, data, task, drop).map_err(|error| {
            let has_key = set.purpose == SetPurpose::Test && set.has_labels() && is_configured(task);
            let hint = "if the labels of the test set are hidden, set `files.test_has_labels = false`";
            if has_key { Usage(format!("{error}\n{hint}")).into() } else { error }
        })?;
    }
    Ok(())
}

/// Returns whether keys of a task name its files. Those of other tasks may have no test file.
fn is_configured(task: &AnyTask) -> bool {
    task.folder().is_empty()
}

/// Refuses a test file that a key names and that does not exist.
fn check_test_exists(task: &AnyTask, folder: &Path) -> anyhow::Result<()> {
    let sets = task.sets().into_iter().filter(|set| set.purpose == SetPurpose::Test && is_configured(task));
    match sets.map(|set| folder.join(set.file)).find(|file| !file.is_file()) {
        Some(file) => {
            Err(Usage(format!("{}: no such file; correct `files.test`, or remove it", file.display())).into())
        }
        None => Ok(()),
    }
}

/// Returns the dev and test sets of a task whose files exist.
///
/// # Errors
/// If none exists, or if a key names a test file that does not.
pub fn evaluation_sets(task: &AnyTask, folder: &Path) -> anyhow::Result<Vec<ExampleSet>> {
    if let Some(problem) = task.problems().first() {
        return Err(Usage(format!("--task {}: {problem}", task.kind())).into());
    }
    check_test_exists(task, folder)?;
    let (train, mut sets): (Vec<_>, Vec<_>) = task.sets().into_iter().partition(|set| set.purpose == SetPurpose::Train);
    drop(train);
    let names: Vec<String> = sets.iter().map(|set| set.file.clone()).collect();
    sets.retain(|set| folder.join(&set.file).is_file());
    if sets.is_empty() {
        let message = format!("--data {}: none of {} is here", folder.display(), names.join(", "));
        return Err(Usage(message).into());
    }
    Ok(sets)
}

/// Returns the sets of a task whose files exist. Training and dev sets must, and the test set that a key names.
fn existing_sets(task: &AnyTask, folder: &Path) -> anyhow::Result<Vec<ExampleSet>> {
    check_test_exists(task, folder)?;
    let sets = task.sets();
    let missing = sets.iter().find(|set| set.purpose != SetPurpose::Test && !folder.join(&set.file).is_file());
    if let Some(set) = missing {
        let file = folder.join(&set.file);
        let message = format!("{}: no such file; the task `{}` needs it", file.display(), task.kind());
        return Err(Usage(message).into());
    }
    Ok(sets.into_iter().filter(|set| folder.join(&set.file).is_file()).collect())
}

/// Returns the scheme of the entities of a task that is measured by entities.
fn entity_scheme(task: &AnyTask) -> Option<EntityScheme> {
    let output = task.output();
    let is_of_entities = matches!(output, TaskOutput::WordLabels { .. }) && task.metrics()[0] != TaskMetric::Accuracy;
    EntityScheme::from_labels(output.labels().iter().map(String::as_str)).ok().filter(|_| is_of_entities)
}

/// Examples that a run trains and validates on.
struct Splits {
    train: Vec<Example>,
    valid: Vec<Example>,
}

impl Splits {
    /// Reads the training set, or a subset of it, and the first dev set. Few shots have a dev set of the training set.
    fn read(task: &AnyTask, data: &Path, drawn: DrawnExamples) -> anyhow::Result<Self> {
        let sets = task.sets();
        let of = |purpose: SetPurpose| -> anyhow::Result<Vec<Example>> {
            let set = sets.iter().find(|set| set.purpose == purpose).context("a task has this set")?;
            examples(set, data, task)
        };
        let mut train = of(SetPurpose::Train)?;
        if let Some(scheme) = entity_scheme(task) {
            line(format_args!("entities are read and scored as {scheme}"));
        }
        if let Some(few_shot) = drawn.few_shot {
            let all = count(train.len() as u64);
            let FewShotSplit { train, dev: valid } = few_shot.split(train, &task.output())?;
            line(format_args!("training on {} of {all} examples of each class", few_shot.shots));
            return Ok(Self { train, valid });
        }
        if let Some(subset) = drawn.subset {
            let all = train.len();
            train = subset.choose(train);
            line(subset::describe(subset, all, &train, &task.output()));
        }
        Ok(Self { train, valid: of(SetPurpose::Dev)? })
    }

    /// Writes them as a prepared folder, the record first: the manifest makes the folder valid.
    fn write(
        self,
        store: &Store,
        start: &StartModel,
        prompt: Option<&PromptEncoder>,
        record: &TaskRecord,
    ) -> anyhow::Result<SplitRows> {
        let options = record.rows;
        let encoder = RowEncoder { output: &record.task.output(), tokenizer: &start.tokenizer, options, prompt };
        // Rows that cannot be made are refused before the folder has a record.
        let [train, valid] = [encoder.split(&self.train)?, encoder.validation(&self.valid)?];
        record.write(store)?;
        let manifest = labelled::write(store, &start.tokenizer, options.labelled(), &train, &valid)?;
        let now = manifest.now();
        let cut = manifest.dataset_version(manifest.newest()).corpus.packing.cut_documents;
        if cut > 0 {
            let rows = options.max_seq_len;
            note(format_args!("warning: {} texts are truncated to rows of {rows}; see `--max-seq-len`", count(cut)));
        }
        Ok(SplitRows { train: now.train.rows(), valid: now.valid.rows() })
    }
}
