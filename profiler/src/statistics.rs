//! From times that scatter to figures with an interval, and to words.

use telemetry::quantities::short;

/// A figure with the interval that holds it in 95 of 100 cases.
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
    /// Half of the interval, as a share of the mean.
    pub fn spread(self) -> f64 {
        (self.high - self.low) / 2.0 / self.mean.abs().max(1e-300)
    }
}

/// Batches that a course is cut into: neighbours of so long ones hardly depend on one another.
const BATCHES: usize = 16;

/// The mean of a course of equally long windows, by the means of batches of them (Law and Kelton, *Simulation Modeling and
/// Analysis*): windows next to one another are not independent, batches nearly are.
pub fn mean_of(windows: &[f64]) -> Option<Estimate> {
    let batches = BATCHES.min(windows.len());
    if batches < 4 {
        return None;
    }
    let size = windows.len() / batches;
    // What is too short for a batch is left out at the beginning, where a course is least itself.
    let kept = &windows[windows.len() - size * batches..];
    let means: Vec<f64> = kept.chunks(size).map(|batch| batch.iter().sum::<f64>() / size as f64).collect();
    let mean = means.iter().sum::<f64>() / batches as f64;
    let variance = means.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (batches - 1) as f64;
    let half = student(batches - 1) * (variance / batches as f64).sqrt();
    Some(Estimate { mean, low: mean - half, high: mean + half })
}

/// The 97.5 % point of Student's distribution: within 1 % of the tables from 3 degrees of freedom on (the first terms of
/// Cornish and Fisher's expansion).
fn student(freedom: usize) -> f64 {
    let (z, n) = (1.959_964_f64, freedom as f64);
    let [g1, g2, g3] = [
        (z.powi(3) + z) / 4.0,
        (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
        (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
    ];
    z + g1 / n + g2 / n.powi(2) + g3 / n.powi(3)
}

/// How many windows at the beginning are none of what is to be measured: those without which the rest is known best, half of
/// all at the most (MSER; White 1997, "An effective truncation heuristic for bias reduction in simulation output").
pub(crate) fn warm_up(windows: &[f64]) -> usize {
    let most = windows.len() / 2;
    let error = |from: usize| {
        let rest = &windows[from..];
        let (count, mean) = (rest.len() as f64, rest.iter().sum::<f64>() / rest.len() as f64);
        rest.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (count * count)
    };
    let first = |best: usize, from: usize| if error(from) < error(best) { from } else { best };
    (1..=most).fold(0, first)
}

/// Means of the batches that a course is cut into, as [`mean_of`] does it: what a bootstrap draws from, since windows next to
/// one another are not independent.
pub fn batch_means(windows: &[f64]) -> Vec<f64> {
    let size = (windows.len() / BATCHES).max(1);
    let kept = &windows[windows.len() % size..];
    kept.chunks(size).map(|batch| batch.iter().sum::<f64>() / size as f64).collect()
}

/// How often a bootstrap draws.
pub(crate) const DRAWS: usize = 1000;

/// Draws with replacement: the same each time, everywhere.
pub(crate) struct Dice(u64);

impl Default for Dice {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Dice {
    /// The mean of as many values as there are, drawn from them.
    pub(crate) fn mean_of(&mut self, values: &[f64]) -> f64 {
        let mut sum = 0.0;
        for _ in 0..values.len() {
            // xorshift64*: enough for what is drawn here.
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            sum += values[(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % values.len()];
        }
        sum / values.len() as f64
    }
}

/// A figure with the middle 95 of 100 of what was drawn for it.
pub(crate) fn interval_of(mean: f64, mut drawn: Vec<f64>) -> Estimate {
    drawn.sort_by(f64::total_cmp);
    let last = drawn.len() - 1;
    Estimate { mean, low: drawn[last / 40], high: drawn[last - last / 40] }
}

/// The ratio of two courses' means, the second to the first, with the interval of its bootstrap: both are drawn again from
/// means of batches of their own windows a thousand times, by the same draws each time.
pub fn ratio_of(first: &[f64], second: &[f64]) -> Option<Estimate> {
    if first.len() < 4 || second.len() < 4 {
        return None;
    }
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (ratio, mut dice) = (mean(second) / mean(first).max(1e-300), Dice::default());
    let [first, second] = [first, second].map(batch_means);
    let drawn = (0..DRAWS).map(|_| {
        let below = dice.mean_of(&first);
        dice.mean_of(&second) / below.max(1e-300)
    });
    Some(interval_of(ratio, drawn.collect()))
}

/// A share as people read it: `4.2 %`, `43 %`.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if (0.0..9.95).contains(&percent) { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// A quarter, half and three quarters of some times are below these.
pub fn quartiles(times: &[f64]) -> [f64; 3] {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarters| sorted[(sorted.len() - 1) * quarters / 4])
}

/// Nanoseconds as people read them next to others.
pub fn nanoseconds(ns: f64) -> String {
    if ns < 99.95 { format!("{ns:.1}") } else { short(ns) }
}

/// Milliseconds in three digits: `1.23 ms`, `12.3 ms`, `123 ms`.
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

    /// Numbers around 1 that look random and are not.
    fn noise(count: u32) -> Vec<f64> {
        (0..count).map(|at| 1.0 + 0.2 * ((f64::from(at) * 12.9898).sin() * 43_758.547).fract()).collect()
    }

    #[test]
    fn students_points_are_those_of_the_tables() {
        for (freedom, table) in [(3, 3.182), (5, 2.571), (9, 2.262), (15, 2.131), (30, 2.042), (1000, 1.962)] {
            assert!((student(freedom) / table - 1.0).abs() < 1e-2, "{freedom}: {}", student(freedom));
        }
    }

    #[test]
    fn an_interval_holds_what_is_true_and_shrinks() {
        let (short, long) = (mean_of(&noise(32)).expect("enough"), mean_of(&noise(3200)).expect("enough"));
        assert!(long.low < 1.0 + 0.01 && long.high > 1.0 - 0.01, "{long:?}");
        assert!(long.spread() < short.spread() / 3.0, "{short:?} {long:?}");
        assert_eq!(mean_of(&[1.0; 3]), None);
        assert!(mean_of(&[2.0; 40]).expect("enough").spread() < 1e-12);
    }

    #[test]
    fn a_slow_start_is_cut_off_and_an_even_course_is_not() {
        let mut course = vec![0.1, 0.2, 0.5, 0.8];
        course.extend(noise(100));
        let cut = warm_up(&course);
        assert!((3..=8).contains(&cut), "{cut}");
        assert!(warm_up(&noise(100)) < 30);
        assert_eq!((warm_up(&[]), warm_up(&[1.0])), (0, 0));
    }

    #[test]
    fn a_ratio_is_seen_where_it_is_there() {
        let slower: Vec<f64> = noise(60).iter().map(|it| it * 0.9).collect();
        let ratio = ratio_of(&noise(60), &slower).expect("enough");
        assert!((ratio.mean - 0.9).abs() < 1e-9 && ratio.high < 0.97 && ratio.low > 0.83, "{ratio:?}");
        let same = ratio_of(&noise(60), &noise(60)).expect("enough");
        assert!(same.low < 1.0 && same.high > 1.0, "{same:?}");
        assert_eq!(ratio_of(&[1.0], &noise(60)), None);
    }
}
