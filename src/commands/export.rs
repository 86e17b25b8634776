//! `cloze export`: a checkpoint as a folder that `transformers` loads.

use std::path::Path;

use anyhow::Context as _;
use schemas::Step;
use schemas::atomic::Folder;
use serde_json::json;
use trainer::{checkpoint, hf};

use crate::plan::Plan;
use crate::terminal::line;

/// Writes the weights after `step` (the newest, if left out) of `run` to `out`, with the tokenizer.
pub(crate) fn run(run: &Path, out: &Path, step: Option<u64>) -> anyhow::Result<()> {
    let plan = Plan::of_run(run)?;
    let (from, snapshot) = checkpoint::pick(run, step.map(Step))?;
    let source = plan.config().data.folder.join("tokenizer.json");
    let tokenizer = std::fs::read(&source).with_context(|| format!("cannot read {}", source.display()))?;
    let folder = Folder::create(out)?;
    folder.write("tokenizer.json", &tokenizer)?;
    folder.write("tokenizer_config.json", tokenizer_config(&plan).as_bytes())?;
    hf::export(&snapshot.main, &plan.train().encoder, &plan.train().vocab, &folder)?;
    line(format_args!(
        "{}: step {} of {}; load it with `BertForMaskedLM.from_pretrained(\"{}\")`",
        out.display(),
        snapshot.state.step,
        from.display(),
        out.display()
    ));
    Ok(())
}

/// What `AutoTokenizer` needs beside `tokenizer.json`.
fn tokenizer_config(plan: &Plan) -> String {
    let (vocab, special) = (plan.vocab(), plan.vocab().special());
    let mut config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": plan.train().encoder.positions,
        "do_lower_case": plan.manifest().tokenizer.lowercase,
        "pad_token": vocab.token(special.pad),
        "cls_token": vocab.token(special.cls),
        "sep_token": vocab.token(special.sep),
        "mask_token": vocab.token(special.mask),
    });
    if let Some(unk) = special.unk {
        config["unk_token"] = vocab.token(unk).into();
    }
    format!("{config:#}\n")
}
