//! Histogram of lengths, in memory that does not depend on the number of lengths.

/// Classes per octave: the relative precision of a length is 1/16.
const PER_OCTAVE: u32 = 16;

/// Histogram of lengths. Those below 32 are exact, longer ones have a precision of 1/16.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// Number and sum of the lengths of each class.
    classes: Vec<(u64, u64)>,
    max: u64,
}

/// Lengths from a power of two up to twice that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Octave {
    /// Least length: 0 or a power of two.
    pub least: u64,
    /// Number of lengths.
    pub count: u64,
    /// Sum of the lengths.
    pub sum: u64,
}

impl Lengths {
    /// Counts one length.
    pub fn add(&mut self, length: u64) {
        let class = class_of(length);
        if self.classes.len() <= class {
            self.classes.resize(class + 1, (0, 0));
        }
        self.classes[class].0 += 1;
        self.classes[class].1 += length;
        self.max = self.max.max(length);
    }

    /// Returns the number of lengths.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.classes.iter().map(|class| class.0).sum()
    }

    /// Returns the sum of all lengths.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.classes.iter().map(|class| class.1).sum()
    }

    /// Returns the largest length.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the mean; 0 if there are no lengths.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum() as f64 / self.count().max(1) as f64
    }

    /// Returns the quantile `share`, to a precision of 1/16: the mean of its class. 0 if there are no lengths.
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

    /// Returns the non-empty range of octaves. The first octave begins at 0 if there are empty documents.
    #[must_use]
    pub fn octaves(&self) -> Vec<Octave> {
        let mut octaves: Vec<Octave> = Vec::new();
        for (class, &(count, sum)) in self.classes.iter().enumerate() {
            let least = least_of(class);
            let least = if least == 0 { 0 } else { 1 << least.ilog2() };
            match octaves.last_mut() {
                Some(last) if last.least == least => {
                    last.count += count;
                    last.sum += sum;
                }
                None if count == 0 => {}
                _ => octaves.push(Octave { least, count, sum }),
            }
        }
        octaves
    }
}

fn class_of(length: u64) -> usize {
    let exact = u64::from(2 * PER_OCTAVE);
    let class = match length.checked_ilog2() {
        Some(octave) if length >= exact => {
            // Four bits after the leading one.
            let within = (length >> (octave - PER_OCTAVE.ilog2())) - u64::from(PER_OCTAVE);
            exact + u64::from(octave - exact.ilog2()) * u64::from(PER_OCTAVE) + within
        }
        _ => length,
    };
    usize::try_from(class).expect("there are a thousand classes")
}

/// Returns the least length of a class.
fn least_of(class: usize) -> u64 {
    let class = class as u64;
    let exact = u64::from(2 * PER_OCTAVE);
    let per = u64::from(PER_OCTAVE);
    if class < exact {
        return class;
    }
    let octave = (class - exact) / per;
    let within = (class - exact) % per;
    (per + within) << (octave + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths_of(lengths: impl IntoIterator<Item = u64>) -> Lengths {
        let mut counted = Lengths::default();
        lengths.into_iter().for_each(|length| counted.add(length));
        counted
    }

    #[test]
    fn length_class_is_within_a_sixteenth() {
        for length in (0..5000).chain([u64::from(u32::MAX), 1 << 40, (1 << 40) + 12345, u64::MAX >> 1]) {
            let class = class_of(length);
            let least = least_of(class_of(length));
            assert!(least <= length && length - least <= length / 16, "{length}: class {class} from {least}");
            assert_eq!(class_of(least), class, "{length}");
            assert!(length == 0 || class_of(length - 1) + 1 >= class, "{length}: no class is skipped");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_list_to_a_sixteenth() {
        let lengths: Vec<u64> = (1..=1000_u64).map(|number| number * number / 10).collect();
        let counted = lengths_of(lengths.iter().copied());
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
        let counted = lengths_of([3, 3, 40, 700, 701]);
        let octaves = counted.octaves();
        assert_eq!(octaves.iter().map(|octave| octave.least).collect::<Vec<_>>(), [2, 4, 8, 16, 32, 64, 128, 256, 512]);
        assert_eq!(octaves[0], Octave { least: 2, count: 2, sum: 6 });
        assert_eq!(octaves[8], Octave { least: 512, count: 2, sum: 1401 });
        assert_eq!(octaves.iter().map(|octave| octave.sum).sum::<u64>(), counted.sum());
        let octaves = lengths_of([0, 0, 1]).octaves();
        assert_eq!(octaves, [Octave { least: 0, count: 2, sum: 0 }, Octave { least: 1, count: 1, sum: 1 }]);
    }
}
