//! `cloze fill`: the best words for each `[MASK]`, next to what a model without context would say.

use std::path::Path;

use cloze::exit::Usage;
use cloze::plan::Plan;
use pipeline::load;
use pipeline::tokenize::{self, Tokenizer as _};
use schemas::{Vocab, manifest, printable};
use store::Store;
use telemetry::terminal::{Paint, line, painted};
use trainer::training::{Filler, Guess};

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
            line(format_args!("  {}", words(vocab, &guesses)));
        }
    }
    painted(Paint::stdout().dim(format_args!("  without context: {}", words(vocab, &unigram))));
    Ok(())
}

/// `[CLS]`, the text, `[SEP]`.
fn encode(tokenizer: &tokenize::HfTokenizer, vocab: &Vocab, text: &str) -> anyhow::Result<Vec<u32>> {
    let special = vocab.special();
    let mask = vocab.token(special.mask);
    let mut ids = vec![special.cls];
    // A tokenizer of another family may spell its mask in its own way; people write [MASK].
    tokenizer.encode(&text.replace("[MASK]", mask), &mut |piece| {
        ids.extend_from_slice(piece);
        Ok(())
    })?;
    ids.push(special.sep);
    if ids.contains(&special.mask) {
        Ok(ids)
    } else {
        Err(Usage(format!("there is nothing to fill in: write [MASK] somewhere in `{text}`")).into())
    }
}

/// The ids that are most frequent in the training split.
fn most_frequent(vocab: &Vocab, top: usize) -> Vec<Guess> {
    let total: u64 = vocab.counts().iter().sum();
    let mut ranked: Vec<(u64, u32)> = vocab.counts().iter().copied().zip(0..).collect();
    ranked.sort_unstable_by(|a, b| b.cmp(a));
    ranked.into_iter().take(top).map(|(count, id)| (id, count as f64 / total.max(1) as f64)).collect()
}

fn words(vocab: &Vocab, guesses: &[Guess]) -> String {
    let word = |&(id, probability): &Guess| format!("{} {:.1} %", printable(vocab.token(id)), 100.0 * probability);
    guesses.iter().map(word).collect::<Vec<_>>().join(", ")
}
