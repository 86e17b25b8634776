//! What makes two runs the same run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use telemetry::change::KeyChange;

/// Everything that changes a run's numbers, as sorted `path = value` pairs, with one hash over them.
///
/// The command line fills it: seed, data content, views, networks, objectives, loss, encoder, optimizer, schedule, row
/// counts, precision, what it starts from as it is written there, and the micro-batch size where it matters. Workers,
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

    /// What changed since `former`; empty for the same run.
    #[must_use]
    pub fn differences(&self, former: &Self) -> Vec<KeyChange> {
        KeyChange::between(&former.keys, &self.keys)
    }

    /// The same, sorted into those that `allowed` names and, in words, the others.
    pub fn changes(&self, former: &Self, allowed: &[String]) -> (Vec<KeyChange>, Vec<String>) {
        let (allowed, others): (Vec<_>, Vec<_>) =
            self.differences(former).into_iter().partition(|change| allowed.contains(&change.key));
        (allowed, others.iter().map(KeyChange::to_string).collect())
    }
}

/// Keys that decide which rows come next: a run that has read rows can have no others.
const ROWS: [&str; 4] = ["seed", "data", "sources", "train.global_batch_size"];

/// Keys that say where the learning rate stands, and what becomes of a run that has begun by another.
const COURSE: [(&str, &str); 3] = [
    ("train.steps", "`cloze extend` changes it, and keeps from which step on"),
    ("train.max_tokens", "the learning rate would jump, and nobody could tell later from where; `cloze branch` can"),
    ("train.max_hours", "the learning rate would jump, and nobody could tell later from where; `cloze branch` can"),
];

/// Whether these keys may change in the middle of a run.
///
/// # Errors
/// Why one may not.
pub fn check_allowed(keys: &[String]) -> Result<(), String> {
    check_branched(keys)?;
    match COURSE.iter().find(|(key, _)| keys.iter().any(|changed| changed == key)) {
        Some((key, why)) => Err(format!("`{key}` cannot change in the middle of a run: {why}")),
        None => Ok(()),
    }
}

/// Whether these keys may be others in a run that continues from another.
///
/// # Errors
/// Why one may not.
pub(crate) fn check_branched(keys: &[String]) -> Result<(), String> {
    let is_below =
        |key: &str, above: &str| key.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    match keys.iter().find(|key| ROWS.iter().any(|above| is_below(key, above))) {
        Some(key) => Err(format!("`{key}` cannot change in the middle of a run: it decides which rows come next")),
        None => Ok(()),
    }
}

/// Keys that people change with a good reason, and how they have it nevertheless.
const WAYS_ON: [(&str, &str); 2] = [
    (
        "train.steps",
        "the rate falls towards the last step, so that a run of other `train.steps` is another from its first step on: \
         `cloze extend` gives this one more steps and says from where; or, the next time, begin with \
         `schedule.kind = \"constant\"`, whose `train.steps` may grow",
    ),
    (
        "train.micro_batch_size",
        "here `train.micro_batch_size` decides what is drawn, or which rows are contrasted: where memory is short, \
         `--allow-change train.micro_batch_size` changes it nevertheless, and notes it",
    ),
];

/// A way on for each key that differs and has one.
pub fn ways_on(now: &Identity, then: &Identity) -> String {
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
        let words: Vec<String> = now.differences(&then).iter().map(KeyChange::to_string).collect();
        assert_eq!(words, ["`loss.tc`: absent → 1.0", "`seed`: 1 → 2"]);
        let (allowed, others) = now.changes(&then, &["loss.tc".to_owned()]);
        assert_eq!((allowed.len(), others), (1, vec!["`seed`: 1 → 2".to_owned()]));
        assert!(now.differences(&now).is_empty() && now.hash() != then.hash());
    }

    #[test]
    fn what_decides_the_rows_is_never_changed_in_the_middle() {
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
        ] {
            assert!(check(key).is_err_and(|why| why.contains(key)), "{key}");
        }
        assert_eq!(check_branched(&["train.steps".to_owned()]), Ok(()), "a branch is planned again");
        assert!(check_branched(&["data.seq_len".to_owned()]).is_err());
    }

    #[test]
    fn who_wants_a_longer_run_is_told_a_way() {
        let of = |steps: &str| identity(&[("seed", "1"), ("train.steps", steps)]);
        assert_eq!(ways_on(&of("100"), &of("100")), "");
        let way = ways_on(&of("200"), &of("100"));
        assert!(way.contains("`train.steps`") && way.contains("constant") && !way.contains("micro_batch"), "{way}");
    }
}
