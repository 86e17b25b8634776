//! Means and their standard errors.

/// Running mean with its standard error.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mean {
    count: f64,
    average: f64,
    squares: f64,
}

impl Mean {
    /// Adds a value (Welford).
    pub(crate) fn add(&mut self, value: f64) {
        self.count += 1.0;
        let gap = value - self.average;
        self.average += gap / self.count;
        self.squares += gap * (value - self.average);
    }

    /// Returns the number of values.
    pub(crate) fn count(&self) -> f64 {
        self.count
    }

    /// Returns the mean; NaN without values.
    pub(crate) fn mean(&self) -> f64 {
        if self.count == 0.0 { f64::NAN } else { self.average }
    }

    /// Returns the standard deviation with divisor n − 1; NaN with fewer than two values.
    pub(crate) fn deviation(&self) -> f64 {
        if self.count < 2.0 { f64::NAN } else { (self.squares / (self.count - 1.0)).sqrt() }
    }

    /// Returns the standard error of the mean; NaN with fewer than two values.
    pub(crate) fn error(&self) -> f64 {
        self.deviation() / self.count.sqrt()
    }
}

impl FromIterator<f64> for Mean {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Self {
        let mut mean = Self::default();
        values.into_iter().for_each(|value| mean.add(value));
        mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_of_nothing_are_undefined() {
        let none = Mean::default();
        let one = [3.0].into_iter().collect::<Mean>();
        assert!(none.mean().is_nan() && none.deviation().is_nan() && one.error().is_nan());
        let all = [1.0, 2.0, 3.0, 6.0].into_iter().collect::<Mean>();
        assert!((all.mean() - 3.0).abs() < 1e-15 && (all.deviation() - (14.0_f64 / 3.0).sqrt()).abs() < 1e-15);
        assert!((all.error() - (14.0_f64 / 12.0).sqrt()).abs() < 1e-15);
    }
}
