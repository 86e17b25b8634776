//! Sampling from a weighted distribution in constant time.

/// The alias table of a list of weights: one column per choice, of equal probability, each shared by at most two
/// choices (Walker, *An Efficient Method for Generating Discrete Random Variables*, ACM TOMS 1977; Vose's construction,
/// 1991). Integer arithmetic throughout: the same weights give the same table everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AliasTable {
    /// Threshold of each column: for smaller coins the column selects its own choice.
    keep: Vec<u32>,
    /// Other choice of each column.
    alias: Vec<u32>,
}

impl AliasTable {
    /// Builds the table of `weights`; if all are 0, every choice is equally likely.
    ///
    /// # Panics
    /// If there are no weights, or 2^32 and more.
    #[must_use]
    pub(crate) fn new(weights: impl IntoIterator<Item = u64>) -> Self {
        let mut left: Vec<u128> = weights.into_iter().map(u128::from).collect();
        if left.iter().all(|&weight| weight == 0) {
            left.fill(1);
        }
        let columns = u32::try_from(left.len()).expect("choices are numbered in 32 bits");
        // A column holds `total`, after each weight is scaled by the number of columns.
        let total: u128 = left.iter().sum();
        for weight in &mut left {
            *weight *= u128::from(columns);
        }
        let (mut small, mut large): (Vec<u32>, Vec<u32>) = (0..columns).partition(|&at| left[at as usize] < total);
        let mut table = Self { keep: vec![u32::MAX; left.len()], alias: (0..columns).collect() };
        while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
            small.pop();
            let share = (left[poor as usize] << 32) / total;
            table.keep[poor as usize] = u32::try_from(share).expect("less than a full column");
            table.alias[poor as usize] = rich;
            left[rich as usize] -= total - left[poor as usize];
            if left[rich as usize] < total {
                large.pop();
                small.push(rich);
            }
        }
        table
    }

    /// Returns the choice for a uniform `column`, below the number of choices, and a uniform 32-bit `coin`.
    #[inline]
    #[must_use]
    pub(crate) fn pick(&self, column: u32, coin: u32) -> u32 {
        if coin < self.keep[column as usize] { column } else { self.alias[column as usize] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the exact probability of each choice, summed over columns and coins.
    fn probabilities(table: &AliasTable) -> Vec<f64> {
        let mut shares = vec![0.0; table.keep.len()];
        for (column, (&keep, &alias)) in table.keep.iter().zip(&table.alias).enumerate() {
            let keep = f64::from(keep) / 4_294_967_296.0;
            shares[column] += keep;
            shares[alias as usize] += 1.0 - keep;
        }
        shares.iter().map(|share| share / table.keep.len() as f64).collect()
    }

    #[test]
    fn choices_are_as_likely_as_they_weigh() {
        let zipf: Vec<u64> = (1..30_000).map(|rank| 1_000_000_000_000 / rank).collect();
        for weights in [vec![7], vec![1, 3], vec![0, 5, 0], vec![u64::MAX, 1, u64::MAX], vec![1; 11], zipf] {
            let total: f64 = weights.iter().map(|&weight| weight as f64).sum();
            let table = AliasTable::new(weights.iter().copied());
            for (probability, &weight) in probabilities(&table).iter().zip(&weights) {
                assert!((probability - weight as f64 / total).abs() < 1e-9, "{weight} of {total}: {probability}");
            }
        }
    }

    #[test]
    fn zero_weights_are_never_drawn_and_all_zero_is_uniform() {
        let table = AliasTable::new([0, 4, 0]);
        assert!((0..3).all(|column| [0, 1, u32::MAX].iter().all(|&coin| table.pick(column, coin) == 1)));
        assert_eq!(AliasTable::new([0, 0]), AliasTable::new([3, 3]));
    }
}
