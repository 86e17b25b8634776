//! What makes two runs the same run.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Everything that changes a run's numbers, as sorted `path = value` pairs, with one hash over them.
///
/// The command line fills it: seed, data content, views, networks, objectives, loss, encoder, optimizer, schedule, row
/// counts, precision, what it starts from as it is written there, and the micro-batch size where it matters. Lanes,
/// depths, threads, intervals, other paths and the device stay outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    keys: BTreeMap<String, String>,
    hash: String,
}

impl Identity {
    /// An identity over these pairs; values in one canonical spelling, such as compact JSON.
    #[must_use]
    pub fn new(keys: BTreeMap<String, String>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for (key, value) in &keys {
            for part in [key, value] {
                hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
            }
        }
        Self { keys, hash: hasher.finalize().to_hex().to_string() }
    }

    /// BLAKE3 over the pairs, in hexadecimal.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The pairs.
    #[must_use]
    pub fn keys(&self) -> &BTreeMap<String, String> {
        &self.keys
    }

    /// What changed since `former`, as `key: then → now`; empty for the same run.
    #[must_use]
    pub fn differences(&self, former: &Self) -> Vec<String> {
        let names: BTreeSet<&String> = self.keys.keys().chain(former.keys.keys()).collect();
        let value = |identity: &Self, name: &str| identity.keys.get(name).map_or("absent".to_owned(), String::clone);
        names
            .into_iter()
            .filter(|name| self.keys.get(*name) != former.keys.get(*name))
            .map(|name| format!("`{name}`: {} → {}", value(former, name), value(self, name)))
            .collect()
    }
}

/// Keys that people change with a good reason, and how they have it all the same.
const WAYS_ON: [(&str, &str); 2] = [
    (
        "train.steps",
        "the rate falls towards the last step, so that a run of other `train.steps` is another from its first step on: \
         finish this one and begin a second with its weights, or, the next time, begin with `schedule.kind = \"constant\"`, \
         whose `train.steps` may grow",
    ),
    (
        "train.rows_per_micro_batch",
        "here `train.rows_per_micro_batch` decides what is drawn, or which rows are contrasted: where memory is short, \
         lower it in a run that begins",
    ),
];

/// A way on for each key that differs and has one.
pub(crate) fn ways_on(now: &Identity, then: &Identity) -> String {
    let changed = |key: &str| now.keys.get(key) != then.keys.get(key);
    let ways = WAYS_ON.iter().filter(|(key, _)| changed(key)).map(|(_, way)| ["; ", way].concat());
    ways.collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(pairs: &[(&str, &str)]) -> Identity {
        Identity::new(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn differences_name_keys_with_both_values() {
        let then = identity(&[("seed", "1"), ("loss.mlm", "1.0")]);
        let now = identity(&[("seed", "2"), ("loss.mlm", "1.0"), ("loss.tc", "1.0")]);
        assert_eq!(now.differences(&then), ["`loss.tc`: absent → 1.0", "`seed`: 1 → 2"]);
        assert!(now.differences(&now).is_empty() && now.hash() != then.hash());
    }

    #[test]
    fn who_wants_a_longer_run_is_told_a_way() {
        let of = |steps: &str| identity(&[("seed", "1"), ("train.steps", steps)]);
        assert_eq!(ways_on(&of("100"), &of("100")), "");
        let way = ways_on(&of("200"), &of("100"));
        assert!(way.contains("`train.steps`") && way.contains("constant") && !way.contains("micro_batch"), "{way}");
    }
}
