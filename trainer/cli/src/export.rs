//! `cloze export`: writes a checkpoint as a folder that `transformers` loads.

mod model_card;
mod staged;
mod swapped_ids;
mod usage;

use std::path::Path;

use cloze::cli;
use cloze::exit::Usage;
use cloze::finetune::{TaskRecord, chosen_step};
use cloze::plan::Plan;
use cloze::plan::training::{export_choice, view_with_segments};
use pipeline::load;
use pipeline::tokenize::{Framing, TOKENIZER_CONFIG, tokenizer_config, with_framing};
use schemas::{Vocab, manifest};
use store::Store;
use telemetry::terminal::{note, outcome};
use trainer::device::tensors::HostTensors;
use trainer::hf;
use trainer::training::checkpoint;
use trainer_plan::TrainPlan;
use trainer_plan::config::ModelFamily;
use trainer_plan::hf::ExportChoice;

use self::model_card::ModelCard;
use self::staged::{CARD, Staged, VOCAB};
use self::swapped_ids::SwappedIds;

/// Options of an export.
pub(crate) struct Options<'a> {
    /// Folder to write.
    pub(crate) out: &'a Path,
    /// Step of the checkpoint; that of [`chosen_step`] by default.
    pub(crate) step: Option<u64>,
    /// Model family; the best for the run by default.
    pub(crate) family: Option<cli::ExportFamily>,
    /// Network of the run.
    pub(crate) network: &'a str,
}

/// Writes the weights of a network of `run` with the tokenizer.
pub(crate) fn run(run: &Path, options: &Options<'_>) -> anyhow::Result<()> {
    let &Options { out, step, family, network } = options;
    let plan = Plan::of_run(run)?;
    let model = Model::new(&plan, network, family.map(Into::into))?;
    let staged = Staged::new(out)?;
    let checkpoints = remote_store::existing_path(run)?;
    let (from, snapshot) = checkpoint::pick(&checkpoints, chosen_step(&plan, &checkpoints, step)?)?;
    let folder = Store::folder(staged.path())?;
    model.put(&snapshot.main, &folder)?;
    let card = ModelCard { plan: &plan, run, step: snapshot.state.step, state: &snapshot.state, choice: &model.choice };
    folder.put(CARD, card.text()?.as_bytes())?;
    let published = staged.publish()?;
    if published.replaced {
        note(format_args!("{}: replaced the model that was there", out.display()));
    }
    for left in published.left {
        note(format_args!("warning: cannot remove the replaced export: {left}"));
    }
    outcome(format_args!(
        "{}: `{}` after step {} of {from}; load it with `{}`",
        out.display(),
        model.choice.class,
        snapshot.state.step,
        model.choice.load_expression(&model.choice.loader(), &out.display().to_string())
    ));
    Ok(())
}

/// Model without its weights.
pub(super) struct Model {
    plan: TrainPlan,
    choice: ExportChoice,
    tokenizer: Vec<u8>,
    tokenizer_config: String,
    /// Content of `vocab.txt`, for a WordPiece tokenizer.
    vocab_txt: Option<String>,
}

impl Model {
    /// Returns the common part of all models of a network.
    pub(super) fn new(plan: &Plan, network: &str, family: Option<ModelFamily>) -> anyhow::Result<Self> {
        let choice = export_choice(plan.config(), plan.train(), network, family);
        let mut choice = choice.map_err(|error| Usage(error.to_string()))?;
        let data = plan.data();
        let task = TaskRecord::find(&data.store)?;
        if let Some(record) = &task {
            choice.labels = record.task.output().labels().to_vec();
        }
        let vocab = plan.vocab();
        let info = &data.manifest.tokenizer;
        let tokenizer = load::read_tokenizer(&data.store, &data.manifest)?;
        let tokenizer = with_framing(tokenizer, info, framing(plan, task.as_ref()))?;
        let pad = vocab.special().pad;
        let ids = SwappedIds { pad, exported: choice.family.exported_pad(pad) };
        let tokenizer = ids.in_tokenizer(tokenizer)?;
        let length = plan.train().encoder.max_positions;
        // Segments of pairs are outside of the table of RoBERTa. MPNet has none.
        let reads_token_types = !matches!(choice.family, ModelFamily::Roberta | ModelFamily::Mpnet);
        let tokenizer_config = tokenizer_config(info, &tokenizer, |id| vocab.token(id), length, reads_token_types);
        let is_wordpiece = info.kind == "wordpiece";
        let vocab_txt = vocab_txt(vocab, ids).filter(|_| is_wordpiece);
        Ok(Self { plan: plan.train().clone(), choice, tokenizer, tokenizer_config, vocab_txt })
    }

    /// Writes the model with these weights. `config.json` is last: a folder with it is complete.
    pub(super) fn put(&self, weights: &HostTensors, folder: &Store) -> Result<(), trainer_plan::Error> {
        folder.put(manifest::TOKENIZER, &self.tokenizer)?;
        folder.put(TOKENIZER_CONFIG, self.tokenizer_config.as_bytes())?;
        if let Some(vocab) = &self.vocab_txt {
            folder.put(VOCAB, vocab.as_bytes())?;
        }
        hf::export(weights, &self.plan, &self.choice, folder)
    }
}

/// Returns the tokens of a vocabulary, one per line in the order of the ids. None if a token has a line break.
fn vocab_txt(vocab: &Vocab, ids: SwappedIds) -> Option<String> {
    let tokens = || (0..vocab.size()).map(|id| vocab.token(ids.exchange(id)));
    let is_broken = tokens().any(|token| token.contains(['\n', '\r']));
    (!is_broken).then(|| tokens().flat_map(|token| [token, "\n"]).collect())
}

/// Returns the framing of the rows of a run: that of its labelled examples, or that of rows with two segments.
fn framing(plan: &Plan, task: Option<&TaskRecord>) -> Framing {
    let vocab = plan.vocab();
    match task {
        Some(record) if record.rows.separators == 2 => Framing::ROBERTA,
        Some(_) => Framing::BERT,
        None if view_with_segments(plan.config()).is_some() => Framing::BERT,
        None => Framing::usual(vocab.token(vocab.special().cls)),
    }
}
