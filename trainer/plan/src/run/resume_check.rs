//! Check of the configuration with which a run continues from its newest checkpoint.

use schemas::ordinal::Step;
use schemas::shell_quoted;
use telemetry::change::KeyChange;

use crate::checkpoint::State;
use crate::error::Error;
use crate::identity::{check_allowed, check_branched, is_shape_key};
use crate::train_plan::TrainPlan;

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
    if has_other_data && !others.iter().any(|change| change.key == "data.content") {
        changes.push(format!("content of the data  {} → {}", state.data_content, plan.data_content));
    }
    let ways = ways_to_continue(&others, has_other_data, place, state.step);
    Err(Error::Identity { checkpoint: place.into(), changes, ways })
}

/// Returns the error of a checkpoint in `place` that lacks weights or moments which a plan with these changes needs, or has
/// them in other shapes.
#[must_use]
pub fn misfit(place: &str, changes: &[KeyChange], problem: &str) -> Error {
    let keys: Vec<String> = changes.iter().map(|change| format!("`{}`", change.key)).collect();
    let weights = set_option("train.init_from", &serde_json::Value::from(place).to_string());
    Error::Config(format!(
        "{place}: the checkpoint does not fit the changed configuration ({}): {problem}; a change that adds or reshapes \
         weights cannot be made in the middle of a run: revert it, or start a new run with the weights that fit: add \
         `--set run.folder=NEW {weights}`",
        keys.join(", ")
    ))
}

/// Returns the ways to continue from the checkpoint in `place` after changes, one line each, with what to type.
fn ways_to_continue(changes: &[KeyChange], has_other_data: bool, place: &str, step: Step) -> Vec<String> {
    let keys: Vec<String> = changes.iter().map(|change| change.key.clone()).collect();
    let is_shape = |key: &String| is_shape_key(key);
    let may_continue = !has_other_data && !keys.iter().any(is_shape);
    let mut ways = vec!["revert the change, and give the same command".to_owned()];
    if may_continue && check_allowed(&keys).is_ok() {
        let options: Vec<String> = keys.iter().map(|key| format!("--allow-change {key}")).collect();
        ways.push(format!("allow the change, which is logged: add `{}` to `cloze train`", options.join(" ")));
    }
    if may_continue && check_branched(&keys).is_ok() {
        let run = place.split("/checkpoints/").next().unwrap_or(place);
        let sets = changes.iter().filter_map(|change| Some(set_option(&change.key, change.now.as_ref()?)));
        let sets: Vec<String> = sets.collect();
        let run = shell_quoted(run);
        ways.push(format!("branch from it: `cloze branch {run} --step {step} --out NEW {}`", sets.join(" ")));
    }
    let weights = if keys.iter().any(is_shape) {
        String::new()
    } else {
        format!(" {}", set_option("train.init_from", &serde_json::Value::from(place).to_string()))
    };
    ways.push(format!("start a new run: add `--set run.folder=NEW{weights}`"));
    ways.extend(
        HINTS.iter().filter(|(key, _)| keys.iter().any(|changed| changed == key)).map(|(_, hint)| (*hint).to_owned()),
    );
    ways
}

/// Returns an option of the command line that sets a key to a value in TOML.
fn set_option(key: &str, value: &str) -> String {
    format!("--set {}", shell_quoted(format!("{key}={value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            "`cloze branch runs/a --step 40 --out NEW --set optimizer.lr=2`",
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
