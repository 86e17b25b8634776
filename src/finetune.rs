//! Fine-tuning: labelled examples of a task to a prepared folder and a configuration, and metrics of predictions.
//!
//! [`prepare`] writes the folder and the configuration, which `cloze train` then runs like any other. [`TaskRecord`] in
//! the prepared folder names the task and its files for the evaluation.

mod page;
mod predictions;
pub(crate) mod preset;
mod recipe;
pub(crate) mod record;
mod request;
mod results;
mod rows;
mod start;
pub(crate) mod subset;
mod validation;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pipeline::labelled;
use store::Store;
use tasks::task::{ExampleSet, SetPurpose};
use tasks::{AnyTask, Example, ExampleReader};
use telemetry::quantities::count;
use telemetry::terminal::line;

pub use self::page::{OBJECTIVE, VIEW};
pub use self::predictions::{PredictedRows, Predictions};
use self::recipe::Recipe;
pub use self::record::{TaskFile, TaskRecord};
use self::request::SplitRows;
pub use self::request::{Prepared, Request};
pub(crate) use self::results::decimals;
pub use self::results::{
    PREDICTIONS, RESULTS, SetResult, TaskResults, chosen_step, predictions_file, predictions_name,
};
use self::rows::RowOptions;
pub use self::rows::{RowEncoder, RowLogits};
use self::start::StartModel;
use self::subset::TrainSubset;
pub use self::validation::ValidationPredictions;
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
    let Request { task, data, from, out, hyper } = request;
    check_task(task)?;
    check_out(out)?;
    let start = StartModel::open(from)?;
    let options = RowOptions {
        max_seq_len: Recipe::max_seq_len(hyper).min(start.encoder.max_positions),
        separators: start.separators(),
        stride: hyper.stride,
    };
    let sets = existing_sets(task, data)?;
    let subset = TrainSubset::new(hyper.train_fraction, hyper.seed);
    let record = TaskRecord::new(task, data, &sets, &start.tokenizer, options, subset)?;
    let prepared = Prepared::below(out);
    let folder = out.join("data");
    let known = Store::existing(&folder).ok().map(|store| record.compare(&store)).transpose()?.flatten();
    let rows = if let Some(rows) = known {
        rows
    } else {
        // Invalid files are refused before anything is written.
        let splits = Splits::read(task, data, subset)?;
        let store = Store::folder(&folder).map_err(|error| Usage(format!("--out {}: {error}", out.display())))?;
        splits.write(&store, &start, options, &record)?
    };
    line(format_args!(
        "{}: {} examples to train on, {} to validate on; rows of {}",
        folder.display(),
        count(rows.train),
        count(rows.valid),
        options.max_seq_len
    ));
    let text = page::page(request, &start, options, rows);
    let place = Store::folder(out)?;
    match place.get_with_stat("run.toml")? {
        Some((found, _)) if found != text.as_bytes() => {
            let message = format!(
                "{}: the folder has a fine-tuning with other arguments; name another --out, or continue it with \
                 `cloze train -c {}`",
                prepared.config.display(),
                schemas::shell_quoted(&prepared.config)
            );
            return Err(Usage(message).into());
        }
        Some(_) => {}
        None => drop(place.put("run.toml", text.as_bytes())?),
    }
    Ok(prepared)
}

/// Checks that files can be written to the folder: it is local, no file and no run.
fn check_out(out: &Path) -> anyhow::Result<()> {
    let refuse = |message: String| Err(Usage(format!("--out {}: {message}", out.display())).into());
    if let Some(problem) = output_folder_problem("out", out) {
        return refuse(format!("{}; name a local folder", problem.message));
    }
    if out.join("config.toml").is_file() {
        return refuse("a run is here; name another folder for the fine-tuning".to_owned());
    }
    Ok(())
}

/// Checks what every fine-tuning on a task needs: the task, its files and the model. Returns the number of training
/// examples.
///
/// # Errors
/// If one of them cannot be used.
pub(crate) fn check(task: &AnyTask, data: &Path, from: &[PathBuf]) -> anyhow::Result<u64> {
    check_task(task)?;
    let sets = existing_sets(task, data)?;
    from.iter().try_for_each(|from| StartModel::open(from).map(drop))?;
    let of = |purpose| sets.iter().find(|set| set.purpose == purpose).context("a task has this set");
    let mut valid = 0_u64;
    each_example(of(SetPurpose::Dev)?, data, task, |_| valid += 1)?;
    let mut train = 0_u64;
    each_example(of(SetPurpose::Train)?, data, task, |_| train += 1)?;
    Ok(train)
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

/// Returns the dev and test sets of a task whose files exist.
///
/// # Errors
/// If none exists.
pub fn evaluation_sets(task: &AnyTask, folder: &Path) -> anyhow::Result<Vec<ExampleSet>> {
    if let Some(problem) = task.problems().first() {
        return Err(Usage(format!("--task {}: {problem}", task.kind())).into());
    }
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

/// Returns the sets of a task whose files exist. Training and dev sets must.
fn existing_sets(task: &AnyTask, folder: &Path) -> anyhow::Result<Vec<ExampleSet>> {
    let sets = task.sets();
    let missing = sets.iter().find(|set| set.purpose != SetPurpose::Test && !folder.join(&set.file).is_file());
    if let Some(set) = missing {
        let file = folder.join(&set.file);
        let message = format!("{}: no such file; the task `{}` needs it", file.display(), task.kind());
        return Err(Usage(message).into());
    }
    Ok(sets.into_iter().filter(|set| folder.join(&set.file).is_file()).collect())
}

/// Examples that a run trains and validates on.
struct Splits {
    train: Vec<Example>,
    valid: Vec<Example>,
}

impl Splits {
    /// Reads the training set, or a subset of it, and the first dev set.
    fn read(task: &AnyTask, data: &Path, subset: Option<TrainSubset>) -> anyhow::Result<Self> {
        let sets = task.sets();
        let of = |purpose: SetPurpose| -> anyhow::Result<Vec<Example>> {
            let set = sets.iter().find(|set| set.purpose == purpose).context("a task has this set")?;
            examples(set, data, task)
        };
        let mut train = of(SetPurpose::Train)?;
        if let Some(subset) = subset {
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
        options: RowOptions,
        record: &TaskRecord,
    ) -> anyhow::Result<SplitRows> {
        let encoder = RowEncoder { output: &record.task.output(), tokenizer: &start.tokenizer, options };
        // Rows that cannot be made are refused before the folder has a record.
        let [train, valid] = [encoder.split(&self.train)?, encoder.split(&self.valid)?];
        record.write(store)?;
        let manifest = labelled::write(store, &start.tokenizer, options.labelled(), &train, &valid)?;
        let now = manifest.now();
        Ok(SplitRows { train: now.train.rows(), valid: now.valid.rows() })
    }
}

/// Reads the examples of a set.
///
/// # Errors
/// The first invalid lines, by file, line and column.
pub fn examples(set: &ExampleSet, folder: &Path, task: &AnyTask) -> anyhow::Result<Vec<Example>> {
    let mut examples = Vec::new();
    each_example(set, folder, task, |example| examples.push(example))?;
    Ok(examples)
}

/// Passes the examples of a set to `visit`, one by one. Invalid lines are an error at the end.
fn each_example(set: &ExampleSet, folder: &Path, task: &AnyTask, mut visit: impl FnMut(Example)) -> anyhow::Result<()> {
    let file = folder.join(&set.file);
    let mut reader =
        ExampleReader::open(&file, &set.layout, &task.output()).map_err(|error| Usage(error.to_string()))?;
    let mut read_any = false;
    let mut errors = Vec::new();
    for read in reader.by_ref() {
        match read {
            Ok(example) => {
                read_any = true;
                visit(example);
            }
            Err(error) => errors.push(error.to_string()),
        }
    }
    if !errors.is_empty() {
        let first = errors.iter().take(3).cloned().collect::<Vec<_>>().join("\n");
        let others =
            if errors.len() > 3 { format!("\nand {} more invalid lines", errors.len() - 3) } else { String::new() };
        return Err(Usage(format!("{first}{others}")).into());
    }
    if reader.counts().dropped > 0 {
        line(format_args!("{}: {} malformed lines are left out", file.display(), count(reader.counts().dropped)));
    }
    if !read_any {
        return Err(Usage(format!("{}: no example is here", file.display())).into());
    }
    Ok(())
}
