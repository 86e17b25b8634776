//! `cloze fill`: most probable words for each `[MASK]`, and those of a model without context.

use std::path::Path;
use std::sync::Arc;

use cloze::exit::Usage;
use cloze::model_folder::ModelFolder;
use cloze::plan::Plan;
use pipeline::tokenize::{self, Tokenizer as _};
use schemas::{Step, Vocab, printable};
use telemetry::terminal::{Paint, line, note, painted};
use trainer::training::{Filler, TokenGuess};
use trainer_plan::encoder::VocabFacts;
use trainer_plan::hf;

/// Model that fills in blanks, with its tokenizer.
struct Model {
    filler: Filler,
    tokenizer: tokenize::HfTokenizer,
    vocab: Arc<Vocab>,
    /// Whether the vocabulary has the counts of the training split.
    is_counted: bool,
}

/// Fills the masks of `texts` with the checkpoint of the run in `folder` after `step` (default: the newest), or with the
/// `transformers` model in it.
pub(crate) fn run(folder: &Path, step: Option<u64>, top: usize, texts: &[String]) -> anyhow::Result<()> {
    let model = match ModelFolder::detect(folder, "")? {
        ModelFolder::Run => of_run(folder, step)?,
        ModelFolder::Transformers => of_model(folder, step)?,
    };
    let Model { filler, tokenizer, vocab, is_counted } = &model;
    if let Some(step) = filler.step() {
        note(format_args!("{}: the checkpoint after step {step}", folder.display()));
    }
    let mut refused = 0;
    for (number, text) in (1..).zip(texts) {
        let guesses = match encode(tokenizer, vocab, text)?.map(|row| filler.predict(&row, top)) {
            Some(Ok(guesses)) => guesses,
            Some(Err(trainer_plan::Error::Config(problem))) => {
                note(format_args!("error: text {number}: {problem}"));
                refused += 1;
                continue;
            }
            Some(Err(error)) => return Err(error.into()),
            None => {
                note(format_args!("error: text {number}: `{}` has no [MASK]; write one", printable(text)));
                refused += 1;
                continue;
            }
        };
        painted(Paint::stdout().bold(printable(text)));
        for guesses in guesses {
            line(format_args!("  {}", describe(vocab, &guesses)));
        }
    }
    if *is_counted && refused < texts.len() {
        let unigram = most_frequent(vocab, top);
        painted(Paint::stdout().dim(format_args!("  without context: {}", describe(vocab, &unigram))));
    }
    if refused > 0 {
        return Err(Usage(format!("{refused} of {} texts cannot be filled", texts.len())).into());
    }
    Ok(())
}

fn of_run(run: &Path, step: Option<u64>) -> anyhow::Result<Model> {
    let plan = Plan::of_run(run)?;
    let tokenizer = plan.tokenizer()?;
    let filler = Filler::open(plan.train(), &remote_store::existing_path(run)?, step.map(Step))?;
    Ok(Model { filler, tokenizer, vocab: Arc::clone(plan.vocab()), is_counted: true })
}

fn of_model(folder: &Path, step: Option<u64>) -> anyhow::Result<Model> {
    if step.is_some() {
        return Err(Usage(format!("--step: {} is a model, which has no steps; name a run", folder.display())).into());
    }
    let tokenizer = tokenize::load_from_model(folder)?;
    let facts = tokenizer.facts();
    let size = facts.manifest.vocab_size;
    let vocab = VocabFacts { size, special: facts.special(), unigram_log_probabilities: Vec::new() };
    let filler = Filler::of_model(&hf::inference_plan(folder, vocab)?)?;
    let vocab = Arc::new(facts.vocab(vec![0; facts.tokens.len()]));
    Ok(Model { filler, tokenizer, vocab, is_counted: false })
}

/// Returns the ids of `[CLS]`, the text and `[SEP]`. `None` if no mask is among them.
fn encode(tokenizer: &tokenize::HfTokenizer, vocab: &Vocab, text: &str) -> anyhow::Result<Option<Vec<u32>>> {
    let special = vocab.special();
    let mask = vocab.token(special.mask);
    let mut ids = vec![special.cls];
    // Tokenizers of other families may spell the mask differently; users write [MASK].
    tokenizer.encode(&text.replace("[MASK]", mask), &mut |piece| {
        ids.extend_from_slice(piece);
        Ok(())
    })?;
    ids.push(special.sep);
    Ok(ids.contains(&special.mask).then_some(ids))
}

/// Returns the most frequent ids of the training split.
fn most_frequent(vocab: &Vocab, top: usize) -> Vec<TokenGuess> {
    let total: u64 = vocab.counts().iter().sum();
    let mut ranked: Vec<(u64, u32)> = vocab.counts().iter().copied().zip(0..).collect();
    ranked.sort_unstable_by(|a, b| b.cmp(a));
    ranked.into_iter().take(top).map(|(count, id)| (id, count as f64 / total.max(1) as f64)).collect()
}

fn describe(vocab: &Vocab, guesses: &[TokenGuess]) -> String {
    let word = |&(id, probability): &TokenGuess| format!("{} {}", printable(vocab.token(id)), percent(probability));
    guesses.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// Formats a probability with at least two digits.
fn percent(probability: f64) -> String {
    match 100.0 * probability {
        large if large >= 0.95 => format!("{large:.1} %"),
        small if small >= 0.095 => format!("{small:.2} %"),
        small if small >= 0.0095 => format!("{small:.3} %"),
        _ => "< 0.01 %".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn no_probability_is_shown_as_zero() {
        let shown = [1.0, 0.125, 0.009_54, 0.001_23, 0.000_123, 1e-9].map(percent);
        assert_eq!(shown, ["100.0 %", "12.5 %", "1.0 %", "0.12 %", "0.012 %", "< 0.01 %"]);
    }
}
