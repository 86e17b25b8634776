//! `cloze tokenizer train`.

use pipeline::tokenizer_training;
use telemetry::preparation::PrepareProgress;
use telemetry::quantities::count;
use telemetry::quantities::eta;
use telemetry::terminal::{Progress, note, told};

use crate::cli::ConfigArgs;
use crate::config::Parsed;

/// Trains the tokenizer of `[tokenizer]` on the training split of `[prepare]`, and writes `prepare.tokenizer`.
pub fn train(args: &ConfigArgs) -> anyhow::Result<()> {
    let config = Parsed::read(&args.config, &args.set)?.into_corpus()?;
    let mut bar = None;
    let mut hears = |now: &PrepareProgress| {
        let beside = beside(now);
        let line = format!("counting words: {:.0} %  {beside}{}", 100.0 * now.share(), eta(now.eta_s));
        bar.get_or_insert_with(|| Progress::new("counting words", now)).set_beside(now, beside, line);
    };
    let trained = tokenizer_training::train(&config.tokenizer, &config.prepare, &mut hears);
    bar.iter().for_each(Progress::finish);
    let trained = trained?;
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

/// What stands next to a bar: no tokens, of which there are none yet.
fn beside(now: &PrepareProgress) -> String {
    format!("{}/{} parts  {:.1} MB/s", now.parts, now.parts_total, now.text_bytes_per_s / 1e6)
}
