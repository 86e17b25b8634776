//! `cloze evaluate`: metrics and predictions of a fine-tuned run.

use std::path::Path;

use cloze::finetune::{
    OBJECTIVE, Predictions, SetResult, TaskRecord, TaskResults, VIEW, examples, labelled_text, predictions_file,
    predictions_name,
};
use cloze::plan::Plan;
use pipeline::labelled::{self, EncodedExample};
use pipeline::tokenize::HfTokenizer;
use schemas::Step;
use store::Store;
use tasks::Example;
use telemetry::terminal::{line, outcome};
use trainer::training::Predictor;

/// Files that are written into the run folder.
const RESULTS: &str = "results.json";
const PREDICTIONS: &str = "predictions";

/// Model with everything that its predictions need.
struct Model {
    plan: Plan,
    predictor: Predictor,
    tokenizer: HfTokenizer,
    record: TaskRecord,
}

/// Evaluates the checkpoint of `run` after `step` (default: the newest) on every set of its task.
pub(crate) fn run(run: &Path, step: Option<u64>, json: bool) -> anyhow::Result<()> {
    let store = Store::existing(run)?;
    let model = Model::open(run, &store, step)?;
    let mut sets = Vec::new();
    for set in model.record.sets()? {
        if set.purpose == tasks::task::SetPurpose::Train {
            continue;
        }
        let found = examples(&set, &model.record.folder, &model.record.task)?;
        let predictions = model.predict(&found)?;
        let result = SetResult::new(&model.record.task, &set.name, &found, &predictions);
        let file = predictions_file(&model.record.task, &found, &predictions);
        store.put(&format!("{PREDICTIONS}/{}", predictions_name(&set)), &file)?;
        if !json {
            let text = if result.metrics.is_empty() { "no labels".to_owned() } else { result.text() };
            line(format_args!("{}: {} examples: {text}", set.name, found.len()));
        }
        sets.push(result);
    }
    let task = model.record.task.kind().to_owned();
    let results = TaskResults { task, step: model.predictor.step().0, sets };
    let text = serde_json::to_string_pretty(&results)?;
    store.put(RESULTS, format!("{text}\n").as_bytes())?;
    if json {
        line(text);
    } else {
        outcome(format_args!("{}, {}", store.place(RESULTS), store.place(PREDICTIONS)));
    }
    Ok(())
}

impl Model {
    fn open(run: &Path, store: &Store, step: Option<u64>) -> anyhow::Result<Self> {
        let plan = Plan::of_run(run)?;
        let record = TaskRecord::read(&plan.data().store)?;
        let tokenizer = plan.tokenizer()?;
        let predictor = Predictor::open(plan.train(), store, step.map(Step))?;
        Ok(Self { plan, predictor, tokenizer, record })
    }

    /// Predicts the targets of examples, a micro-batch at a time.
    fn predict(&self, examples: &[Example]) -> anyhow::Result<Predictions> {
        let rows = usize::try_from(self.plan.train().train.micro_batch_size)?;
        let view = self.record.view();
        let mut logits = Vec::new();
        for examples in examples.chunks(rows) {
            let encode = |example: &Example| {
                EncodedExample::new(&labelled_text(example), &self.tokenizer, self.record.options())
            };
            let encoded = examples.iter().map(encode).collect::<Result<Vec<_>, _>>()?;
            let width = self.record.max_seq_len;
            let batch = labelled::batch(&encoded, VIEW, &view, width, self.plan.vocab());
            logits.extend(self.predictor.scores(OBJECTIVE, &batch)?);
        }
        Ok(Predictions::of_logits(&self.record.task.output(), &logits))
    }
}
