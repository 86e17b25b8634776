//! Which checkpoints stay, as a pure function of what is there.
//!
//! # Definition
//! A checkpoint stays if it is one of the `keep` newest, if its step is a multiple of `keep_every_steps`, if it is one of
//! the `keep_best` best by `best_by` among those that were validated, or if somebody pinned it. What is best only gets
//! rarer as a run goes on: who is not among the best of those that are there will not be among the best of all. So what
//! is removed by this rule would not have stayed by it later either, whatever is killed in between.

use std::collections::BTreeMap;

use schemas::ordinal::Step;
use serde::Serialize;

use crate::config::CheckpointConfig;

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
pub enum Reason {
    /// It is one of the newest.
    Newest,
    /// Its step is one of those that stay for ever.
    Milestone,
    /// It is one of the best.
    Best,
    /// Somebody pinned it.
    Pinned,
}

/// Why each stays; one without a reason goes.
pub(super) fn reasons(rules: &CheckpointConfig, all: &[Candidate]) -> BTreeMap<Step, Vec<Reason>> {
    let mut reasons: BTreeMap<Step, Vec<Reason>> = all.iter().map(|it| (it.step, Vec::new())).collect();
    let newest: Vec<Step> = reasons.keys().rev().take(rules.keep).copied().collect();
    let every = rules.keep_every_steps;
    let milestones = all.iter().filter(|it| every > 0 && it.step.0.is_multiple_of(every)).map(|it| it.step).collect();
    let pinned = all.iter().filter(|it| it.pinned).map(|it| it.step).collect();
    let found: [(Reason, Vec<Step>); 4] = [
        (Reason::Newest, newest),
        (Reason::Milestone, milestones),
        (Reason::Best, best(rules, all)),
        (Reason::Pinned, pinned),
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
