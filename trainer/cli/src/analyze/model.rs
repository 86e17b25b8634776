//! Checkpoint as an analysis sees it.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use analysis::{EncoderModel, Error, MaskedRow, ModelFacts, ObjectiveMetric, Vectors};
use cloze::model_folder::ModelFolder;
use cloze::plan::Plan;
use pipeline::tokenize::{self, HfTokenizer, Tokenizer as _};
use schemas::{Step, Vocab};
use store::Store;
use telemetry::terminal::note;
use trainer::training::Inspector;
use trainer_plan::TrainPlan;
use trainer_plan::encoder::VocabFacts;
use trainer_plan::hf;
use trainer_plan::metric_name::MetricName;

/// Tokens of the frame of a row.
const FRAME: usize = 2;

/// Interval of the lines about progress within a checkpoint.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// Run or model without its weights.
pub(super) struct ModelSource {
    folder: PathBuf,
    tokenizer: HfTokenizer,
    vocab: Arc<Vocab>,
    train: TrainPlan,
    plan: Option<Plan>,
    predicts_tokens: bool,
}

impl ModelSource {
    /// Opens a run of `cloze`, or the folder of a `transformers` model.
    pub(super) fn open(folder: &Path) -> anyhow::Result<Self> {
        let folder = folder.to_owned();
        if ModelFolder::detect(&folder, "")? == ModelFolder::Run {
            let plan = Plan::of_run(&folder)?;
            let tokenizer = plan.tokenizer()?;
            let vocab = Arc::clone(plan.vocab());
            return Ok(Self {
                folder,
                tokenizer,
                vocab,
                train: plan.train().clone(),
                plan: Some(plan),
                predicts_tokens: true,
            });
        }
        let tokenizer = tokenize::load_from_model(&folder)?;
        let facts = tokenizer.facts();
        let size = facts.manifest.vocab_size;
        let of_plan = VocabFacts { size, special: facts.special(), unigram_log_probabilities: Vec::new() };
        let train = hf::encoder_plan(&folder, of_plan)?;
        let vocab = Arc::new(facts.vocab(vec![0; facts.tokens.len()]));
        let predicts_tokens = hf::read_config(&folder).is_ok_and(|config| config.predicts_tokens());
        Ok(Self { folder, tokenizer, vocab, train, plan: None, predicts_tokens })
    }

    pub(super) fn is_run(&self) -> bool {
        self.plan.is_some()
    }

    pub(super) fn tokenizer(&self) -> &HfTokenizer {
        &self.tokenizer
    }

    /// Returns the number of tokens of the longest row, without its frame.
    pub(super) fn max_tokens(&self) -> usize {
        self.train.encoder.max_positions as usize - FRAME
    }
}

/// Weights of a checkpoint.
pub(super) struct CheckpointModel<'a> {
    source: &'a ModelSource,
    inspector: Inspector,
    facts: ModelFacts,
    reported: Cell<Instant>,
}

impl<'a> CheckpointModel<'a> {
    /// Loads the checkpoint of a run after `step`, or a model without steps.
    pub(super) fn load(source: &'a ModelSource, step: Option<u64>) -> anyhow::Result<Self> {
        let inspector = match step {
            Some(step) => Inspector::open(&source.train, &Store::existing(&source.folder)?, Step(step))?,
            None => Inspector::of_model(&source.train)?,
        };
        let layers = source.train.encoder.layers as usize;
        let facts = ModelFacts { layers, max_tokens: source.max_tokens(), vocab: Arc::clone(&source.vocab) };
        Ok(Self { source, inspector, facts, reported: Cell::new(Instant::now()) })
    }
}

impl EncoderModel for CheckpointModel<'_> {
    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn report_progress(&self, done: usize, total: usize) {
        if self.reported.get().elapsed() >= PROGRESS_EVERY {
            self.reported.set(Instant::now());
            note(format_args!("analyze: {}: {done} of {total} rows", self.source.folder.display()));
        }
    }

    fn encode(
        &self,
        rows: &[&[u32]],
        layers: &[usize],
        visit: &mut dyn FnMut(usize, Vec<Vectors>),
    ) -> Result<(), Error> {
        let rows: Vec<Vec<u32>> = rows.iter().map(|row| self.facts.framed(row)).collect();
        let visit = &mut |row, found: Vec<Vectors>| {
            self.report_progress(row, rows.len());
            visit(row, found);
        };
        self.inspector.encode(&rows, layers, visit).map_err(Error::model)
    }

    fn word_vectors(&self, ids: &[u32]) -> Result<Vectors, Error> {
        self.inspector.word_vectors(ids).map_err(Error::model)
    }

    fn gradient(&self, row: &MaskedRow, parameters: &str) -> Result<Vec<f32>, Error> {
        if !self.source.predicts_tokens {
            let model = self.source.folder.display();
            return Err(Error::Usage(format!(
                "{model}: the model predicts no tokens; name one with a prediction head"
            )));
        }
        let mask = self.source.vocab.special().mask;
        let mut ids = row.ids.clone();
        let targets: Vec<u32> = row.positions.iter().map(|&at| row.ids[at]).collect();
        row.positions.iter().for_each(|&at| ids[at] = mask);
        // `[CLS]` is the first token.
        let positions: Vec<usize> = row.positions.iter().map(|at| at + 1).collect();
        let matches = |name: &str| matches_pattern(parameters, name);
        let found = self.inspector.gradient(&self.facts.framed(&ids), &positions, &targets, &matches);
        found.map_err(|error| match error {
            trainer_plan::Error::Config(problem) => Error::Usage(format!("--params {parameters}: {problem}")),
            error => Error::model(error),
        })
    }

    fn objective_metrics(&self, rows: &[&[u32]], seed: u64) -> Result<Vec<ObjectiveMetric>, Error> {
        let Some(plan) = &self.source.plan else {
            let model = self.source.folder.display();
            return Err(Error::Usage(format!("{model}: a model has no objectives; name a run")));
        };
        let size = usize::try_from(plan.train().train.micro_batch_size).unwrap_or(1);
        let batches = rows.chunks(size).zip((0..).step_by(size));
        let batches = batches.map(|(rows, first)| plan.load().text_batch(rows, first, seed));
        let batches = batches.collect::<Result<Vec<_>, _>>().map_err(|error| Error::Usage(error.to_string()))?;
        let found = self.inspector.metrics(batches).map_err(Error::model)?;
        let metric = |(name, value): (MetricName, f64)| {
            let metric = if name.part.is_empty() { "loss".to_owned() } else { name.part };
            ObjectiveMetric { objective: name.objective, metric, value }
        };
        Ok(found.into_iter().map(metric).collect())
    }
}

/// Returns whether a name matches a pattern, in which `*` stands for any characters.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches_pattern;

    #[test]
    fn a_star_stands_for_any_characters() {
        let name = "encoder.layers.1.norm.weight";
        for pattern in
            ["encoder.layers.*", "*", name, "*.norm.*", "enc*layers*weight", "*weight", "encoder.layers.1.norm.weight*"]
        {
            assert!(matches_pattern(pattern, name), "{pattern}");
        }
        for pattern in
            ["", "encoder.layers", "*bias", "layers.*", "*.norm.*.x", "encoder.layers.1.norm.weight.*", "*1*1*"]
        {
            assert!(!matches_pattern(pattern, name), "{pattern}");
        }
    }
}
