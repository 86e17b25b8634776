//! `cloze export`: writes a checkpoint as a folder that `transformers` loads.

mod model_card;
mod staged;

use std::path::Path;

use cloze::cli;
use cloze::exit::Usage;
use cloze::plan::Plan;
use cloze::plan::training::export_problem;
use pipeline::load;
use schemas::{Step, Vocab, manifest};
use serde_json::json;
use store::Store;
use telemetry::terminal::{note, outcome};
use trainer::device::tensors::HostTensors;
use trainer::hf;
use trainer::training::checkpoint;
use trainer_plan::TrainPlan;
use trainer_plan::config::ModelFamily;

use self::model_card::ModelCard;
use self::staged::{CARD, Staged, TOKENIZER_CONFIG, VOCAB};

/// Writes the weights after `step` of `run` (default: the newest checkpoint) to `out`, with the tokenizer.
pub(crate) fn run(run: &Path, out: &Path, step: Option<u64>, family: Option<cli::ExportFamily>) -> anyhow::Result<()> {
    let plan = Plan::of_run(run)?;
    let family = family.map_or_else(|| trainer_plan::hf::default_family(plan.train()), Into::into);
    let model = Model::new(&plan, family)?;
    let staged = Staged::new(out)?;
    let (from, snapshot) = checkpoint::pick(&Store::existing(run)?, step.map(Step))?;
    let folder = Store::folder(staged.path())?;
    let class = model.put(&snapshot.main, &folder)?;
    let card = ModelCard { plan: &plan, run, step: snapshot.state.step, state: &snapshot.state, class };
    folder.put(CARD, card.text()?.as_bytes())?;
    let published = staged.publish()?;
    if published.replaced {
        note(format_args!("{}: replaced the model that was there", out.display()));
    }
    for left in published.left {
        note(format_args!("warning: cannot remove the replaced export: {left}"));
    }
    outcome(format_args!(
        "{}: step {} of {from}; load it with `{class}.from_pretrained(\"{}\")`",
        out.display(),
        snapshot.state.step,
        out.display()
    ));
    Ok(())
}

/// Model without its weights.
pub(super) struct Model {
    plan: TrainPlan,
    family: ModelFamily,
    tokenizer: Vec<u8>,
    tokenizer_config: String,
    /// Content of `vocab.txt`, for a WordPiece tokenizer.
    vocab_txt: Option<String>,
}

impl Model {
    /// Returns the common part of all models of a plan.
    pub(super) fn new(plan: &Plan, family: ModelFamily) -> anyhow::Result<Self> {
        if let Some(problem) = export_problem(plan.config(), plan.train(), family) {
            return Err(Usage(problem).into());
        }
        let data = plan.data();
        let tokenizer = load::read_tokenizer(&data.store, &data.manifest)?;
        let tokenizer_config = tokenizer_config(plan, family);
        let is_wordpiece = data.manifest.tokenizer.kind == "wordpiece";
        let vocab_txt = vocab_txt(plan.vocab()).filter(|_| is_wordpiece);
        Ok(Self { plan: plan.train().clone(), family, tokenizer, tokenizer_config, vocab_txt })
    }

    /// Writes the model with these weights. `config.json` is last: a folder with it is complete.
    pub(super) fn put(&self, weights: &HostTensors, folder: &Store) -> Result<&'static str, trainer_plan::Error> {
        folder.put(manifest::TOKENIZER, &self.tokenizer)?;
        folder.put(TOKENIZER_CONFIG, self.tokenizer_config.as_bytes())?;
        if let Some(vocab) = &self.vocab_txt {
            folder.put(VOCAB, vocab.as_bytes())?;
        }
        hf::export(weights, &self.plan, self.family, folder)
    }
}

/// Returns the tokens of a vocabulary, one per line in the order of the ids. None if a token has a line break.
fn vocab_txt(vocab: &Vocab) -> Option<String> {
    let tokens = || (0..vocab.size()).map(|id| vocab.token(id));
    let is_broken = tokens().any(|token| token.contains(['\n', '\r']));
    (!is_broken).then(|| tokens().flat_map(|token| [token, "\n"]).collect())
}

/// Returns the file that `AutoTokenizer` requires in addition to `tokenizer.json`.
fn tokenizer_config(plan: &Plan, family: ModelFamily) -> String {
    let vocab = plan.vocab();
    let special = plan.vocab().special();
    let mut config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": plan.train().encoder.max_positions,
        "do_lower_case": plan.data().manifest.tokenizer.lowercase,
        "pad_token": vocab.token(special.pad),
        "cls_token": vocab.token(special.cls),
        "sep_token": vocab.token(special.sep),
        "mask_token": vocab.token(special.mask),
    });
    if let Some(unk) = special.unk {
        config["unk_token"] = vocab.token(unk).into();
    }
    if family == ModelFamily::Roberta {
        // Without this, `token_type_ids` of pairs are outside of the table of RoBERTa.
        config["model_input_names"] = json!(["input_ids", "attention_mask"]);
    }
    format!("{config:#}\n")
}
