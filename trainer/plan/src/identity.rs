//! Identity of a run: all settings that affect its numbers.

use std::collections::BTreeMap;

use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};
use telemetry::change::KeyChange;

use crate::checkpoint::State;
use crate::error::Error;
use crate::train_plan::TrainPlan;

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
    fn changes(&self, former: &Self, allowed: &[String]) -> (Vec<KeyChange>, Vec<KeyChange>) {
        self.differences(former).into_iter().partition(|change| allowed.contains(&change.key))
    }
}

/// Keys that determine the order of rows. They are fixed once a run has read rows.
const ROW_KEYS: [&str; 4] = ["seed", "data", "sources", "train.global_batch_size"];

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
    let is_below =
        |key: &str, above: &str| key.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    match keys.iter().find(|key| ROW_KEYS.iter().any(|above| is_below(key, above))) {
        Some(key) => Err(format!("`{key}` cannot change in the middle of a run: it determines which rows come next")),
        None => Ok(()),
    }
}

/// Keys that users often need to change, each with a hint how to do so.
const HINTS: [(&str, &str); 2] = [
    (
        "train.steps",
        "the learning rate falls towards the last step, so another `train.steps` changes the run from its first step: \
         use `cloze extend`, which adds steps to this run and records from which step they apply; or start the next \
         run with `schedule.kind = \"constant\"`, which allows `train.steps` to grow",
    ),
    (
        "train.micro_batch_size",
        "in this run, `train.micro_batch_size` affects random draws or the rows that are contrasted: if memory is \
         short, use `--allow-change train.micro_batch_size`, which records the change",
    ),
];

/// Keys of the shape of the main network: other values make other weights.
const SHAPE_KEYS: [&str; 7] = [
    "encoder.layers",
    "encoder.hidden",
    "encoder.heads",
    "encoder.feed_forward",
    "encoder.max_positions",
    "encoder.embedding",
    "encoder.relative_positions",
];

/// Checks that a run continues with the configuration of its newest checkpoint `place`, or with changes that the plan
/// allows. Returns the allowed changes.
///
/// # Errors
/// [`Error::Config`] if the plan allows a change that no run may make, [`Error::Identity`] for other changes.
pub fn check_resumed(plan: &TrainPlan, place: &str, state: &State) -> Result<Vec<KeyChange>, Error> {
    let allowed = &plan.amended.allowed;
    check_allowed(allowed).map_err(Error::Config)?;
    let (changed, others) = plan.identity.changes(&state.identity, allowed);
    let has_other_data = state.data_content != plan.data_content;
    if others.is_empty() && !has_other_data {
        return Ok(changed);
    }
    let width = others.iter().map(|change| change.key.len()).max().unwrap_or(0);
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "absent".to_owned());
    let line = |change: &KeyChange| format!("{:width$}  {} → {}", change.key, value(&change.then), value(&change.now));
    let mut changes: Vec<String> = others.iter().map(line).collect();
    if has_other_data {
        changes.push(format!("content of the data  {} → {}", state.data_content, plan.data_content));
    }
    let ways = ways_to_continue(&others, has_other_data, place, state.step);
    Err(Error::Identity { checkpoint: place.into(), changes, ways })
}

/// Returns the ways to continue from the checkpoint in `place` after changes, one line each, with what to type.
fn ways_to_continue(changes: &[KeyChange], has_other_data: bool, place: &str, step: Step) -> Vec<String> {
    let keys: Vec<String> = changes.iter().map(|change| change.key.clone()).collect();
    let is_shape = |key: &String| SHAPE_KEYS.iter().any(|shape| key.starts_with(shape));
    let may_continue = !has_other_data && !keys.iter().any(is_shape);
    let mut ways = vec!["revert the change, and give the same command".to_owned()];
    if may_continue && check_allowed(&keys).is_ok() {
        let options: Vec<String> = keys.iter().map(|key| format!("--allow-change {key}")).collect();
        ways.push(format!("allow the change, which is logged: add `{}`", options.join(" ")));
    }
    if may_continue && check_branched(&keys).is_ok() {
        let run = place.split("/checkpoints/").next().unwrap_or(place);
        let sets = changes.iter().filter_map(|change| Some(format!("--set '{}={}'", change.key, change.now.as_ref()?)));
        let sets: Vec<String> = sets.collect();
        ways.push(format!("branch from it: `cloze branch {run} --step {step} --out NEW {}`", sets.join(" ")));
    }
    let weights =
        if keys.iter().any(is_shape) { String::new() } else { format!(" --set 'train.init_from=\"{place}\"'") };
    ways.push(format!("start a new run: add `--set run.folder=NEW{weights}`"));
    ways.extend(
        HINTS.iter().filter(|(key, _)| keys.iter().any(|changed| changed == key)).map(|(_, hint)| (*hint).to_owned()),
    );
    ways
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
    fn keys_that_determine_the_rows_cannot_change() {
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
            assert!(check(key).is_err_and(|message| message.contains(key)), "{key}");
        }
        assert_eq!(check_branched(&["train.steps".to_owned()]), Ok(()), "a branch has a new plan");
        assert!(check_branched(&["data.seq_len".to_owned()]).is_err());
    }

    #[test]
    fn ways_to_continue_depend_on_the_changed_keys() {
        let change =
            |key: &str| KeyChange { key: key.to_owned(), then: Some("1".to_owned()), now: Some("2".to_owned()) };
        let ways = |keys: &[&str]| {
            let changes: Vec<KeyChange> = keys.iter().map(|key| change(key)).collect();
            ways_to_continue(&changes, false, "runs/a/checkpoints/step-00000040", Step(40)).join("\n")
        };
        let rate = ways(&["optimizer.lr"]);
        for word in [
            "--allow-change optimizer.lr`",
            "`cloze branch runs/a --step 40 --out NEW --set 'optimizer.lr=2'`",
            "--set run.folder=NEW --set 'train.init_from=\"runs/a/checkpoints/step-00000040\"'`",
        ] {
            assert!(rate.contains(word), "`{word}` is missing in\n{rate}");
        }
        let steps = ways(&["train.steps"]);
        assert!(
            steps.contains("cloze extend") && steps.contains("cloze branch") && !steps.contains("--allow-change"),
            "{steps}"
        );
        let shape = ways(&["encoder.hidden", "optimizer.lr"]);
        assert!(
            !shape.contains("cloze branch") && !shape.contains("init_from") && shape.contains("run.folder=NEW"),
            "{shape}"
        );
        let rows = ways(&["seed"]);
        assert!(
            !rows.contains("cloze branch") && !rows.contains("--allow-change") && rows.contains("init_from"),
            "{rows}"
        );
    }
}
