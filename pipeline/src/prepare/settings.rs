//! What decides the bytes of every part, by name.

use std::collections::{BTreeMap, BTreeSet};

use schemas::manifest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::config::PrepareConfig;

/// The version of what this program makes of a text: cleaning, ids, tokens, packing, order of parts. Raised when the same
/// settings would give other bytes; folders of another version are refused.
const RULES: u32 = 2;

/// Everything besides the part itself that decides a part's bytes, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Settings(BTreeMap<String, Value>);

/// Keys of `[prepare]` that change no byte of any part, each with the reason. A key that nobody thought of decides bytes.
const LEFT_OUT: &[(&str, &str)] = &[
    ("inputs", "which files there are: the parts name them"),
    ("unfit_files", "which files there are: the parts name them"),
    ("tokenize_by", "the ids are the same"),
    ("lowercase", "part of the tokenizer, which is known by its fingerprint"),
    ("folder", "where it is kept"),
    ("bad_lines_max", "when a corpus is refused"),
    ("lanes", "who makes a part, not what is in it"),
    ("valid_parts", "which of them a run looks at, not what is in them"),
    ("memory_max", "a document that does not fit ends the run"),
];

impl Settings {
    /// Those of a configuration whose parts have that size.
    pub(super) fn of(config: &PrepareConfig, part_bytes: u64, tokenizer: &manifest::Tokenizer) -> Self {
        let keys = serde_json::to_value(config).expect("a configuration is plain values");
        let Value::Object(keys) = keys else { unreachable!("a section is a table") };
        let kept = keys.into_iter().filter(|(key, _)| LEFT_OUT.iter().all(|(left_out, _)| left_out != key));
        let mut settings: BTreeMap<String, Value> = kept.collect();
        if !config.format.has_fields() {
            settings.extend(["text_field", "id_field"].map(|key| (key.to_owned(), Value::Null)));
        }
        // As they work out, whatever is written.
        settings.extend([
            ("version".to_owned(), Value::from(manifest::VERSION)),
            ("rules".to_owned(), RULES.into()),
            ("tokenizer".to_owned(), tokenizer.fingerprint.as_str().into()),
            ("part_bytes".to_owned(), part_bytes.into()),
        ]);
        // UTF-8 goes without saying, by whichever of its names.
        match config.encoding() {
            Some(encoding) => settings.insert("encoding".to_owned(), encoding.name().into()),
            None => settings.remove("encoding"),
        };
        Self(settings)
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
        let names: BTreeSet<&String> = self.0.keys().chain(now.0.keys()).collect();
        let value = |of: &'_ Self, name: &str| of.0.get(name).unwrap_or(&absent).clone();
        let changed = names.into_iter().map(|name| (name, value(self, name), value(now, name)));
        let shown = changed.filter(|(_, was, now)| was != now);
        shown.map(|(name, was, now)| format!("`{name}` = {was}, now {now}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(config: &PrepareConfig) -> Settings {
        let special = schemas::SpecialIds { pad: 0, unk: Some(1), cls: 2, sep: 3, mask: 4 };
        let tokenizer = manifest::Tokenizer {
            fingerprint: "f".into(),
            kind: "wordpiece".into(),
            vocab_size: 5,
            lowercase: true,
            special,
            specials: Vec::new(),
        };
        Settings::of(config, 7, &tokenizer)
    }

    #[test]
    fn every_key_decides_bytes_but_those_that_are_left_out_by_name() {
        let Ok(Value::Object(keys)) = serde_json::to_value(PrepareConfig::default()) else { panic!("a table") };
        let left_out: BTreeSet<&str> = LEFT_OUT.iter().map(|(key, _)| *key).collect();
        assert!(left_out.iter().all(|key| keys.contains_key(*key)), "{left_out:?}");
        let expected: BTreeSet<String> = keys
            .keys()
            .filter(|key| !left_out.contains(key.as_str()))
            .cloned()
            .chain(["version", "rules"].map(String::from))
            .collect();
        assert_eq!(settings(&PrepareConfig::default()).0.into_keys().collect::<BTreeSet<_>>(), expected);
    }

    /// A later program knows a key that this one does not: its parts are not ours.
    #[test]
    fn a_key_that_only_one_of_two_has_is_a_difference() {
        let ours = settings(&PrepareConfig::default());
        let mut theirs = ours.clone();
        theirs.0.insert("dialect".into(), "latin1".into());
        assert_eq!(theirs.differences(&ours), ["`dialect` = \"latin1\", now null"]);
        assert_eq!(ours.differences(&theirs), ["`dialect` = null, now \"latin1\""]);
        assert!(ours.differences(&ours).is_empty());
    }

    #[test]
    fn an_encoding_is_the_same_by_each_of_its_names() {
        let of = |name: &str| settings(&PrepareConfig { encoding: Some(name.into()), ..PrepareConfig::default() });
        assert_eq!(of("latin1"), of("Windows-1252"));
        assert_eq!(of("utf8"), settings(&PrepareConfig::default()), "as if nothing was said");
        assert_eq!(of("gbk").differences(&of("big5")), ["`encoding` = \"GBK\", now \"Big5\""]);
    }
}
