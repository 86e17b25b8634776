//! Equality of the merges with those of the crate.

use proptest::prelude::*;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::{AddedToken, Model};

use super::super::{Alphabet, Family};
use super::*;
use crate::prepare::PrepareConfig;

fn leading(config: &TokenizerConfig, words: &WordCounts) -> Vec<String> {
    super::super::leading(config, words, &Alphabet::new(config, words).kept)
}

/// Returns tokens by id and merges by rank from the crate's own trainer.
fn by_the_crate(config: &TokenizerConfig, words: &WordCounts) -> (Vec<String>, Vec<[String; 2]>) {
    tokenizers::utils::parallelism::set_parallelism(false);
    let special = leading(config, words).into_iter().map(|token| AddedToken::from(token, true)).collect();
    let mut builder = BpeTrainer::builder()
        .vocab_size(config.vocab_size as usize)
        .min_frequency(config.min_frequency)
        .show_progress(false)
        .limit_alphabet(0)
        .special_tokens(special);
    if !config.kind.prefix().is_empty() {
        builder = builder.continuing_subword_prefix(config.kind.prefix().to_owned());
    }
    let mut bpe = BPE::default();
    let counts = words.iter().map(|(word, count)| (word.into(), count)).collect();
    builder.build().do_train(&counts, &mut bpe).expect("trained");
    let ids: BTreeMap<u32, String> = Model::get_vocab(&bpe).into_iter().map(|(token, id)| (id, token)).collect();
    let merges = serde_json::to_value(&bpe).expect("JSON")["merges"].clone();
    (ids.into_values().collect(), serde_json::from_value(merges).expect("pairs"))
}

fn check(config: &TokenizerConfig, words: &WordCounts) {
    let budget = Budget::new(config, &PrepareConfig::default());
    let Merged { tokens, merges } = merge_pairs(config, words, leading(config, words), budget).expect("there is room");
    let (expected, merges_expected) = by_the_crate(config, words);
    let counts: Vec<_> = words.iter().collect();
    assert!(tokens == expected, "{counts:?}: {tokens:?}, and {expected:?} by the crate");
    assert!(merges == merges_expected, "{counts:?}: {merges:?}, and {merges_expected:?} by the crate");
}

fn families() -> impl Strategy<Value = TokenizerConfig> {
    (prop::sample::select(vec![Family::Wordpiece, Family::ByteBpe]), 0_u32..80, 0_u64..4, 1_usize..6).prop_map(
        |(kind, more, min_frequency, limit_alphabet)| {
            let vocab_size = if kind == Family::ByteBpe { 261 + more } else { 5 + 2 * 5 + more };
            TokenizerConfig { kind, vocab_size, min_frequency, limit_alphabet, ..TokenizerConfig::default() }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Few characters, so that pairs overlap, recur and are equally frequent.
    #[test]
    fn the_same_pairs_are_merged(config in families(), words in prop::collection::vec(("[a-e]{1,9}|[ab]{1,7}", 1_u64..9), 0..60)) {
        let mut tally = WordCounts::default();
        for (word, count) in &words {
            tally.add(word, *count);
        }
        check(&config, &tally);
    }
}

/// Long, distinct words have an unbounded number of pairs.
#[test]
fn pairs_that_no_memory_holds_are_refused() {
    let mut words = WordCounts::default();
    for number in 0..2000_u64 {
        words.add(&blake3::hash(&number.to_le_bytes()).to_hex(), 1);
    }
    let config = TokenizerConfig { vocab_size: 30_522, ..TokenizerConfig::default() };
    let merge = |max_memory_bytes| {
        let budget = Budget::new(&config, &PrepareConfig { max_memory_bytes, ..PrepareConfig::default() });
        merge_pairs(&config, &words, leading(&config, &words), budget).map(|merged| merged.tokens.len())
    };
    assert!(merge(1 << 30).expect("there is room") > 1000);
    let error = merge(words.held()).expect_err("there is none").to_string();
    assert!(error.contains("`prepare.max_memory_bytes = ") && error.contains("`tokenizer.sample`"), "{error}");
}
