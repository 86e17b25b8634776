//! `cloze evaluate`: metrics and predictions of a fine-tuned run.

use std::path::{Path, PathBuf};

use cloze::exit::Usage;
use cloze::finetune::{
    LastResults, OBJECTIVE, PREDICTIONS, PredictedRows, Predictions, PromptEncoder, RESULTS, RowEncoder, SetResult,
    TaskRecord, TaskResults, VIEW, chosen_step, evaluation_sets, examples, few_shot_dev, predictions_file,
    predictions_name,
};
use cloze::plan::Plan;
use pipeline::labelled::{self, EncodedRow};
use pipeline::tokenize::{HfTokenizer, Tokenizer as _};
use store::Store;
use tasks::task::{ExampleSet, SetPurpose};
use tasks::{AnyTask, Example};
use telemetry::terminal::{line, note, outcome};
use trainer::training::Predictor;
use trainer_plan::checkpoint;

/// Folder of evaluations of other tasks and steps, below the run folder.
const EVALUATIONS: &str = "evaluations";

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
    /// Whether the run has just ended: these are its results.
    pub(crate) is_final: bool,
    /// Whether to print one JSON object.
    pub(crate) json: bool,
}

/// Examples to evaluate on, and the place of the results.
struct Target {
    task: AnyTask,
    folder: PathBuf,
    /// Sets, with their examples if those are no files.
    sets: Vec<(ExampleSet, Option<Vec<Example>>)>,
    place: Store,
}

impl Target {
    /// Returns the dev and test sets that the run was prepared with. `drawn` is the dev set of a few-shot run.
    fn of_run(record: &TaskRecord, drawn: Option<Vec<Example>>, place: Store) -> anyhow::Result<Self> {
        let all = record.sets()?;
        let first = few_shot_dev(&all).zip(drawn).map(|(set, drawn)| (set, Some(drawn)));
        let others = all.into_iter().filter(|set| set.purpose != SetPurpose::Train).map(|set| (set, None));
        let sets = first.into_iter().chain(others).collect();
        Ok(Self { task: record.task.clone(), folder: record.folder.clone(), sets, place })
    }

    /// Returns the dev and test sets of another task with the outputs of the run.
    fn other(record: &TaskRecord, name: &str, folder: &Path, run: &Store) -> anyhow::Result<Self> {
        let task = cloze::finetune::task(name)?;
        let sets = evaluation_sets(&task, folder)?.into_iter().map(|set| (set, None)).collect();
        if task.constant_prediction().is_none() && task.output() != record.task.output() {
            let text = |task: &AnyTask| format!("`{}` predicts {}", task.kind(), task.output());
            let message = format!("--task {name}: {}, and {} in the run", text(&task), text(&record.task));
            return Err(Usage(message).into());
        }
        let name = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
        let place = run.prefixed(&format!("{EVALUATIONS}/{name}"));
        Ok(Self { task, folder: folder.to_owned(), sets, place })
    }

    /// Returns the results of a model on each set, and passes the examples and their predictions to `visit`.
    fn evaluate(
        &self,
        model: &Model,
        prompt: Option<&PromptEncoder>,
        mut visit: impl FnMut(&ExampleSet, &[Example], &Predictions, &SetResult) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<SetResult>> {
        let mut results = Vec::new();
        for (set, drawn) in &self.sets {
            let found = match drawn {
                Some(drawn) => drawn.clone(),
                None => examples(set, &self.folder, &self.task)?,
            };
            let predictions = match self.task.constant_prediction() {
                Some(class) => Predictions::Classes(vec![class; found.len()]),
                None => model.predict(&found, prompt)?,
            };
            let result = SetResult::new(&self.task, &set.name, &found, &predictions);
            visit(set, &found, &predictions, &result)?;
            results.push(result);
        }
        Ok(results)
    }
}

/// Evaluates a checkpoint of `run` on the dev and test sets of its task, or of another one.
pub(crate) fn run(run: &Path, options: Options<'_>) -> anyhow::Result<()> {
    let store = remote_store::existing_path(run)?;
    let model = Model::open(run, &store, options.step)?;
    let (train, drawn) = model.record.few_shot_split()?.map(|drawn| (drawn.train, drawn.dev)).unzip();
    let prompt = model.record.prompt_encoder(&model.tokenizer, train.as_deref().unwrap_or_default())?;
    let step = model.predictor.step();
    // The results of the run itself are those of its end: an evaluation of another checkpoint, or before the end, does
    // not replace them.
    let is_of_end = options.is_final || (options.step.is_none() && store.head(RESULTS)?.is_some());
    let target = match options.other {
        Some((name, folder)) => Target::other(&model.record, name, folder, &store)?,
        None if is_of_end => Target::of_run(&model.record, drawn, store.clone())?,
        None => Target::of_run(&model.record, drawn, store.prefixed(&format!("{EVALUATIONS}/step-{step}")))?,
    };
    let Target { task, place, .. } = &target;
    let sets = target.evaluate(&model, prompt.as_ref(), |set, found, predictions, result| {
        let file = predictions_file(task, found, predictions);
        place.put(&format!("{PREDICTIONS}/{}", predictions_name(task, set)), &file)?;
        if !options.json {
            let text = if result.metrics.is_empty() { "no labels".to_owned() } else { result.text() };
            line(format_args!("{}: {} examples: {text}", set.name, found.len()));
        }
        if let (Some(class), None) = (predictions.constant_class(), task.constant_prediction()) {
            let output = task.output();
            note(format_args!("warning: {}: every prediction is `{}`", set.name, output.labels()[class as usize]));
        }
        Ok(())
    })?;
    let newest =
        if is_of_end && options.other.is_none() { checkpoint::newest_complete_state(&store)?.step } else { step };
    let last = if newest == step {
        None
    } else {
        let model = Model::open(run, &store, Some(newest.0))?;
        let sets = target.evaluate(&model, prompt.as_ref(), |_, _, _, _| Ok(()))?;
        Some(LastResults { step: newest.0, sets })
    };
    if let Some(class) = task.constant_prediction() {
        let output = task.output();
        let label = &output.labels()[class as usize];
        note(format_args!("`{}`: every prediction is `{label}`; no model predicts this task", task.kind()));
    }
    let results = TaskResults { task: task.kind().to_owned(), step: step.0, sets, last };
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
    fn predict(&self, examples: &[Example], prompt: Option<&PromptEncoder>) -> anyhow::Result<Predictions> {
        let output = self.record.task.output();
        let encoder = RowEncoder { output: &output, tokenizer: &self.tokenizer, options: self.record.rows, prompt };
        // An example has many rows with demonstrations: their tokens are not kept.
        let each = if prompt.is_some() { self.micro_batch()? } else { examples.len().max(1) };
        let mut predicted = Vec::with_capacity(examples.len());
        for examples in examples.chunks(each) {
            predicted.extend(self.predict_rows(examples, &encoder)?);
        }
        Ok(Predictions::new(&output, examples, &predicted))
    }

    /// Returns the rows of examples with their logits.
    fn predict_rows(&self, examples: &[Example], encoder: &RowEncoder<'_>) -> anyhow::Result<Vec<PredictedRows>> {
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
        let outputs = encoder.output.width();
        for it in &mut predicted {
            it.logits =
                it.rows.iter().zip(logits.by_ref()).map(|(row, logits)| row.kept(&logits, outputs).to_vec()).collect();
        }
        Ok(predicted)
    }

    fn micro_batch(&self) -> anyhow::Result<usize> {
        Ok(usize::try_from(self.plan.train().train.micro_batch_size)?)
    }

    /// Returns the logits of rows.
    fn logits(&self, rows: &[EncodedRow]) -> anyhow::Result<Vec<Vec<f64>>> {
        let view = self.record.view();
        let mut logits = Vec::with_capacity(rows.len());
        for rows in rows.chunks(self.micro_batch()?) {
            let batch = labelled::batch(rows, VIEW, &view, self.record.rows.max_seq_len, self.plan.vocab());
            logits.extend(self.predictor.scores(OBJECTIVE, &batch)?);
        }
        Ok(logits)
    }
}
