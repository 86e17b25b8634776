//! Relative positions: buckets of distances, with one trained bias each.
//!
//! # What
//! Maps the distance `key − query` to one of `buckets`. Near distances have a bucket each. Far distances share ranges that
//! grow geometrically. All distances beyond `max_distance` share the last bucket.
//!
//! # Definition
//! With `n` the distance without its sign, `half = buckets / 2` and `near = half / 2`:
//!
//! ```text
//! COCO-LM  f(n) = n below near, else min(half − 1, near + ⌈ln(n / near) / ln((max_distance − 1) / near) · (half − 1 − near)⌉)
//!          bucket = half − 1 + sign · f(n)
//! T5       f(n) = n below near, else min(half − 1, near + ⌊ln(n / near) / ln(max_distance / near) · (half − near)⌋)
//!          bucket = f(n) + half where the key is right of the query
//! ```
//!
//! Both use `2 · half − 1` of the buckets.
//!
//! # Reference
//! Raffel et al. 2020, "T5", section 2.1 and its released code; the released code of Meng et al. 2021, "COCO-LM",
//! whose offset, taken from the table of its longest row, is always `half − 1` here.

use serde::{Deserialize, Serialize};

/// Formula of the buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BucketForm {
    /// COCO-LM: keys left of the query have buckets below `half − 1`, keys right of it above.
    #[default]
    CocoLm,
    /// T5: keys left of the query have buckets from 0, keys right of it from `half`.
    T5,
}

/// Buckets of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Buckets {
    /// Formula.
    pub form: BucketForm,
    /// Number of buckets, even and at least 4.
    pub buckets: u16,
    /// Distance from which all distances share one bucket. Above `buckets / 4`, for COCO-LM by at least 2.
    pub max_distance: u16,
}

impl Default for Buckets {
    fn default() -> Self {
        Self { form: BucketForm::CocoLm, buckets: 32, max_distance: 128 }
    }
}

impl Buckets {
    /// Returns one message per invalid value.
    #[must_use]
    pub fn problems(self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.buckets < 4 || !self.buckets.is_multiple_of(2) {
            problems.push(format!("`num_buckets` is {}: write an even number of at least 4, usually 32", self.buckets));
        }
        // The logarithm that divides must be above 0.
        let least = self.buckets / 4 + if self.form == BucketForm::CocoLm { 2 } else { 1 };
        if self.max_distance < least {
            problems.push(format!(
                "`max_distance` is {}: {} buckets need at least {least}, usually 128",
                self.max_distance, self.buckets
            ));
        }
        problems
    }

    /// Returns the bucket of `distance` (key minus query), below `buckets`.
    #[must_use]
    pub fn bucket(self, distance: i64) -> i64 {
        let half = i64::from(self.buckets / 2);
        let far = self.magnitude(distance.unsigned_abs());
        match self.form {
            BucketForm::CocoLm => half - 1 + distance.signum() * far,
            BucketForm::T5 => far + if distance > 0 { half } else { 0 },
        }
    }

    /// Returns the buckets of all pairs of `width` positions, shape `[query, key]`, row by row.
    #[must_use]
    pub fn table(self, width: u16) -> Vec<i64> {
        let positions = 0..i64::from(width);
        positions.clone().flat_map(|query| positions.clone().map(move |key| self.bucket(key - query))).collect()
    }

    /// Computes `f(n)` of the module's definition.
    fn magnitude(self, n: u64) -> i64 {
        let half = self.buckets / 2;
        let near = half / 2;
        if n < u64::from(near) {
            return i64::try_from(n).expect("below 2¹⁴");
        }
        let [half, near, max_distance] = [half, near, self.max_distance].map(f64::from);
        let growth = (n as f64 / near).ln();
        let steps = match self.form {
            BucketForm::CocoLm => (growth / ((max_distance - 1.0) / near).ln() * (half - 1.0 - near)).ceil(),
            BucketForm::T5 => (growth / (max_distance / near).ln() * (half - near)).floor(),
        };
        #[expect(clippy::cast_possible_truncation, reason = "between 0 and 2¹⁵")]
        let bucket = (near + steps).min(half - 1.0) as i64;
        bucket
    }
}

#[cfg(test)]
mod tests {
    use super::{BucketForm, Buckets};

    fn buckets(form: BucketForm, buckets: u16, max_distance: u16) -> Buckets {
        Buckets { form, buckets, max_distance }
    }

    #[test]
    fn distances_fall_into_the_published_buckets() {
        let distances = [-511, -110, -17, -8, -1, 0, 1, 8, 9, 17, 110, 111, 511];
        let check =
            |of: Buckets, expected: [i64; 13]| assert_eq!(distances.map(|distance| of.bucket(distance)), expected);
        check(buckets(BucketForm::CocoLm, 32, 128), [0, 0, 5, 7, 14, 15, 16, 23, 24, 25, 30, 30, 30]);
        check(buckets(BucketForm::T5, 32, 128), [15, 15, 10, 8, 1, 0, 17, 24, 24, 26, 31, 31, 31]);
        check(buckets(BucketForm::CocoLm, 64, 128), [0, 1, 14, 23, 30, 31, 32, 39, 40, 48, 61, 62, 62]);
        check(buckets(BucketForm::CocoLm, 128, 256), [0, 12, 46, 55, 62, 63, 64, 71, 72, 80, 114, 114, 126]);
    }

    #[test]
    fn bucket_ranges_grow_with_the_distance() {
        /// Checks the first distance of each bucket to the right of the query.
        fn check(of: Buckets, alone: i64, starts: &[i64]) {
            let zero = if of.form == BucketForm::T5 { i64::from(of.buckets / 2) } else { of.bucket(0) };
            let expected: Vec<i64> = (1..=alone).chain(starts.iter().copied()).collect();
            let found: Vec<i64> = (1..1000).filter(|&n| of.bucket(n) != of.bucket(n - 1)).collect();
            assert_eq!(found, expected, "{of:?}");
            for (bucket, &start) in (1..).zip(&expected) {
                assert_eq!(of.bucket(start), zero + bucket, "{of:?}");
            }
        }
        check(buckets(BucketForm::CocoLm, 32, 128), 8, &[9, 12, 18, 27, 39, 58, 86]);
        // T5's own arithmetic, in float32 and in another language.
        check(buckets(BucketForm::T5, 32, 128), 7, &[8, 12, 16, 23, 32, 46, 64, 91]);
        let far = [16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113];
        check(buckets(BucketForm::T5, 64, 128), 15, &far);
        check(buckets(BucketForm::T5, 8, 20), 1, &[2, 7]);
        let far = [17, 19, 22, 25, 28, 32, 37, 43, 49, 56, 64, 74, 84, 97, 111];
        check(buckets(BucketForm::CocoLm, 64, 128), 16, &far);
        let last =
            |form| (1..1000).rfind(|&n| buckets(form, 128, 256).bucket(n) != buckets(form, 128, 256).bucket(n - 1));
        assert_eq!((last(BucketForm::CocoLm), last(BucketForm::T5)), (Some(239), Some(240)));
    }

    #[test]
    fn every_bucket_but_one_is_used_and_none_beyond() {
        for of in
            [buckets(BucketForm::CocoLm, 32, 128), buckets(BucketForm::T5, 32, 128), buckets(BucketForm::CocoLm, 4, 3)]
        {
            assert_eq!(of.problems(), [""; 0]);
            let found: std::collections::BTreeSet<i64> =
                (-70_000..70_000).map(|distance| of.bucket(distance)).collect();
            assert_eq!(found.len(), usize::from(of.buckets) - 1, "{of:?}");
            assert!(found.iter().all(|bucket| (0..i64::from(of.buckets)).contains(bucket)), "{of:?}");
        }
    }

    #[test]
    fn a_table_is_queries_by_keys() {
        let table = Buckets::default().table(3);
        assert_eq!(table, [15, 16, 17, 14, 15, 16, 13, 14, 15]);
    }

    #[test]
    fn invalid_bucket_counts_are_refused() {
        let problems = buckets(BucketForm::CocoLm, 31, 8).problems().join("; ");
        assert!(problems.contains("`num_buckets` is 31") && problems.contains("`max_distance` is 8"), "{problems}");
        assert_eq!(buckets(BucketForm::CocoLm, 32, 9).problems().len(), 1);
        assert_eq!(buckets(BucketForm::T5, 32, 9).problems().len(), 0);
    }
}
