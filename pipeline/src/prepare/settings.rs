//! What decides the bytes of every part, by name.

use std::collections::BTreeMap;

use schemas::manifest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::config::PrepareConfig;

/// The version of what this program makes of a text: cleaning, ids, tokens, packing, order of parts. Raised when the same
/// settings would give other bytes; folders of another version are refused.
const RULES: u32 = 1;

/// Everything besides the part itself that decides a part's bytes, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Settings(BTreeMap<String, Value>);

impl Settings {
    /// Those of a configuration whose parts have that size.
    pub(super) fn of(config: &PrepareConfig, part_bytes: u64, tokenizer: &manifest::Tokenizer) -> Self {
        let field = |name: Option<&str>| name.filter(|_| config.format.has_fields()).map_or(Value::Null, Value::from);
        let entries = [
            ("version", Value::from(manifest::VERSION)),
            ("rules", RULES.into()),
            ("format", config.format.kind().into()),
            ("text_field", field(Some(&config.text_field))),
            ("id_field", field(config.id_field.as_deref())),
            ("tokenizer", tokenizer.fingerprint.as_str().into()),
            ("tokens_max", config.tokens_max.into()),
            ("pack", config.pack.kind().into()),
            ("valid_fraction", config.valid_fraction.into()),
            ("zstd_level", config.zstd_level.into()),
            ("part_bytes", part_bytes.into()),
            ("segment_bytes", config.segment_bytes.into()),
            ("seed", config.seed.into()),
        ];
        Self(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// The size of parts.
    pub(super) fn part_bytes(&self) -> Option<u64> {
        self.0.get("part_bytes").and_then(Value::as_u64)
    }

    /// One name for all of them: what a commit record is bound to.
    pub(super) fn digest(&self) -> String {
        let json = serde_json::to_vec(self).expect("names and plain values");
        blake3::hash(&json).to_hex().to_string()
    }

    /// `tokens_max = 128, now 512` for each that differs.
    pub(super) fn differences(&self, now: &Self) -> Vec<String> {
        let absent = Value::Null;
        let changed = now.0.iter().map(|(name, value)| (name, self.0.get(name).unwrap_or(&absent), value));
        let shown = changed.filter(|(_, was, now)| was != now);
        shown.map(|(name, was, now)| format!("`{name}` = {was}, now {now}")).collect()
    }
}
