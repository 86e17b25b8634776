//! Few examples of each class, for training and for validation.

use serde::{Deserialize, Serialize};
use tasks::task::ExampleSet;
use tasks::task::SetPurpose;
use tasks::{Example, Gold, TaskOutput};

use crate::exit::Usage;

/// Name of the set of examples that validates a fine-tuning on few examples.
pub(crate) const FEW_SHOT_DEV: &str = "few_shot_dev";

/// Number of examples of each class, drawn from a training set by a seed.
///
/// The seed orders the examples of a class by a hash of their number. The first `shots` are trained on, the next `shots`
/// validate. So fewer shots with the same seed are a subset. The examples stay in the order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FewShot {
    pub(crate) shots: u64,
    pub(crate) seed: u64,
}

/// Drawn examples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FewShotSplit {
    /// Examples to train on.
    pub train: Vec<Example>,
    /// Examples to validate on.
    pub dev: Vec<Example>,
}

impl FewShot {
    /// Checks that a task has classes.
    ///
    /// # Errors
    /// If it has none.
    pub(crate) fn check(output: &TaskOutput, task: &str) -> Result<(), Usage> {
        if matches!(output, TaskOutput::Class { .. }) {
            return Ok(());
        }
        let message = "the task has no classes of texts, of which examples are drawn; use --train-fraction";
        Err(Usage(format!("--shots, task `{task}`: {message}")))
    }

    /// Returns the number of training examples of a task.
    pub(crate) fn size(self, output: &TaskOutput) -> u64 {
        self.shots * output.labels().len() as u64
    }

    /// Draws the examples.
    ///
    /// # Errors
    /// If a class has too few examples.
    pub(super) fn split(self, examples: Vec<Example>, output: &TaskOutput) -> Result<FewShotSplit, Usage> {
        let shots = usize::try_from(self.shots).unwrap_or(usize::MAX);
        let mut places = vec![Place::Neither; examples.len()];
        for (class, label) in (0..).zip(output.labels()) {
            let numbers = examples.iter().enumerate().filter(|(_, example)| example.gold == Gold::Class(class));
            let mut ranked: Vec<([u8; 32], usize)> =
                numbers.map(|(number, _)| (self.rank(number as u64), number)).collect();
            if ranked.len() < shots.saturating_mul(2) {
                return Err(Usage(format!(
                    "--shots {}: the training set has {} examples of `{label}`, {} are needed to train and as many to \
                     validate; write at most {}",
                    self.shots,
                    ranked.len(),
                    self.shots,
                    ranked.len() / 2
                )));
            }
            ranked.sort_unstable();
            for (rank, (_, number)) in ranked.into_iter().take(2 * shots).enumerate() {
                places[number] = if rank < shots { Place::Train } else { Place::Dev };
            }
        }
        let mut split = FewShotSplit::default();
        for (example, place) in examples.into_iter().zip(places) {
            match place {
                Place::Train => split.train.push(example),
                Place::Dev => split.dev.push(example),
                Place::Neither => {}
            }
        }
        Ok(split)
    }

    fn rank(self, number: u64) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"few shots").update(&self.seed.to_le_bytes()).update(&number.to_le_bytes());
        *hasher.finalize().as_bytes()
    }
}

/// Split that an example is drawn for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Train,
    Dev,
    Neither,
}

/// Returns the set of the examples that validate, as a part of the training set.
#[must_use]
pub fn few_shot_dev(sets: &[ExampleSet]) -> Option<ExampleSet> {
    let train = sets.iter().find(|set| set.purpose == SetPurpose::Train)?;
    let name = FEW_SHOT_DEV.to_owned();
    Some(ExampleSet { name, purpose: SetPurpose::Dev, submission: None, ..train.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output() -> TaskOutput {
        TaskOutput::Class { labels: vec!["no".to_owned(), "yes".to_owned()] }
    }

    /// Every third example is of the second class.
    fn examples(count: usize) -> Vec<Example> {
        let example = |number: usize| Example {
            id: number.to_string(),
            line: number as u64 + 1,
            first: number.to_string(),
            second: None,
            words: Vec::new(),
            gold: Gold::Class(u32::from(number.is_multiple_of(3))),
        };
        (0..count).map(example).collect()
    }

    fn lines(examples: &[Example]) -> Vec<u64> {
        examples.iter().map(|example| example.line).collect()
    }

    #[test]
    fn each_class_has_its_shots_in_two_disjoint_splits() {
        let split = |shots, seed| FewShot { shots, seed }.split(examples(200), &output()).expect("enough");
        let [few, many] = [split(4, 1), split(16, 1)];
        for (split, shots) in [(&few, 4), (&many, 16)] {
            for examples in [&split.train, &split.dev] {
                assert!(lines(examples).is_sorted());
                for class in 0..2 {
                    let count = examples.iter().filter(|it| it.gold == Gold::Class(class)).count();
                    assert_eq!(count, shots);
                }
            }
            assert!(split.dev.iter().all(|example| !split.train.contains(example)));
        }
        assert!(few.train.iter().all(|example| many.train.contains(example)), "a subset");
        assert_eq!(few, split(4, 1));
        assert_ne!(few, split(4, 2));
    }

    #[test]
    fn a_class_with_too_few_examples_is_refused_with_the_most_that_fit() {
        let error = FewShot { shots: 4, seed: 1 }.split(examples(20), &output()).expect_err("7 of `yes`").to_string();
        assert!(error.contains("7 examples of `yes`") && error.contains("at most 3"), "{error}");
        assert!(FewShot::check(&TaskOutput::Score { range: 0.0..=1.0 }, "stsb").is_err());
        assert_eq!(FewShot { shots: 16, seed: 1 }.size(&output()), 32);
    }
}
