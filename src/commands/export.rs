//! `cloze export`: a checkpoint as a folder that `transformers` loads.

mod staged;

use std::path::Path;

use pipeline::load;
use pipeline::views::AnyView;
use schemas::columns::TOKEN_TYPES;
use schemas::{Step, manifest};
use serde_json::json;
use store::Store;
use trainer::hf;
use trainer::hf::Architecture;
use trainer::training::checkpoint;

use self::staged::{Staged, TOKENIZER_CONFIG};
use crate::cli::ModelFamily;
use crate::exit::Usage;
use crate::plan::Plan;
use crate::terminal::{note, told};

/// Writes the weights after `step` (the newest, if left out) of `run` to `out`, with the tokenizer.
pub(crate) fn run(run: &Path, out: &Path, step: Option<u64>, family: ModelFamily) -> anyhow::Result<()> {
    let plan = Plan::of_run(run)?;
    let architecture = match family {
        ModelFamily::Bert => Architecture::Bert,
        ModelFamily::Roberta => Architecture::Roberta,
        ModelFamily::Electra => Architecture::Electra,
    };
    check_segments(&plan, family)?;
    let staged = Staged::beside(out)?;
    let (from, snapshot) = checkpoint::pick(&Store::existing(run)?, step.map(Step))?;
    let data = plan.data();
    let tokenizer = load::read_tokenizer(&data.store, &data.manifest)?;
    let model = Store::folder(staged.path())?;
    model.put(manifest::TOKENIZER, &tokenizer)?;
    model.put(TOKENIZER_CONFIG, tokenizer_config(&plan, family).as_bytes())?;
    let class = hf::export(&snapshot.main, plan.train(), architecture, &model)?;
    let published = staged.publish()?;
    if published.replaced {
        note(format_args!("{}: replaced the model that was there", out.display()));
    }
    for left in published.left {
        note(format_args!("warning: what it replaced could not be removed: {left}"));
    }
    told(format_args!(
        "{}: step {} of {from}; load it with `{class}.from_pretrained(\"{}\")`",
        out.display(),
        snapshot.state.step,
        out.display()
    ));
    Ok(())
}

/// A model with one token type cannot say what one that was trained on two says.
fn check_segments(plan: &Plan, family: ModelFamily) -> anyhow::Result<()> {
    let makes_segments = |view: &AnyView| view.columns().contains(&TOKEN_TYPES.spec());
    let view = plan.config().views.iter().find(|(_, view)| makes_segments(view));
    if let (ModelFamily::Roberta, Some((name, _))) = (family, view) {
        return Err(Usage(format!(
            "rows of view `{name}` have two segments, a RoBERTa knows one: export the run `--as bert`"
        ))
        .into());
    }
    Ok(())
}

/// What `AutoTokenizer` needs beside `tokenizer.json`.
fn tokenizer_config(plan: &Plan, family: ModelFamily) -> String {
    let (vocab, special) = (plan.vocab(), plan.vocab().special());
    let mut config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": plan.train().encoder.positions,
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
        // Without this, `token_type_ids` of pairs point past its table.
        config["model_input_names"] = json!(["input_ids", "attention_mask"]);
    }
    format!("{config:#}\n")
}
