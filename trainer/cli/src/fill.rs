//! `cloze fill`: most probable words for each `[MASK]`, and those of a model without context.

use std::path::Path;

use cloze::exit::Usage;
use cloze::plan::Plan;
use pipeline::load;
use pipeline::tokenize::{self, Tokenizer as _};
use schemas::{Vocab, manifest, printable};
use store::Store;
use telemetry::terminal::{Paint, line, painted};
use trainer::training::{Filler, TokenGuess};

/// Fills the masks of `texts` with the newest checkpoint of `run`.
pub(crate) fn run(run: &Path, top: usize, texts: &[String]) -> anyhow::Result<()> {
    let plan = Plan::of_run(run)?;
    let data = plan.data();
    let json = load::read_tokenizer(&data.store, &data.manifest)?;
    let tokenizer = tokenize::of_json(&json, &data.store.place(manifest::TOKENIZER))?;
    let vocab = plan.vocab();
    let rows = texts.iter().map(|text| encode(&tokenizer, vocab, text)).collect::<anyhow::Result<Vec<_>>>()?;
    let filler = Filler::open(plan.train(), &Store::existing(run)?, None)?;
    let unigram = most_frequent(vocab, top);
    for (text, row) in texts.iter().zip(&rows) {
        painted(Paint::stdout().bold(printable(text)));
        for guesses in filler.predict(row, top)? {
            line(format_args!("  {}", describe(vocab, &guesses)));
        }
    }
    painted(Paint::stdout().dim(format_args!("  without context: {}", describe(vocab, &unigram))));
    Ok(())
}

/// Returns the ids of `[CLS]`, the text and `[SEP]`.
fn encode(tokenizer: &tokenize::HfTokenizer, vocab: &Vocab, text: &str) -> anyhow::Result<Vec<u32>> {
    let special = vocab.special();
    let mask = vocab.token(special.mask);
    let mut ids = vec![special.cls];
    // Tokenizers of other families may spell the mask differently; users write [MASK].
    tokenizer.encode(&text.replace("[MASK]", mask), &mut |piece| {
        ids.extend_from_slice(piece);
        Ok(())
    })?;
    ids.push(special.sep);
    if ids.contains(&special.mask) {
        Ok(ids)
    } else {
        Err(Usage(format!("nothing to fill in: `{text}` has no [MASK]; write one")).into())
    }
}

/// Returns the most frequent ids of the training split.
fn most_frequent(vocab: &Vocab, top: usize) -> Vec<TokenGuess> {
    let total: u64 = vocab.counts().iter().sum();
    let mut ranked: Vec<(u64, u32)> = vocab.counts().iter().copied().zip(0..).collect();
    ranked.sort_unstable_by(|a, b| b.cmp(a));
    ranked.into_iter().take(top).map(|(count, id)| (id, count as f64 / total.max(1) as f64)).collect()
}

fn describe(vocab: &Vocab, guesses: &[TokenGuess]) -> String {
    let word = |&(id, probability): &TokenGuess| format!("{} {:.1} %", printable(vocab.token(id)), 100.0 * probability);
    guesses.iter().map(word).collect::<Vec<_>>().join(", ")
}
