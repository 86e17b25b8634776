//! How long things are: counts that take the same room for ten lengths and for ten billion.

/// Classes of an octave: a length is known to a sixteenth.
const PER_OCTAVE: u32 = 16;

/// Counts of lengths. Those below 32 are kept as they are, longer ones to a sixteenth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// By class: how many, and the sum of their lengths.
    classes: Vec<(u64, u64)>,
    max: u64,
}

impl Lengths {
    /// Counts one.
    pub fn add(&mut self, length: u64) {
        let class = class_of(length);
        if self.classes.len() <= class {
            self.classes.resize(class + 1, (0, 0));
        }
        self.classes[class].0 += 1;
        self.classes[class].1 += length;
        self.max = self.max.max(length);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.classes.iter().map(|class| class.0).sum()
    }

    /// The sum of all.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.classes.iter().map(|class| class.1).sum()
    }

    /// The longest.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean; 0 of nothing.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum() as f64 / self.count().max(1) as f64
    }

    /// The length that a share of all do not exceed, to a sixteenth: the mean of its class. 0 of nothing.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let wanted = (share * self.count() as f64).max(1.0);
        let mut so_far = 0;
        for &(count, sum) in &self.classes {
            so_far += count;
            if so_far as f64 >= wanted {
                return sum as f64 / count.max(1) as f64;
            }
        }
        0.0
    }

    /// By octaves, from the first that has any to the last: the least length, how many there are up to twice that, and
    /// their sum. The first begins at 0 where there are empty ones.
    #[must_use]
    pub fn octaves(&self) -> Vec<(u64, u64, u64)> {
        let mut octaves: Vec<(u64, u64, u64)> = Vec::new();
        for (class, &(count, sum)) in self.classes.iter().enumerate() {
            let least = least_of(class);
            let octave = if least == 0 { 0 } else { 1 << least.ilog2() };
            match octaves.last_mut() {
                Some(last) if last.0 == octave => (last.1, last.2) = (last.1 + count, last.2 + sum),
                Some(_) => octaves.push((octave, count, sum)),
                None if count > 0 => octaves.push((octave, count, sum)),
                None => {}
            }
        }
        octaves
    }
}

fn class_of(length: u64) -> usize {
    let exact = u64::from(2 * PER_OCTAVE);
    let class = match length.checked_ilog2() {
        Some(octave) if length >= exact => {
            // The four bits behind the first one.
            let within = (length >> (octave - PER_OCTAVE.ilog2())) - u64::from(PER_OCTAVE);
            exact + u64::from(octave - exact.ilog2()) * u64::from(PER_OCTAVE) + within
        }
        _ => length,
    };
    usize::try_from(class).expect("there are a thousand classes")
}

/// The least length of a class.
fn least_of(class: usize) -> u64 {
    let (class, exact, per) = (class as u64, u64::from(2 * PER_OCTAVE), u64::from(PER_OCTAVE));
    if class < exact {
        return class;
    }
    let (octave, within) = ((class - exact) / per, (class - exact) % per);
    (per + within) << (octave + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lengths: impl IntoIterator<Item = u64>) -> Lengths {
        let mut counted = Lengths::default();
        lengths.into_iter().for_each(|length| counted.add(length));
        counted
    }

    #[test]
    fn every_length_has_the_class_whose_least_is_within_a_sixteenth() {
        for length in (0..5000).chain([u64::from(u32::MAX), 1 << 40, (1 << 40) + 12345, u64::MAX >> 1]) {
            let (class, least) = (class_of(length), least_of(class_of(length)));
            assert!(least <= length && length - least <= length / 16, "{length}: class {class} from {least}");
            assert_eq!(class_of(least), class, "{length}");
            assert!(length == 0 || class_of(length - 1) + 1 >= class, "{length}: no class is skipped");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_list_to_a_sixteenth() {
        let lengths: Vec<u64> = (1..=1000_u64).map(|number| number * number / 10).collect();
        let counted = of(lengths.iter().copied());
        assert_eq!((counted.count(), counted.sum(), counted.max()), (1000, lengths.iter().sum(), 100_000));
        for share in [0.01_f64, 0.25, 0.5, 0.9, 1.0] {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a thousand")]
            let exact = lengths[(share * 1000.0) as usize - 1] as f64;
            let found = counted.quantile(share);
            assert!((found - exact).abs() <= exact / 16.0 + 1e-9, "{share}: {found}, exactly {exact}");
        }
        let nothing = Lengths::default();
        assert!(nothing.quantile(0.5).abs() < 1e-9 && nothing.mean().abs() < 1e-9 && nothing.octaves().is_empty());
    }

    #[test]
    fn octaves_are_without_gaps_and_hold_everything() {
        let counted = of([3, 3, 40, 700, 701]);
        let octaves = counted.octaves();
        assert_eq!(octaves.iter().map(|octave| octave.0).collect::<Vec<_>>(), [2, 4, 8, 16, 32, 64, 128, 256, 512]);
        assert_eq!((octaves[0], octaves[8]), ((2, 2, 6), (512, 2, 1401)));
        assert_eq!(octaves.iter().map(|octave| octave.2).sum::<u64>(), counted.sum());
        assert_eq!(of([0, 0, 1]).octaves(), [(0, 2, 0), (1, 1, 1)]);
    }
}
