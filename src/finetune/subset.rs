//! Part of a training set, for learning curves.

use serde::{Deserialize, Serialize};
use tasks::{Example, Gold, TaskOutput};
use telemetry::quantities::count;

/// Share of a training set, drawn by a seed.
///
/// The seed orders the examples by a hash of their number, and the subset is the first part of this order. So a smaller
/// share is a subset of a larger one with the same seed. The examples stay in the order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrainSubset {
    pub(crate) fraction: f64,
    pub(crate) seed: u64,
}

impl TrainSubset {
    /// Returns the subset of that share; `None` for the whole set.
    pub(crate) fn new(fraction: f64, seed: u64) -> Option<Self> {
        (fraction < 1.0).then_some(Self { fraction, seed })
    }

    /// Returns the size of a subset of `examples`: rounded, and at least 1.
    pub(crate) fn size(self, examples: u64) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a count")]
        let size = (examples as f64 * self.fraction).round() as u64;
        size.clamp(1, examples.max(1))
    }

    /// Keeps the examples of the subset.
    pub(super) fn choose(self, examples: Vec<Example>) -> Vec<Example> {
        let size = self.size(examples.len() as u64);
        let mut ranked: Vec<([u8; 32], usize)> =
            (0..examples.len()).map(|number| (self.rank(number as u64), number)).collect();
        ranked.sort_unstable();
        let size = usize::try_from(size).expect("at most the number of examples");
        let mut is_chosen = vec![false; examples.len()];
        ranked[..size.min(examples.len())].iter().for_each(|(_, number)| is_chosen[*number] = true);
        examples.into_iter().zip(is_chosen).filter_map(|(example, is_chosen)| is_chosen.then_some(example)).collect()
    }

    fn rank(self, number: u64) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"training subset").update(&self.seed.to_le_bytes()).update(&number.to_le_bytes());
        *hasher.finalize().as_bytes()
    }
}

/// Describes a subset: `0.1 of 1,688 examples: 169 (Background 86, Uses 30)`.
pub(super) fn describe(subset: TrainSubset, of: usize, examples: &[Example], output: &TaskOutput) -> String {
    let text = format!(
        "training on a share of {} of {} examples: {}",
        subset.fraction,
        count(of as u64),
        count(examples.len() as u64)
    );
    let TaskOutput::Class { labels } = output else { return text };
    let mut counts = vec![0_u64; labels.len()];
    for example in examples {
        if let Gold::Class(class) = example.gold {
            counts[class as usize] += 1;
        }
    }
    let counts = labels.iter().zip(counts).map(|(label, examples)| format!("{label} {}", count(examples)));
    format!("{text} ({})", counts.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples(count: usize) -> Vec<Example> {
        let example = |number: usize| Example {
            id: number.to_string(),
            line: number as u64 + 1,
            first: String::new(),
            second: None,
            words: Vec::new(),
            gold: Gold::Class(u32::from(number.is_multiple_of(3))),
        };
        (0..count).map(example).collect()
    }

    fn ids(fraction: f64, seed: u64) -> Vec<usize> {
        let chosen = TrainSubset { fraction, seed }.choose(examples(200));
        chosen.iter().map(|example| example.id.parse().expect("a number")).collect()
    }

    #[test]
    fn subsets_are_nested_ordered_and_drawn_by_the_seed() {
        let [small, large] = [0.1, 0.5].map(|fraction| ids(fraction, 1));
        assert_eq!((small.len(), large.len()), (20, 100));
        assert!(small.is_sorted() && small.iter().all(|id| large.contains(id)));
        assert_eq!(small, ids(0.1, 1));
        assert_ne!(small, ids(0.1, 2));
        assert_ne!(small, (0..20).collect::<Vec<_>>(), "not the first examples");
        assert_eq!(ids(0.001, 1).len(), 1, "never empty");
        assert_eq!(TrainSubset::new(1.0, 1), None);
    }

    #[test]
    fn a_description_counts_classes() {
        let labels = vec!["no".to_owned(), "yes".to_owned()];
        let subset = TrainSubset { fraction: 0.1, seed: 1 };
        let text = describe(subset, 90, &examples(9), &TaskOutput::Class { labels });
        assert_eq!(text, "training on a share of 0.1 of 90 examples: 9 (no 6, yes 3)");
        let text = describe(subset, 90, &examples(9), &TaskOutput::Score { range: 0.0..=1.0 });
        assert_eq!(text, "training on a share of 0.1 of 90 examples: 9");
    }
}
