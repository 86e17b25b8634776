//! In-memory stand-in for a prepared folder, for plans of a run whose corpus is not prepared yet.
//!
//! No row of it is ever read. It has a vocabulary of the size that the configuration expects, and a corpus of many
//! shards, so that memory estimates hold for large corpora.

use pipeline::shard::synthetic::Synthetic;
use pipeline::tokenize::{self, Tokenizer as _};
use schemas::manifest::{self, Shard};
use store::{FaultConfig, Store};

use crate::config::Config;
use crate::run::data::{ExpectedTokenizer, PreparedData};

/// Number of shards of the training split: 8 M rows, more than any shuffle window holds.
const SHARDS: u16 = 500;

/// Minimum vocabulary size. Lower ids are BERT's special tokens and the range between them.
const IDS_MIN: u32 = 256;

/// Number of rows of a row group.
const GROUP: u32 = 2048;

/// Returns the expected tokenizer: the tokenizer itself if it exists, else `[expects]`, else the tokenizer that
/// `cloze tokenizer train` would train.
fn ids(config: &Config) -> ExpectedTokenizer {
    let prepare = &config.prepare;
    if let Ok(tokenizer) = tokenize::load(&prepare.tokenizer, prepare.lowercase) {
        let facts = &tokenizer.facts().manifest;
        return ExpectedTokenizer {
            vocab_size: facts.vocab_size,
            lowercase: facts.lowercase,
            says: "prepare.tokenizer",
        };
    }
    let expects = &config.expects;
    let lowercase = expects.cased.map(|cased| !cased).or(prepare.lowercase).unwrap_or(config.tokenizer.lowercase);
    match expects.vocab_size {
        Some(vocab_size) => ExpectedTokenizer { vocab_size, lowercase, says: "expects.vocab_size" },
        None => ExpectedTokenizer { vocab_size: config.tokenizer.vocab_size, lowercase, says: "tokenizer.vocab_size" },
    }
}

/// Builds the stand-in data for a configuration.
pub(super) fn data(config: &Config) -> pipeline::Result<PreparedData> {
    let ids = ids(config);
    let prepare = &config.prepare;
    let max_seq_len = prepare.max_seq_len.clamp(prepare.packing.tokens_min().max(4), 32_767);
    let vocab_size = ids.vocab_size.clamp(IDS_MIN, 1 << 24);
    let content = prepare.packing.content(max_seq_len);
    let synthetic = Synthetic {
        vocab_size,
        ids: 104..vocab_size,
        max_seq_len,
        lengths: content..content + 1,
        pack: prepare.packing.clone(),
        train_rows: 1,
        valid_rows: u64::from(prepare.valid_fraction > 0.0),
        ..Synthetic::default()
    };
    let store = Store::in_memory(FaultConfig::none());
    let mut folder = synthetic.write(&store)?;
    folder.tokenizer.lowercase = ids.lowercase;
    let part = &mut folder.dataset_versions[0].parts[0];
    for (shards, count) in [(&mut part.train, SHARDS), (&mut part.valid, 1)] {
        let Some(shard) = shards.pop() else { continue };
        *shards = (0..count).map(|number| large(&shard, number, content)).collect();
    }
    store.put(manifest::NAME, &folder.to_json())?;
    PreparedData::expected(&store, config, &ids)
}

/// Creates a shard with the properties of `shard` and eight row groups.
fn large(shard: &Shard, number: u16, content: u32) -> Shard {
    let rows = 8 * GROUP;
    Shard {
        path: format!("{number}-{}", shard.path),
        first_row: u32::from(number) * rows,
        rows: rows.into(),
        tokens: u64::from(rows) * u64::from(content),
        groups: vec![GROUP; 8],
        ..shard.clone()
    }
}
