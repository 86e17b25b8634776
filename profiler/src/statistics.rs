//! Statistics of noisy timings: estimates with intervals, and their formatting.

use telemetry::quantities::short;

/// Estimate with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Estimate {
    /// Returns half of the interval, as a share of the mean.
    pub fn spread(self) -> f64 {
        (self.high - self.low) / 2.0 / self.mean.abs().max(1e-300)
    }
}

/// Number of batches of a series. Adjacent batches of this length are nearly independent.
const BATCHES: usize = 16;

/// Estimates the mean of a series of equally long windows by the method of batch means (Law and Kelton, *Simulation
/// Modeling and Analysis*): adjacent windows are correlated, batches nearly are not.
pub fn mean_of(windows: &[f64]) -> Option<Estimate> {
    let batches = BATCHES.min(windows.len());
    if batches < 4 {
        return None;
    }
    let size = windows.len() / batches;
    // Windows that do not fill a batch are dropped at the start, where a series is least stationary.
    let kept = &windows[windows.len() - size * batches..];
    let means: Vec<f64> = kept.chunks(size).map(|batch| batch.iter().sum::<f64>() / size as f64).collect();
    let mean = means.iter().sum::<f64>() / batches as f64;
    let variance = means.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (batches - 1) as f64;
    let half = student(batches - 1) * (variance / batches as f64).sqrt();
    Some(Estimate { mean, low: mean - half, high: mean + half })
}

/// Returns the 97.5 % point of Student's distribution, within 1 % of the tables from 3 degrees of freedom (the first
/// terms of the Cornish-Fisher expansion).
fn student(freedom: usize) -> f64 {
    let z = 1.959_964_f64;
    let n = freedom as f64;
    let [g1, g2, g3] = [
        (z.powi(3) + z) / 4.0,
        (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
        (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
    ];
    z + g1 / n + g2 / n.powi(2) + g3 / n.powi(3)
}

/// Returns the number of warm-up windows at the start: those whose removal minimizes the error of the rest, at most
/// half of all (MSER; White 1997, "An effective truncation heuristic for bias reduction in simulation output").
pub(crate) fn warm_up(windows: &[f64]) -> usize {
    let most = windows.len() / 2;
    let error = |from: usize| {
        let rest = &windows[from..];
        let count = rest.len() as f64;
        let mean = rest.iter().sum::<f64>() / rest.len() as f64;
        rest.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (count * count)
    };
    let first = |best: usize, from: usize| if error(from) < error(best) { from } else { best };
    (1..=most).fold(0, first)
}

/// Returns the batch means of a series, as [`mean_of`] computes them. A bootstrap draws from these, since adjacent
/// windows are not independent.
pub fn batch_means(windows: &[f64]) -> Vec<f64> {
    let size = (windows.len() / BATCHES).max(1);
    let kept = &windows[windows.len() % size..];
    kept.chunks(size).map(|batch| batch.iter().sum::<f64>() / size as f64).collect()
}

/// Number of bootstrap draws.
pub(crate) const DRAWS: usize = 1000;

/// Generator of draws with replacement. It has a fixed seed, so results are reproducible.
pub(crate) struct BootstrapRng(u64);

impl Default for BootstrapRng {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl BootstrapRng {
    /// Returns the mean of `values.len()` values drawn with replacement.
    pub(crate) fn mean_of(&mut self, values: &[f64]) -> f64 {
        let mut sum = 0.0;
        for _ in 0..values.len() {
            // xorshift64*: sufficient for a bootstrap.
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            sum += values[(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % values.len()];
        }
        sum / values.len() as f64
    }
}

/// Returns an estimate whose interval is the middle 95 % of the drawn values.
pub(crate) fn interval_of(mean: f64, mut drawn: Vec<f64>) -> Estimate {
    drawn.sort_by(f64::total_cmp);
    let last = drawn.len() - 1;
    Estimate { mean, low: drawn[last / 40], high: drawn[last - last / 40] }
}

/// Returns the ratio of the means of two series, second to first, with its bootstrap interval. Both series are
/// resampled 1000 times from their batch means, with a fixed seed.
pub fn ratio_of(first: &[f64], second: &[f64]) -> Option<Estimate> {
    if first.len() < 4 || second.len() < 4 {
        return None;
    }
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let ratio = mean(second) / mean(first).max(1e-300);
    let mut dice = BootstrapRng::default();
    let [first, second] = [first, second].map(batch_means);
    let drawn = (0..DRAWS).map(|_| {
        let below = dice.mean_of(&first);
        dice.mean_of(&second) / below.max(1e-300)
    });
    Some(interval_of(ratio, drawn.collect()))
}

/// Formats a share as a percentage: `4.2 %`, `43 %`.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if (0.0..9.95).contains(&percent) { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// Returns the quartiles of some times.
pub fn quartiles(times: &[f64]) -> [f64; 3] {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarters| sorted[(sorted.len() - 1) * quarters / 4])
}

/// Formats nanoseconds.
pub fn nanoseconds(ns: f64) -> String {
    if ns < 99.95 { format!("{ns:.1}") } else { short(ns) }
}

/// Formats milliseconds with three digits: `1.23 ms`, `12.3 ms`, `123 ms`.
pub fn milliseconds(ms: f64) -> String {
    if ms < 9.995 {
        format!("{ms:.2} ms")
    } else if ms < 99.95 {
        format!("{ms:.1} ms")
    } else {
        format!("{ms:.0} ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deterministic pseudo-random numbers around 1.
    fn noise(count: u32) -> Vec<f64> {
        (0..count).map(|at| 1.0 + 0.2 * ((f64::from(at) * 12.9898).sin() * 43_758.547).fract()).collect()
    }

    #[test]
    fn student_points_match_the_tables() {
        for (freedom, table) in [(3, 3.182), (5, 2.571), (9, 2.262), (15, 2.131), (30, 2.042), (1000, 1.962)] {
            assert!((student(freedom) / table - 1.0).abs() < 1e-2, "{freedom}: {}", student(freedom));
        }
    }

    #[test]
    fn interval_contains_the_mean_and_shrinks() {
        let short = mean_of(&noise(32)).expect("enough");
        let long = mean_of(&noise(3200)).expect("enough");
        assert!(long.low < 1.0 + 0.01 && long.high > 1.0 - 0.01, "{long:?}");
        assert!(long.spread() < short.spread() / 3.0, "{short:?} {long:?}");
        assert_eq!(mean_of(&[1.0; 3]), None);
        assert!(mean_of(&[2.0; 40]).expect("enough").spread() < 1e-12);
    }

    #[test]
    fn warm_up_cuts_a_slow_start_only() {
        let mut course = vec![0.1, 0.2, 0.5, 0.8];
        course.extend(noise(100));
        let cut = warm_up(&course);
        assert!((3..=8).contains(&cut), "{cut}");
        assert!(warm_up(&noise(100)) < 30);
        assert_eq!((warm_up(&[]), warm_up(&[1.0])), (0, 0));
    }

    #[test]
    fn ratio_detects_a_real_difference() {
        let slower: Vec<f64> = noise(60).iter().map(|it| it * 0.9).collect();
        let ratio = ratio_of(&noise(60), &slower).expect("enough");
        assert!((ratio.mean - 0.9).abs() < 1e-9 && ratio.high < 0.97 && ratio.low > 0.83, "{ratio:?}");
        let same = ratio_of(&noise(60), &noise(60)).expect("enough");
        assert!(same.low < 1.0 && same.high > 1.0, "{same:?}");
        assert_eq!(ratio_of(&[1.0], &noise(60)), None);
    }
}
