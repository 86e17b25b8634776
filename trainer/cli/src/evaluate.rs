//! `cloze evaluate`: metrics and predictions of a fine-tuned run.

use std::path::Path;

use cloze::finetune::{
    OBJECTIVE, PREDICTIONS, PredictedRows, Predictions, RESULTS, RowEncoder, SetResult, TaskRecord, TaskResults, VIEW,
    examples, predictions_file, predictions_name,
};
use cloze::plan::Plan;
use pipeline::labelled::{self, EncodedRow};
use pipeline::tokenize::{HfTokenizer, Tokenizer as _};
use schemas::Step;
use store::Store;
use tasks::Example;
use telemetry::terminal::{line, outcome};
use trainer::training::Predictor;

/// Widths of micro-batches are multiples of it.
const WIDTH_STEP: u32 = 8;

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
        store.put(&format!("{PREDICTIONS}/{}", predictions_name(&model.record.task, &set)), &file)?;
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

    /// Returns the logits of rows. Each micro-batch is as wide as its longest row.
    fn logits(&self, rows: &[EncodedRow]) -> anyhow::Result<Vec<Vec<f64>>> {
        let view = self.record.view();
        let mut logits = Vec::with_capacity(rows.len());
        for rows in rows.chunks(usize::try_from(self.plan.train().train.micro_batch_size)?) {
            let longest = rows.iter().map(EncodedRow::width).max().unwrap_or(0);
            let width = longest.next_multiple_of(WIDTH_STEP).min(self.record.rows.max_seq_len);
            let batch = labelled::batch(rows, VIEW, &view, width, self.plan.vocab());
            logits.extend(self.predictor.scores(OBJECTIVE, &batch)?);
        }
        Ok(logits)
    }
}
