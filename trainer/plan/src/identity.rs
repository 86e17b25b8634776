//! Identity of a run: all settings that affect its numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use telemetry::change::KeyChange;

/// Settings that affect a run's numbers, as sorted `path = value` pairs with one hash.
///
/// The command line fills it: seed, data content, views, networks, objectives, loss, encoder, optimizer, schedule, row
/// counts, precision, the start weights as configured, and the micro-batch size if it affects the numbers. Workers,
/// depths, threads, intervals, other paths and the device are excluded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    keys: BTreeMap<String, String>,
    hash: String,
}

impl Identity {
    /// Creates an identity from the pairs. The values must have one canonical spelling, such as compact JSON.
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

    /// BLAKE3 of the pairs, in hexadecimal.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Pairs of path and value.
    #[must_use]
    pub fn keys(&self) -> &BTreeMap<String, String> {
        &self.keys
    }

    /// Returns the changes since `former`. The list is empty for the same run.
    #[must_use]
    pub fn differences(&self, former: &Self) -> Vec<KeyChange> {
        KeyChange::compare(&former.keys, &self.keys)
    }

    /// Returns the [`differences`](Self::differences) in two lists: changes of `allowed` keys, and the others.
    pub(crate) fn changes(&self, former: &Self, allowed: &[String]) -> (Vec<KeyChange>, Vec<KeyChange>) {
        self.differences(former).into_iter().partition(|change| allowed.contains(&change.key))
    }
}

/// Keys that determine the order of rows. They are fixed once a run has read rows.
const ROW_KEYS: [&str; 4] = ["seed", "data", "sources", "train.global_batch_size"];

/// Keys of the shape of the main network: other values make other weights, or another function of the same weights.
const SHAPE_KEYS: [&str; 7] = [
    "encoder.layers",
    "encoder.hidden",
    "encoder.heads",
    "encoder.feed_forward",
    "encoder.max_positions",
    "encoder.embedding",
    "encoder.relative_positions",
];

/// Keys that the learning rate depends on, each with the reason why it is fixed during a run.
const SCHEDULE_KEYS: [(&str, &str); 3] = [
    ("train.steps", "use `cloze extend`, which also records from which step the new number applies"),
    ("train.max_tokens", "the learning rate would jump at a step that is not recorded; use `cloze branch`"),
    ("train.max_hours", "the learning rate would jump at a step that is not recorded; use `cloze branch`"),
];

/// Checks that the keys may change in the middle of a run.
///
/// # Errors
/// A message with the first key that may not change, and the reason.
pub fn check_allowed(keys: &[String]) -> Result<(), String> {
    check_branched(keys)?;
    match SCHEDULE_KEYS.iter().find(|(key, _)| keys.iter().any(|changed| changed == key)) {
        Some((key, reason)) => Err(format!("`{key}` cannot change in the middle of a run: {reason}")),
        None => Ok(()),
    }
}

/// Checks that the keys may differ in a branch from those of the original run.
///
/// # Errors
/// A message with the first key that may not differ, and the reason.
pub(crate) fn check_branched(keys: &[String]) -> Result<(), String> {
    if let Some(key) = keys.iter().find(|key| is_any_of(key, &ROW_KEYS)) {
        return Err(format!("`{key}` cannot change in the middle of a run: it determines which rows come next"));
    }
    match keys.iter().find(|key| is_shape_key(key)) {
        Some(key) => Err(format!(
            "`{key}` cannot change in the middle of a run: it changes the weights; revert it, or start a new run in \
             another `run.folder`, with `train.init_from` for a model of the new shape"
        )),
        None => Ok(()),
    }
}

/// Whether the key belongs to the shape of the main network.
pub(crate) fn is_shape_key(key: &str) -> bool {
    is_any_of(key, &SHAPE_KEYS)
}

/// Whether the key is one of `keys` or below one of them.
fn is_any_of(key: &str, keys: &[&str]) -> bool {
    let is_below = |above: &&str| key.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    keys.iter().any(is_below)
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
        let texts: Vec<String> = now.differences(&then).iter().map(KeyChange::to_string).collect();
        assert_eq!(texts, ["`loss.tc`: absent → 1.0", "`seed`: 1 → 2"]);
        let (allowed, others) = now.changes(&then, &["loss.tc".to_owned()]);
        assert_eq!((allowed.len(), others.len(), others[0].to_string().as_str()), (1, 1, "`seed`: 1 → 2"));
        assert!(now.differences(&now).is_empty() && now.hash() != then.hash());
    }

    #[test]
    fn keys_that_determine_the_rows_or_the_weights_cannot_change() {
        let check = |key: &str| check_allowed(&[key.to_owned()]);
        for key in ["optimizer.lr", "train.micro_batch_size", "encoder.dropout", "data_folder", "seeds"] {
            assert_eq!(check(key), Ok(()), "{key}");
        }
        for key in [
            "seed",
            "data.content",
            "data.shuffle_window_groups",
            "sources.a.weight",
            "train.global_batch_size",
            "train.steps",
            "encoder.hidden",
            "encoder.relative_positions.num_buckets",
        ] {
            assert!(check(key).is_err_and(|message| message.contains(key)), "{key}");
        }
        assert_eq!(check_branched(&["train.steps".to_owned()]), Ok(()), "a branch has a new plan");
        assert!(check_branched(&["data.seq_len".to_owned()]).is_err());
        assert!(check_branched(&["encoder.layers".to_owned()]).is_err_and(|message| message.contains("init_from")));
    }
}
