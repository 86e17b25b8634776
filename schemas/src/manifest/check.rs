//! Consistency checks of a manifest that its checksum does not cover.

use std::collections::BTreeSet;

use super::{Manifest, PartEntry, ROWS_PER_GROUP, TokenizerInfo};

impl Manifest {
    /// Checks that numbers are in range and that the lists match one another.
    pub(super) fn check(&self) -> Result<(), String> {
        self.tokenizer.check()?;
        let content = self.pack.content;
        if !(1..=ROW_TOKENS_MAX).contains(&content) || content > self.max_seq_len {
            return Err(format!("samples of {content} tokens for rows of {}", self.max_seq_len));
        }
        if self.dataset_versions.is_empty() {
            return Err("it has no dataset version".into());
        }
        let mut known = BTreeSet::new();
        let mut gone = BTreeSet::new();
        for (number, entry) in self.dataset_versions.iter().enumerate() {
            for id in &entry.dropped {
                if !known.contains(id) || !gone.insert(*id) {
                    return Err(format!("dataset version {number} drops part {id}, which is not there"));
                }
            }
            for part in &entry.parts {
                if !known.insert(part.id) {
                    return Err(format!("part {} is there twice", part.id));
                }
                part.check(content)?;
            }
            let vocab = &entry.vocab.path;
            if !vocab.is_empty() && !is_inside(vocab) {
                return Err(format!("the vocabulary `{}` lies elsewhere", vocab.escape_debug()));
            }
        }
        Ok(())
    }
}

/// Maximum content tokens of a sample: its starts are 16-bit.
const ROW_TOKENS_MAX: u32 = 65_535;

impl TokenizerInfo {
    fn check(&self) -> Result<(), String> {
        let Self { vocab_size, special, specials, .. } = self;
        if !specials.is_sorted_by(|a, b| a < b) || specials.last().is_some_and(|last| last >= vocab_size) {
            return Err(format!("its special ids do not ascend below {vocab_size}, the number of ids"));
        }
        let mut named: Vec<u32> = special.iter().collect();
        named.sort_unstable();
        if !named.is_sorted_by(|a, b| a < b) || named.iter().any(|id| specials.binary_search(id).is_err()) {
            return Err(format!("{named:?} are not five different ids, or four, of its special ones"));
        }
        if specials.len() as u64 >= u64::from(*vocab_size) {
            return Err(format!("all of its {vocab_size} ids are special"));
        }
        Ok(())
    }
}

impl PartEntry {
    /// Checks that the part's shards belong to it, for full samples of `content` tokens.
    ///
    /// # Errors
    /// Names the first shard that does not.
    pub fn check(&self, content: u32) -> Result<(), String> {
        for shards in [&self.train, &self.valid] {
            let mut rows = 0;
            for shard in shards {
                let counted: u64 = shard.groups.iter().map(|&rows| u64::from(rows)).sum();
                let fits = shard.part == self.id && u64::from(shard.first_row) == rows && counted == shard.rows;
                // No row group and no shard is empty; a group has at most the number of rows that the writer puts into
                // one.
                let groups = !shard.groups.is_empty()
                    && shard.groups.iter().all(|&rows| (1..=ROWS_PER_GROUP).contains(&(rows as usize)));
                let tokens = shard.tokens <= shard.rows.saturating_mul(u64::from(content));
                let counted = rows + shard.rows <= 1 << 32;
                if !(fits && groups && tokens && counted && is_inside(&shard.path)) {
                    return Err(format!("shard `{}` does not fit part {}", shard.path.escape_debug(), self.id));
                }
                rows += shard.rows;
            }
        }
        Ok(())
    }
}

/// Returns true if a path stays below the folder that it is relative to.
fn is_inside(path: &str) -> bool {
    !path.is_empty() && path.split('/').all(|piece| !piece.is_empty() && piece != "." && piece != "..")
}
