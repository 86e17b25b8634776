//! A prepared folder as a configuration expects it, in memory: what can be said of a run before its corpus is prepared.
//!
//! Nobody reads a row of it. It promises a vocabulary of the size that the configuration takes for granted and a corpus of
//! many shards, so that what is said of memory holds for large ones.

use pipeline::shard::synthetic::Synthetic;
use pipeline::tokenize::{self, Tokenizer as _};
use schemas::manifest::{self, Shard};
use store::{FaultConfig, Store};

use crate::config::Config;
use crate::run::data::{Ids, PreparedData};

/// Shards of the training split: 8 M rows, more than any shuffle window holds.
const SHARDS: u16 = 500;

/// Ids below this are BERT's special ones and what lies between them.
const IDS_MIN: u32 = 256;

/// Rows of a row group.
const GROUP: u32 = 2048;

/// What is expected of the tokenizer: by the tokenizer itself, if it is there; else by `[expects]`; else by what
/// `cloze tokenizer train` would make.
fn ids(config: &Config) -> Ids {
    let prepare = &config.prepare;
    if let Ok(tokenizer) = tokenize::load(&prepare.tokenizer, prepare.lowercase) {
        let facts = &tokenizer.facts().manifest;
        return Ids { vocab_size: facts.vocab_size, lowercase: facts.lowercase, says: "prepare.tokenizer" };
    }
    let expects = &config.expects;
    let lowercase = expects.cased.map(|cased| !cased).or(prepare.lowercase).unwrap_or(config.tokenizer.lowercase);
    match expects.vocab_size {
        Some(vocab_size) => Ids { vocab_size, lowercase, says: "expects.vocab_size" },
        None => Ids { vocab_size: config.tokenizer.vocab_size, lowercase, says: "tokenizer.vocab_size" },
    }
}

/// The data in that folder.
pub(super) fn data(config: &Config) -> pipeline::Result<PreparedData> {
    let (ids, prepare) = (ids(config), &config.prepare);
    let max_seq_len = prepare.max_seq_len.clamp(prepare.packing.tokens_min().max(4), 32_767);
    let (vocab_size, content) = (ids.vocab_size.clamp(IDS_MIN, 1 << 24), prepare.packing.content(max_seq_len));
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
    let store = Store::memory(FaultConfig::calm());
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

/// A shard like that one, of eight row groups.
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
