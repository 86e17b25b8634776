//! `cloze tokenizer train`.

use pipeline::tokenizer_training;

use crate::cli::ConfigArgs;
use crate::config::Parsed;
use crate::terminal::{count, note, told};

/// Trains the tokenizer of `[tokenizer]` on the training split of `[prepare]`, and writes `prepare.tokenizer`.
pub(crate) fn train(args: &ConfigArgs) -> anyhow::Result<()> {
    let config = Parsed::read(&args.config, &args.set)?.into_corpus()?;
    let trained = tokenizer_training::train(&config.tokenizer, &config.prepare)?;
    for left_out in &trained.left_out {
        note(format_args!("warning: {left_out}"));
    }
    told(format_args!(
        "{}: {} ids from {} different words of {} documents",
        config.prepare.tokenizer.display(),
        count(u64::from(trained.vocab_size)),
        count(trained.words),
        count(trained.documents),
    ));
    Ok(())
}
