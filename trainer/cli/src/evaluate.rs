//! `cloze evaluate`: metrics and predictions of a fine-tuned run.

use std::path::{Path, PathBuf};

use cloze::exit::Usage;
use cloze::finetune::{
    OBJECTIVE, PREDICTIONS, PredictedRows, Predictions, RESULTS, RowEncoder, SetResult, TaskRecord, TaskResults, VIEW,
    chosen_step, evaluation_sets, examples, predictions_file, predictions_name,
};
use cloze::plan::Plan;
use pipeline::labelled::{self, EncodedRow};
use pipeline::tokenize::{HfTokenizer, Tokenizer as _};
use store::Store;
use tasks::task::{ExampleSet, SetPurpose};
use tasks::{AnyTask, Example};
use telemetry::terminal::{line, note, outcome};
use trainer::training::Predictor;

/// Model with everything that its predictions need.
struct Model {
    plan: Plan,
    predictor: Predictor,
    tokenizer: HfTokenizer,
    record: TaskRecord,
}

/// Options of an evaluation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options<'a> {
    /// Step of the checkpoint; that of [`chosen_step`] by default.
    pub(crate) step: Option<u64>,
    /// Other task and the folder of its files.
    pub(crate) other: Option<(&'a str, &'a Path)>,
    /// Whether to print one JSON object.
    pub(crate) json: bool,
}

/// Examples to evaluate on, and the place of the results.
struct Target {
    task: AnyTask,
    folder: PathBuf,
    sets: Vec<ExampleSet>,
    place: Store,
}

impl Target {
    /// Returns the dev and test sets that the run was prepared with.
    fn of_run(record: &TaskRecord, run: Store) -> anyhow::Result<Self> {
        let mut sets = record.sets()?;
        sets.retain(|set| set.purpose != SetPurpose::Train);
        Ok(Self { task: record.task.clone(), folder: record.folder.clone(), sets, place: run })
    }

    /// Returns the dev and test sets of another task with the outputs of the run.
    fn other(record: &TaskRecord, name: &str, folder: &Path, run: &Store) -> anyhow::Result<Self> {
        let task = cloze::finetune::task(name)?;
        let sets = evaluation_sets(&task, folder)?;
        if task.constant_prediction().is_none() && task.output() != record.task.output() {
            let text = |task: &AnyTask| format!("`{}` predicts {}", task.kind(), task.output());
            let message = format!("--task {name}: {}, and {} in the run", text(&task), text(&record.task));
            return Err(Usage(message).into());
        }
        let name = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
        let place = run.prefixed(&format!("evaluations/{name}"));
        Ok(Self { task, folder: folder.to_owned(), sets, place })
    }
}

/// Evaluates a checkpoint of `run` on the dev and test sets of its task, or of another one.
pub(crate) fn run(run: &Path, options: Options<'_>) -> anyhow::Result<()> {
    let store = Store::existing(run)?;
    let model = Model::open(run, &store, options.step)?;
    let target = match options.other {
        Some((name, folder)) => Target::other(&model.record, name, folder, &store)?,
        None => Target::of_run(&model.record, store)?,
    };
    let Target { task, folder, place, .. } = &target;
    let mut sets = Vec::new();
    for set in &target.sets {
        let found = examples(set, folder, task)?;
        let predictions = match task.constant_prediction() {
            Some(class) => Predictions::Classes(vec![class; found.len()]),
            None => model.predict(&found)?,
        };
        let result = SetResult::new(task, &set.name, &found, &predictions);
        let file = predictions_file(task, &found, &predictions);
        place.put(&format!("{PREDICTIONS}/{}", predictions_name(task, set)), &file)?;
        if !options.json {
            let text = if result.metrics.is_empty() { "no labels".to_owned() } else { result.text() };
            line(format_args!("{}: {} examples: {text}", set.name, found.len()));
        }
        sets.push(result);
    }
    if let Some(class) = task.constant_prediction() {
        let output = task.output();
        let label = &output.labels()[class as usize];
        note(format_args!("`{}`: every prediction is `{label}`; no model predicts this task", task.kind()));
    }
    let results = TaskResults { task: task.kind().to_owned(), step: model.predictor.step().0, sets };
    let text = serde_json::to_string_pretty(&results)?;
    place.put(RESULTS, format!("{text}\n").as_bytes())?;
    if options.json {
        line(text);
    } else {
        outcome(format_args!("{}, {}", place.place(RESULTS), place.place(PREDICTIONS)));
    }
    Ok(())
}

impl Model {
    fn open(run: &Path, store: &Store, step: Option<u64>) -> anyhow::Result<Self> {
        let plan = Plan::of_run(run)?;
        let record = TaskRecord::read(&plan.data().store)?;
        let tokenizer = plan.tokenizer()?;
        let predictor = Predictor::open(plan.train(), store, chosen_step(&plan, store, step)?)?;
        Ok(Self { plan, predictor, tokenizer, record })
    }

    /// Predicts the targets of examples, a micro-batch of rows at a time.
    fn predict(&self, examples: &[Example]) -> anyhow::Result<Predictions> {
        let output = self.record.task.output();
        let encoder = RowEncoder { output: &output, tokenizer: &self.tokenizer, options: self.record.rows };
        let special = self.tokenizer.facts().special();
        let mut encoded = Vec::new();
        let mut predicted = Vec::new();
        for example in examples {
            let rows = encoder.rows(example)?;
            encoded.extend(rows.iter().map(|it| EncodedRow::new(&it.row, special, self.record.rows.labelled())));
            let rows = rows.into_iter().map(|it| it.logits).collect();
            predicted.push(PredictedRows { rows, logits: Vec::new() });
        }
        let mut logits = self.logits(&encoded)?.into_iter();
        for it in &mut predicted {
            it.logits = logits.by_ref().take(it.rows.len()).collect();
        }
        Ok(Predictions::new(&output, examples, &predicted))
    }

    /// Returns the logits of rows.
    fn logits(&self, rows: &[EncodedRow]) -> anyhow::Result<Vec<Vec<f64>>> {
        let view = self.record.view();
        let mut logits = Vec::with_capacity(rows.len());
        for rows in rows.chunks(usize::try_from(self.plan.train().train.micro_batch_size)?) {
            let batch = labelled::batch(rows, VIEW, &view, self.record.rows.max_seq_len, self.plan.vocab());
            logits.extend(self.predictor.scores(OBJECTIVE, &batch)?);
        }
        Ok(logits)
    }
}
