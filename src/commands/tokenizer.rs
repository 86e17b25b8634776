//! `cloze tokenizer train`: trains a tokenizer.

use pipeline::tokenizer_training;
use telemetry::preparation::PrepareProgress;
use telemetry::quantities::count;
use telemetry::quantities::eta;
use telemetry::terminal::{Progress, note, outcome};

use crate::cli::ConfigArgs;
use crate::config::Parsed;
use crate::config::corpora::TokenizerCorpora;

/// Trains the tokenizer of `[tokenizer]` on the training split of `[prepare]`, or of all sources if it names no
/// corpus, and writes `prepare.tokenizer`.
pub fn train(args: &ConfigArgs) -> anyhow::Result<()> {
    let TokenizerCorpora { config, corpora } = Parsed::read(&args.config, &args.set)?.into_tokenizer_corpora()?;
    let mut bar = None;
    let mut on_progress = |now: &PrepareProgress| {
        let suffix = suffix(now);
        let line = format!("counting words: {:.0} %  {suffix}{}", 100.0 * now.share(), eta(now.eta_s));
        bar.get_or_insert_with(|| Progress::new("counting words", now)).set_beside(now, suffix, line);
    };
    let trained = tokenizer_training::train_on(&config.tokenizer, &config.prepare, &corpora, &mut on_progress);
    bar.iter().for_each(Progress::finish);
    let trained = trained?;
    for left_out in &trained.left_out {
        note(format_args!("warning: {left_out}"));
    }
    outcome(format_args!(
        "{}: {} ids from {} different words of {} documents",
        config.prepare.tokenizer.display(),
        count(u64::from(trained.vocab_size)),
        count(trained.words),
        count(trained.documents),
    ));
    Ok(())
}

/// Text next to the progress bar. There are no tokens yet.
fn suffix(now: &PrepareProgress) -> String {
    format!("{}/{} parts  {:.1} MB/s", now.parts, now.parts_total, now.text_bytes_per_s / 1e6)
}
