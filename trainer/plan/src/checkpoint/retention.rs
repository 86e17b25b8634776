//! Retention of checkpoints: the retention rule as a pure function of the existing checkpoints, and the functions that
//! remove, pin and copy checkpoints.
//!
//! # Definition
//! A checkpoint is kept if at least one of these conditions holds:
//!
//! - it is one of the `keep` newest;
//! - its step is a multiple of `keep_every_steps`;
//! - it is one of the `keep_best` best by `best_by` among the validated checkpoints;
//! - the user pinned it.
//!
//! A checkpoint that is not among the best existing ones is not among the best of all later sets either. So the rule
//! never removes a checkpoint that it would keep later, even if the process is killed in between.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::SystemTime;

use schemas::Sealed;
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};
use store::Store;

use super::list::{CheckpointForm, checkpoint_store, figures, folder_name, list, steps, there};
use super::{CONFIG_FILE, DAMAGED_FILE, FOLDER, LATEST, PINNED_FILE, STATE_FILE, State, is_own_file};
use crate::config::CheckpointConfig;
use crate::error::Error;

/// Inputs of the retention rule for one checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    /// Steps done.
    pub step: Step,
    /// Value of the `best_by` metric in the validation of its step.
    pub figure: Option<f64>,
    /// Whether the user pinned it.
    pub pinned: bool,
}

/// Reason to keep a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepReason {
    /// One of the `keep` newest.
    Newest,
    /// Step that is a multiple of `keep_every_steps`.
    Milestone,
    /// One of the `keep_best` best.
    Best,
    /// Pinned by the user.
    Pinned,
}

/// Returns the reasons to keep each checkpoint. A checkpoint without a reason is to be removed.
pub(super) fn reasons(rules: &CheckpointConfig, all: &[Candidate]) -> BTreeMap<Step, Vec<KeepReason>> {
    let mut reasons: BTreeMap<Step, Vec<KeepReason>> = all.iter().map(|it| (it.step, Vec::new())).collect();
    let newest: Vec<Step> = reasons.keys().rev().take(rules.keep).copied().collect();
    let every = rules.keep_every_steps;
    let milestones = all.iter().filter(|it| every > 0 && it.step.0.is_multiple_of(every)).map(|it| it.step).collect();
    let pinned = all.iter().filter(|it| it.pinned).map(|it| it.step).collect();
    let found: [(KeepReason, Vec<Step>); 4] = [
        (KeepReason::Newest, newest),
        (KeepReason::Milestone, milestones),
        (KeepReason::Best, best(rules, all)),
        (KeepReason::Pinned, pinned),
    ];
    for (reason, steps) in found {
        for step in steps {
            reasons.entry(step).or_default().push(reason);
        }
    }
    reasons
}

/// Returns the `keep_best` best steps, best first. The older of two equal steps comes first.
fn best(rules: &CheckpointConfig, all: &[Candidate]) -> Vec<Step> {
    let sign = if is_larger_better(&rules.best_by) { -1.0 } else { 1.0 };
    let finite = |it: &Candidate| it.figure.filter(|figure| figure.is_finite()).map(|figure| (sign * figure, it.step));
    let mut ranked: Vec<(f64, Step)> = all.iter().filter_map(finite).collect();
    ranked.sort_by(|(a, first), (b, second)| a.total_cmp(b).then(first.cmp(second)));
    ranked.into_iter().take(rules.keep_best).map(|(_, step)| step).collect()
}

/// Last words of the names of metrics that are maximized, in addition to accuracies.
const MAXIMIZED: [&str; 10] =
    ["gain", "positive_cosine", "precision", "recall", "f1", "matthews", "pearson", "spearman", "exact", "exact_match"];

/// Whether a larger value of a validation score is better.
#[must_use]
pub fn is_larger_better(score: &str) -> bool {
    let name = score.rsplit('.').next().unwrap_or(score);
    let is_named = |end: &str| name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'));
    name.contains("accuracy") || MAXIMIZED.iter().any(|end| is_named(end))
}

/// Checkpoint of a run as listed.
#[derive(Clone, Debug)]
pub struct ListedCheckpoint {
    /// Steps done.
    pub step: Step,
    /// Location of its folder.
    pub place: String,
    /// Total size of its objects.
    pub bytes: u64,
    /// Time of the write, by the clock of the store.
    pub written: Option<SystemTime>,
    /// Validation scores; empty if its step was not validated.
    pub figures: BTreeMap<String, f64>,
    /// Reasons to keep it; empty for a damaged or unfinished checkpoint.
    pub why: Vec<KeepReason>,
    /// Whether its `state.json` exists. The content is not read.
    pub is_there: bool,
}

/// Lists all folders among the checkpoints of a run, oldest first, with the reasons to keep each by these rules.
///
/// # Errors
/// [`Error::Io`] if the folder cannot be listed.
pub fn list_with_reasons(run: &Store, rules: &CheckpointConfig) -> Result<Vec<ListedCheckpoint>, Error> {
    let checkpoints = run.prefixed(FOLDER);
    let found = list(&checkpoints)?;
    let mut listed: BTreeMap<Step, ListedCheckpoint> = BTreeMap::new();
    for (&Reverse(step), form) in &found {
        let checkpoint = checkpoints.prefixed(&folder_name(step));
        let entries = checkpoint.list("")?;
        let state = entries.iter().find(|entry| entry.name == STATE_FILE);
        let written = state.map(|state| state.stat.modified);
        let place = checkpoint.place("");
        let bytes = entries.iter().map(|entry| entry.stat.bytes).sum();
        let figures = figures(&checkpoint, step)?;
        let is_there = *form == CheckpointForm::Whole;
        listed.insert(step, ListedCheckpoint { step, place, bytes, written, figures, why: Vec::new(), is_there });
    }
    let mut candidates = Vec::new();
    for it in listed.values().filter(|it| it.is_there) {
        let pinned = checkpoints.prefixed(&folder_name(it.step)).head(PINNED_FILE)?.is_some();
        candidates.push(Candidate { step: it.step, figure: it.figures.get(&rules.best_by).copied(), pinned });
    }
    for (step, why) in reasons(rules, &candidates) {
        if let Some(it) = listed.get_mut(&step) {
            it.why = why;
        }
    }
    Ok(listed.into_values().collect())
}

/// Returns the step of the best checkpoint by `rules.best_by`. `None` if no checkpoint is validated by it.
///
/// # Errors
/// [`Error::Io`] if the folder cannot be listed.
pub fn best_step(run: &Store, rules: &CheckpointConfig) -> Result<Option<Step>, Error> {
    let rules = CheckpointConfig { keep_best: 1, ..rules.clone() };
    let listed = list_with_reasons(run, &rules)?;
    Ok(listed.into_iter().find(|it| it.why.contains(&KeepReason::Best)).map(|it| it.step))
}

/// Pin of a checkpoint: `pinned.json` in its folder. Only the existence of the file counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pin {
    step: Step,
}

impl Sealed for Pin {
    const FORMAT: &'static str = "cloze pin";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

/// Pins the checkpoint after `step`: the retention rule keeps it.
///
/// # Errors
/// [`Error::Config`] if it does not exist.
pub fn pin(run: &Store, step: Step) -> Result<(), Error> {
    there(run, step)?.put(PINNED_FILE, &Pin { step }.seal())?;
    Ok(())
}

/// Unpins the checkpoint after `step`: the rules apply to it again when the next checkpoint is written. Returns whether
/// it was pinned.
///
/// # Errors
/// [`Error::Config`] if it does not exist.
pub fn unpin(run: &Store, step: Step) -> Result<bool, Error> {
    let checkpoint = there(run, step)?;
    let was_pinned = checkpoint.head(PINNED_FILE)?.is_some();
    checkpoint.delete(PINNED_FILE)?;
    Ok(was_pinned)
}

/// Removes the checkpoint after `step` permanently.
///
/// # Errors
/// [`Error::Config`] if it does not exist, if it is pinned, or if it is the newest one.
pub fn remove(run: &Store, step: Step) -> Result<(), Error> {
    let checkpoint = there(run, step)?;
    let refuse = |problem: &str| Err(Error::Config(format!("{}: {problem}", checkpoint.place(""))));
    if checkpoint.head(PINNED_FILE)?.is_some() {
        return refuse("the checkpoint is pinned; unpin it first");
    }
    if steps(run)?.first() == Some(&step) {
        return refuse(
            "the run resumes from this checkpoint; use `cloze rollback` to go back, which archives later checkpoints",
        );
    }
    Ok(discard(run, step)?)
}

/// Copies the checkpoint after `step` to another run or to a rollback archive. `state` replaces the state of the copy;
/// `None` copies it unchanged. The state is written last, because its presence makes the folder a checkpoint.
pub fn copy(from: &Store, step: Step, to: &Store, state: Option<&State>) -> std::io::Result<()> {
    let source = checkpoint_store(from, step);
    let target = checkpoint_store(to, step);
    let mut entries = source.list("")?;
    entries.sort_by_key(|entry| entry.name == STATE_FILE);
    for entry in entries {
        if let Some(state) = state.filter(|_| entry.name == STATE_FILE) {
            target.put(STATE_FILE, &state.seal())?;
            continue;
        }
        let mut put = target.writer(&entry.name)?;
        for piece in source.pieces(&entry.name, entry.stat.bytes) {
            put.write_all(&piece?)?;
        }
        put.commit()?;
    }
    Ok(())
}

/// Removes the checkpoint after `step` and its pin.
pub fn discard(run: &Store, step: Step) -> std::io::Result<()> {
    clear(&checkpoint_store(run, step))
}

/// Points `latest` at the newest existing checkpoint that is not in `removed`.
pub(crate) fn point(run: &Store, removed: &[Step]) -> std::io::Result<()> {
    let newest = steps(run)?.into_iter().find(|step| !removed.contains(step));
    point_at(&run.prefixed(FOLDER), newest)
}

/// Points `latest` at the checkpoint after `newest`. Removes `latest` for `None`.
pub fn point_at(checkpoints: &Store, newest: Option<Step>) -> std::io::Result<()> {
    match newest {
        Some(step) => checkpoints.put(LATEST, format!("{}\n", folder_name(step)).as_bytes()).map(|_| ()),
        None => checkpoints.delete(LATEST),
    }
}

/// Removes all objects of a checkpoint. Files of the user in its folder stay.
pub(super) fn clear(checkpoint: &Store) -> std::io::Result<()> {
    remove_objects(checkpoint, |_| true)
}

/// Removes all objects of a checkpoint except the pin, which also applies to a later checkpoint of the same step.
pub fn empty(checkpoint: &Store) -> std::io::Result<()> {
    remove_objects(checkpoint, |name| name != PINNED_FILE)
}

/// Removes the selected objects of a checkpoint. The state is removed first, so that the folder is no longer a
/// checkpoint, then the file by which `transformers` recognizes a model.
fn remove_objects(checkpoint: &Store, is_removed: impl Fn(&str) -> bool) -> std::io::Result<()> {
    let entries = checkpoint.list("")?;
    for first in [STATE_FILE, CONFIG_FILE] {
        // A folder does not list a file of that name that is not a regular file.
        if checkpoint.local().is_some() || entries.iter().any(|entry| entry.name == first) {
            checkpoint.delete(first)?;
        }
    }
    let others = entries.into_iter().map(|entry| entry.name);
    let is_other = |name: &String| ![STATE_FILE, CONFIG_FILE].contains(&&**name) && is_own_file(name);
    let others = others.filter(|name| is_other(name) && is_removed(name));
    others.rev().try_for_each(|name| checkpoint.delete(&name))
}

/// Renames the state of a damaged checkpoint to `damaged.json`, so that the folder is no longer a checkpoint.
pub fn set_aside(checkpoint: &Store, place: &str, problem: &str) -> Result<(), Error> {
    let kept = checkpoint.place(DAMAGED_FILE);
    tracing::error!(file = %place, %problem, %kept, "checkpoint: damaged, set aside; an older one is used");
    if let Some((state, _)) = checkpoint.get_with_stat(STATE_FILE)? {
        checkpoint.put(DAMAGED_FILE, &state)?;
    }
    Ok(checkpoint.delete(STATE_FILE)?)
}

/// Removes the checkpoints whose state satisfies `is_invalid`. Checkpoints with an unreadable state are kept; the code
/// that loads them reports them. If no checkpoint remains, the run starts from its first step.
///
/// # Errors
/// [`Error::Io`]. Checkpoints that were not removed are unchanged.
pub fn invalidate(run: &Store, is_invalid: impl Fn(&State) -> bool) -> Result<(), Error> {
    let mut removed = Vec::new();
    for step in steps(run)? {
        let Some((bytes, _)) = checkpoint_store(run, step).get_with_stat(STATE_FILE)? else { continue };
        if State::unseal(&bytes).is_ok_and(|state| is_invalid(&state)) {
            removed.push(step);
        }
    }
    if removed.is_empty() {
        return Ok(());
    }
    // Before the removals: `latest` must name an existing checkpoint even after a kill in between.
    point(run, &removed)?;
    for step in removed {
        tracing::info!(step = step.0, "checkpoint: removed, its steps are rolled back");
        discard(run, step)?;
    }
    Ok(())
}

/// Reads the inputs of the retention rule for every checkpoint of a listing.
fn candidates(
    checkpoints: &Store,
    listed: &BTreeMap<Reverse<Step>, CheckpointForm>,
    rules: &CheckpointConfig,
) -> std::io::Result<Vec<Candidate>> {
    let whole = listed.iter().filter(|(_, form)| **form == CheckpointForm::Whole);
    whole
        .map(|(&Reverse(step), _)| {
            let checkpoint = checkpoints.prefixed(&folder_name(step));
            // The rule reads the scores only for `keep_best`.
            let figures = if rules.keep_best > 0 { figures(&checkpoint, step)? } else { BTreeMap::new() };
            let pinned = checkpoint.head(PINNED_FILE)?.is_some();
            Ok(Candidate { step, figure: figures.get(&rules.best_by).copied(), pinned })
        })
        .collect()
}

/// Removes the checkpoints that the rules do not keep, except the newest one of at most `judged` steps. The spike guard
/// may still roll back a step that it has not judged, and then needs that checkpoint.
///
/// A damaged or unfinished folder stays until it is older than the oldest of the `keep` newest checkpoints.
pub fn retain(checkpoints: &Store, rules: &CheckpointConfig, judged: Option<Step>) -> std::io::Result<()> {
    let listed = list(checkpoints)?;
    let candidates = candidates(checkpoints, &listed, rules)?;
    let rollback_target =
        candidates.iter().map(|it| it.step).filter(|step| judged.is_some_and(|judged| *step <= judged)).max();
    let reasons = reasons(rules, &candidates);
    let newest = reasons.iter().find(|(_, why)| why.contains(&KeepReason::Newest)).map(|(&step, _)| step);
    for (Reverse(step), form) in listed.into_iter().rev() {
        let is_removed = match form {
            CheckpointForm::Whole => reasons.get(&step).is_some_and(Vec::is_empty) && rollback_target != Some(step),
            CheckpointForm::SetAside | CheckpointForm::Unfinished => newest.is_some_and(|oldest| step < oldest),
        };
        if is_removed {
            clear(&checkpoints.prefixed(&folder_name(step)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use store::FaultConfig;

    use super::*;
    use crate::testing::put_checkpoint;

    /// Files of the user in the folder of a checkpoint stay, and are no checkpoint.
    #[test]
    fn a_removed_checkpoint_leaves_the_files_of_the_user() {
        let run = Store::in_memory(FaultConfig::none());
        for step in 1..=3 {
            put_checkpoint(&run, step);
        }
        let foreign = ["checkpoints/step-00000001/notes.md", "checkpoints/step-00000001/plots/a.json", "checkpoints/x"];
        for name in &foreign {
            run.put(name, b"mine").expect("put");
        }
        let checkpoints = run.prefixed(FOLDER);
        let rules = CheckpointConfig { keep: 1, ..CheckpointConfig::default() };
        for _ in 0..2 {
            retain(&checkpoints, &rules, None).expect("applied");
            assert_eq!(list(&checkpoints).expect("listed").len(), 1);
            discard(&run, Step(1)).expect("nothing is left of it");
            let left: Vec<String> = run.list("").expect("listed").into_iter().map(|entry| entry.name).collect();
            assert!(foreign.iter().all(|name| left.iter().any(|left| left == name)), "{left:?}");
            let is_old = |name: &&String| name.contains("step-00000001") || name.contains("step-00000002");
            assert_eq!(left.iter().filter(is_old).count(), 2, "{left:?}");
        }
    }

    /// Deterministic pseudo-random generator (xorshift).
    fn draws(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        move |below| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        }
    }

    /// Compares incremental removal with the rule applied once to all checkpoints ever written.
    #[test]
    fn incremental_retention_equals_the_rule_over_all_checkpoints() {
        for seed in 0..400 {
            let mut draw = draws(seed);
            let rules = CheckpointConfig {
                keep: 1 + usize::try_from(draw(4)).expect("small"),
                keep_every_steps: [0, 6, 10][usize::try_from(draw(3)).expect("small")],
                keep_best: usize::try_from(draw(4)).expect("small"),
                best_by: ["loss", "mlm.accuracy"][usize::try_from(draw(2)).expect("small")].to_owned(),
                ..CheckpointConfig::default()
            };
            let mut written: Vec<Candidate> = Vec::new();
            let mut existing: Vec<Candidate> = Vec::new();
            for step in (2..60).step_by(2).map(Step) {
                let figure = match draw(4) {
                    0 => None,
                    1 => Some(f64::NAN),
                    _ => Some(draw(6) as f64),
                };
                let candidate = Candidate { step, figure, pinned: draw(9) == 0 };
                written.push(candidate);
                existing.push(candidate);
                // A kill before the removal: the next save removes it.
                if draw(3) > 0 {
                    let reasons = reasons(&rules, &existing);
                    existing.retain(|it| !reasons[&it.step].is_empty());
                    let expected = super::reasons(&rules, &written);
                    let kept: Vec<Step> =
                        written.iter().map(|it| it.step).filter(|it| !expected[it].is_empty()).collect();
                    let found: Vec<Step> = existing.iter().map(|it| it.step).collect();
                    assert_eq!(found, kept, "seed {seed}, {rules:?}");
                    assert!(found.contains(&step), "the newest is always kept");
                }
            }
        }
    }

    #[test]
    fn the_best_are_the_lowest_except_for_accuracies_and_the_older_of_equals() {
        let figures = [(1, 3.0), (2, 1.0), (3, 1.0), (4, 2.0), (5, f64::INFINITY)];
        let all = figures.map(|(step, figure)| Candidate { step: Step(step), figure: Some(figure), pinned: false });
        let best = |by: &str, keep_best| {
            let rules = CheckpointConfig { keep_best, best_by: by.to_owned(), ..CheckpointConfig::default() };
            best(&rules, &all).into_iter().map(|step| step.0).collect::<Vec<_>>()
        };
        assert_eq!(best("valid/mlm", 3), [2, 3, 4]);
        for by in ["valid/mlm.accuracy", "rtd.accuracy_replaced", "clm.copy.gain", "tc.positive_cosine"] {
            assert_eq!(best(by, 2), [1, 4]);
        }
        assert_eq!(best("tc.negative_cosine", 1), [2]);
    }
}
