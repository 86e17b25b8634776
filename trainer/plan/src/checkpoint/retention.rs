//! Retention of checkpoints: the rule, as a pure function of the checkpoints that exist, and what removes, pins and copies them.
//!
//! # Definition
//! A checkpoint stays if it is one of the `keep` newest, if its step is a multiple of `keep_every_steps`, if it is one of
//! the `keep_best` best by `best_by` among those that were validated, or if somebody pinned it. What is best only gets
//! rarer as a run continues: who is not among the best of those that are there will not be among the best of all. So what
//! is removed by this rule would not have stayed by it later either, whatever is killed in between.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::SystemTime;

use schemas::Sealed;
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};
use store::Store;

use super::list::{CheckpointForm, figures, folder_name, list, steps, there, within};
use super::{CONFIG_FILE, DAMAGED_FILE, FOLDER, LATEST, PINNED_FILE, STATE_FILE, State};
use crate::config::CheckpointConfig;
use crate::error::Error;

/// A checkpoint, as far as the rule looks at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    /// Steps done.
    pub step: Step,
    /// What its validation found of the figure in question.
    pub figure: Option<f64>,
    /// Whether somebody pinned it.
    pub pinned: bool,
}

/// Why a checkpoint stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepReason {
    /// It is one of the newest.
    Newest,
    /// Its step is one of those that stay forever.
    Milestone,
    /// It is one of the best.
    Best,
    /// Somebody pinned it.
    Pinned,
}

/// Why each stays; one without a reason goes.
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

/// The best, the best one first.
fn best(rules: &CheckpointConfig, all: &[Candidate]) -> Vec<Step> {
    let sign = if is_better_high(&rules.best_by) { -1.0 } else { 1.0 };
    let finite = |it: &Candidate| it.figure.filter(|figure| figure.is_finite()).map(|figure| (sign * figure, it.step));
    let mut ranked: Vec<(f64, Step)> = all.iter().filter_map(finite).collect();
    ranked.sort_by(|(a, first), (b, second)| a.total_cmp(b).then(first.cmp(second)));
    ranked.into_iter().take(rules.keep_best).map(|(_, step)| step).collect()
}

/// Whether more of a figure is better.
pub(super) fn is_better_high(figure: &str) -> bool {
    let name = figure.rsplit('.').next().unwrap_or(figure);
    name.contains("accuracy") || name == "positive_cosine"
}

/// A checkpoint as it lies there.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Steps done.
    pub step: Step,
    /// Where it is.
    pub place: String,
    /// Of all its objects.
    pub bytes: u64,
    /// When it was written, by the clock of whoever keeps it.
    pub written: Option<SystemTime>,
    /// What its validation found; empty where its step was not validated.
    pub figures: BTreeMap<String, f64>,
    /// Why it stays; empty for what was set aside as damaged, or left unfinished.
    pub why: Vec<KeepReason>,
    /// Whether it is one, as far as can be seen without reading it.
    pub is_there: bool,
}

/// Everything that lies among the checkpoints of a run, the oldest first, with why it stays by these rules.
///
/// # Errors
/// [`Error::Io`] if the folder cannot be listed.
pub fn shelf(run: &Store, rules: &CheckpointConfig) -> Result<Vec<Listed>, Error> {
    let checkpoints = run.within(FOLDER);
    let found = list(&checkpoints)?;
    let mut listed: BTreeMap<Step, Listed> = BTreeMap::new();
    for (&Reverse(step), form) in &found {
        let checkpoint = checkpoints.within(&folder_name(step));
        let entries = checkpoint.list("")?;
        let state = entries.iter().find(|entry| entry.name == STATE_FILE);
        let written = state.map(|state| state.stat.modified);
        let (place, bytes) = (checkpoint.place(""), entries.iter().map(|entry| entry.stat.bytes).sum());
        let figures = figures(&checkpoint, step)?;
        let is_there = *form == CheckpointForm::Whole;
        listed.insert(step, Listed { step, place, bytes, written, figures, why: Vec::new(), is_there });
    }
    let mut candidates = Vec::new();
    for it in listed.values().filter(|it| it.is_there) {
        let pinned = checkpoints.within(&folder_name(it.step)).stat(PINNED_FILE)?.is_some();
        candidates.push(Candidate { step: it.step, figure: it.figures.get(&rules.best_by).copied(), pinned });
    }
    for (step, why) in reasons(rules, &candidates) {
        if let Some(it) = listed.get_mut(&step) {
            it.why = why;
        }
    }
    Ok(listed.into_values().collect())
}

/// Somebody's wish that a checkpoint stays: `pinned.json` in its folder. That it is there is what counts.
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

/// Makes the checkpoint after `step` stay, whatever the rules say.
///
/// # Errors
/// [`Error::Config`] if there is none.
pub fn pin(run: &Store, step: Step) -> Result<(), Error> {
    there(run, step)?.put(PINNED_FILE, &Pin { step }.seal())?;
    Ok(())
}

/// Lets the rules decide about it again, at the next checkpoint that is written. Returns whether it was pinned.
///
/// # Errors
/// [`Error::Config`] if there is none.
pub fn unpin(run: &Store, step: Step) -> Result<bool, Error> {
    let checkpoint = there(run, step)?;
    let was_pinned = checkpoint.stat(PINNED_FILE)?.is_some();
    checkpoint.remove(PINNED_FILE)?;
    Ok(was_pinned)
}

/// Removes the checkpoint after `step` for good.
///
/// # Errors
/// [`Error::Config`] if there is none, if it is pinned, or if the run would go on from it.
pub fn remove(run: &Store, step: Step) -> Result<(), Error> {
    let checkpoint = there(run, step)?;
    let refuse = |problem: &str| Err(Error::Config(format!("{}: {problem}", checkpoint.place(""))));
    if checkpoint.stat(PINNED_FILE)?.is_some() {
        return refuse("it is pinned; unpin it first");
    }
    if steps(run)?.first() == Some(&step) {
        return refuse(
            "the run continues from it; to go back to an older one, use `cloze rollback`, which keeps this one",
        );
    }
    Ok(discard(run, step)?)
}

/// Copies the checkpoint after `step` to another run, or to what is undone. Its state comes last, since with it there is a
/// checkpoint: that state, or as it is.
pub fn copy(from: &Store, step: Step, to: &Store, state: Option<&State>) -> std::io::Result<()> {
    let (source, target) = (within(from, step), within(to, step));
    let mut entries = source.list("")?;
    entries.sort_by_key(|entry| entry.name == STATE_FILE);
    for entry in entries {
        if let Some(state) = state.filter(|_| entry.name == STATE_FILE) {
            target.put(STATE_FILE, &state.seal())?;
            continue;
        }
        let mut put = target.begin(&entry.name)?;
        for piece in source.pieces(&entry.name, entry.stat.bytes) {
            put.write_all(&piece?)?;
        }
        put.commit()?;
    }
    Ok(())
}

/// Removes the checkpoint after `step`, and a pin of it.
pub fn discard(run: &Store, step: Step) -> std::io::Result<()> {
    clear(&within(run, step))
}

/// Points `latest` at the newest that is there and does not go.
pub(crate) fn point(run: &Store, going: &[Step]) -> std::io::Result<()> {
    let newest = steps(run)?.into_iter().find(|step| !going.contains(step));
    point_at(&run.within(FOLDER), newest)
}

/// Points `latest` at the checkpoint after that step; removes it for `None`.
pub fn point_at(checkpoints: &Store, newest: Option<Step>) -> std::io::Result<()> {
    match newest {
        Some(step) => checkpoints.put(LATEST, format!("{}\n", folder_name(step)).as_bytes()).map(|_| ()),
        None => checkpoints.remove(LATEST),
    }
}

/// Removes all of a checkpoint: its state first, so that it is none any more.
pub(super) fn clear(checkpoint: &Store) -> std::io::Result<()> {
    empty(checkpoint)?;
    checkpoint.remove_all("")
}

/// Removes all of a checkpoint but a pin, which is somebody's wish about whatever is made there. Its state goes first, and
/// then what `transformers` sees a model by.
pub fn empty(checkpoint: &Store) -> std::io::Result<()> {
    checkpoint.remove(STATE_FILE)?;
    checkpoint.remove(CONFIG_FILE)?;
    let others = checkpoint.list("")?.into_iter().filter(|entry| entry.name != PINNED_FILE);
    others.rev().try_for_each(|entry| checkpoint.remove(&entry.name))
}

/// Keeps the state of a damaged checkpoint under a name by which it is none.
pub fn set_aside(checkpoint: &Store, place: &str, problem: &str) -> Result<(), Error> {
    let kept = checkpoint.place(DAMAGED_FILE);
    tracing::error!(file = %place, %problem, %kept, "damaged checkpoint, taking an older one");
    if let Some((state, _)) = checkpoint.read_with_stat(STATE_FILE)? {
        checkpoint.put(DAMAGED_FILE, &state)?;
    }
    Ok(checkpoint.remove(STATE_FILE)?)
}

/// Removes the checkpoints that are `given_up`. What it cannot read is left for who reads it. Where none is left, the run
/// has not saved: it starts over.
///
/// # Errors
/// [`Error::Io`]; what was not removed is as it was.
pub fn invalidate(run: &Store, given_up: impl Fn(&State) -> bool) -> Result<(), Error> {
    let mut going = Vec::new();
    for step in steps(run)? {
        let Some((bytes, _)) = within(run, step).read_with_stat(STATE_FILE)? else { continue };
        if State::unseal(&bytes).is_ok_and(|state| given_up(&state)) {
            going.push(step);
        }
    }
    if going.is_empty() {
        return Ok(());
    }
    // What `latest` names has to be there, whatever is killed in between.
    point(run, &going)?;
    for step in going {
        tracing::info!(step = step.0, "removing a checkpoint of steps that are undone");
        discard(run, step)?;
    }
    Ok(())
}

/// Every checkpoint that is there, as far as the rules look at it.
pub(super) fn candidates(checkpoints: &Store, rules: &CheckpointConfig) -> std::io::Result<Vec<Candidate>> {
    let whole = list(checkpoints)?.into_iter().filter(|(_, form)| *form == CheckpointForm::Whole);
    whole
        .map(|(Reverse(step), _)| {
            let checkpoint = checkpoints.within(&folder_name(step));
            // Read only where something depends on them.
            let figures = if rules.keep_best > 0 { figures(&checkpoint, step)? } else { BTreeMap::new() };
            let pinned = checkpoint.stat(PINNED_FILE)?.is_some();
            Ok(Candidate { step, figure: figures.get(&rules.best_by).copied(), pinned })
        })
        .collect()
}

/// Removes what the rules let go, but for the newest checkpoint of at most `judged` steps: a step that nobody has judged yet
/// may have to be undone, however many checkpoints were made since. What was set aside and is newer than the oldest of the newest stays until the run comes
/// to its step.
pub fn retain(checkpoints: &Store, rules: &CheckpointConfig, judged: Option<Step>) -> std::io::Result<()> {
    let candidates = candidates(checkpoints, rules)?;
    let way_back =
        candidates.iter().map(|it| it.step).filter(|step| judged.is_some_and(|judged| *step <= judged)).max();
    let reasons = reasons(rules, &candidates);
    let newest = reasons.iter().find(|(_, why)| why.contains(&KeepReason::Newest)).map(|(&step, _)| step);
    for (Reverse(step), form) in list(checkpoints)?.into_iter().rev() {
        let goes = match form {
            CheckpointForm::Whole => reasons.get(&step).is_some_and(Vec::is_empty) && way_back != Some(step),
            CheckpointForm::SetAside | CheckpointForm::Unfinished => newest.is_some_and(|oldest| step < oldest),
        };
        if goes {
            clear(&checkpoints.within(&folder_name(step)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that nobody chose, the same every time.
    fn draws(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        move |below| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        }
    }

    /// All that were ever there, and the rule over all of them at once.
    #[test]
    fn what_is_there_after_any_course_of_a_run_is_what_the_rule_says_of_all_of_it() {
        for seed in 0..400 {
            let mut draw = draws(seed);
            let rules = CheckpointConfig {
                keep: 1 + usize::try_from(draw(4)).expect("small"),
                keep_every_steps: [0, 6, 10][usize::try_from(draw(3)).expect("small")],
                keep_best: usize::try_from(draw(4)).expect("small"),
                best_by: ["loss", "mlm.accuracy"][usize::try_from(draw(2)).expect("small")].to_owned(),
                ..CheckpointConfig::default()
            };
            let (mut ever, mut there): (Vec<Candidate>, Vec<Candidate>) = (Vec::new(), Vec::new());
            for step in (2..60).step_by(2).map(Step) {
                let figure = match draw(4) {
                    0 => None,
                    1 => Some(f64::NAN),
                    _ => Some(draw(6) as f64),
                };
                let candidate = Candidate { step, figure, pinned: draw(9) == 0 };
                ever.push(candidate);
                there.push(candidate);
                // A kill before anything is removed: the next time removes it.
                if draw(3) > 0 {
                    let reasons = reasons(&rules, &there);
                    there.retain(|it| !reasons[&it.step].is_empty());
                    let expected = super::reasons(&rules, &ever);
                    let stay: Vec<Step> = ever.iter().map(|it| it.step).filter(|it| !expected[it].is_empty()).collect();
                    let found: Vec<Step> = there.iter().map(|it| it.step).collect();
                    assert_eq!(found, stay, "seed {seed}, {rules:?}");
                    assert!(found.contains(&step), "the newest always stays");
                }
            }
        }
    }

    #[test]
    fn the_best_are_the_lowest_but_of_accuracies_and_the_older_of_equals() {
        let figures = [(1, 3.0), (2, 1.0), (3, 1.0), (4, 2.0), (5, f64::INFINITY)];
        let all = figures.map(|(step, figure)| Candidate { step: Step(step), figure: Some(figure), pinned: false });
        let best = |by: &str, keep_best| {
            let rules = CheckpointConfig { keep_best, best_by: by.to_owned(), ..CheckpointConfig::default() };
            best(&rules, &all).into_iter().map(|step| step.0).collect::<Vec<_>>()
        };
        assert_eq!(best("valid/mlm", 3), [2, 3, 4]);
        for by in ["valid/mlm.accuracy", "rtd.accuracy_replaced", "tc.positive_cosine"] {
            assert_eq!(best(by, 2), [1, 4]);
        }
        assert_eq!(best("tc.negative_cosine", 1), [2]);
    }
}
