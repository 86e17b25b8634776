//! Scaling of a pipeline with its number of workers: the universal scalability law, fitted to runs.
//!
//! # Definition
//! `X(n) = λ n / (1 + σ (n − 1) + κ n (n − 1))`: `n` workers produce `n` times the rate `λ` of one worker, reduced by
//! the serial share `σ` of their work and by the cost `κ` of each pair of workers.
//!
//! The reciprocal is a sum, `n / X = a + b (n − 1) + c n (n − 1)`. The fit is therefore a least-squares problem with
//! `b ≥ 0` and `c ≥ 0`. It has a unique solution and needs no initial guess: of the four choices of zero
//! coefficients, the best feasible one is used. Errors are relative and weighted by precision: a point that is known
//! to 1 % weighs more than one that is known to 5 %. Intervals come from a bootstrap over the windows of each run.
//! They contain the noise within the runs. The distance of the points from the law is reported separately.
//!
//! # Reference
//! Gunther 2007, *Guerrilla Capacity Planning*, chapter 4 and following; Gunther 2008, "A General Theory of
//! Computational Scalability Based on Rational Functions", for `κ = 0` as a machine repairman model in which all
//! machines fail at once.

use crate::statistics::percent;
use crate::statistics::{BootstrapRng, DRAWS, Estimate, batch_means, interval_of};

/// Least number of points for the law: its number of coefficients.
pub(crate) const POINTS_MIN: usize = 3;

/// Least relative gain at which one more worker is useful.
const PAYS: f64 = 0.05;

/// Best precision that a point can have, as a share: other load of the machine is in no window.
const KNOWN: f64 = 0.01;

/// Precision of a point with too few windows, as a share.
const UNKNOWN: f64 = 0.1;

/// Largest relative distance of a point from the law. Beyond it, the report says that the law does not fit.
const MISFIT_MAX: f64 = 0.10;

/// Largest number of workers at which the limit of useful workers is searched.
const WORKERS_MAX: usize = 1024;

/// Least number of windows of a run for an interval.
const WINDOWS_MIN: usize = 4;

/// Rate of one number of workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The number of workers.
    pub workers: usize,
    /// Rate of each window, in units per second.
    pub windows: Vec<f64>,
    /// Their mean.
    pub rate: f64,
    /// Half of its interval, as a share of the rate. `None` if there are too few windows.
    pub spread: Option<f64>,
}

/// Coefficients of the law, without intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Curve {
    lambda: f64,
    sigma: f64,
    kappa: f64,
}

impl Curve {
    fn throughput(self, workers: usize) -> f64 {
        let n = workers as f64;
        self.lambda * n / (1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0))
    }

    /// Returns the relative gain of one more worker.
    fn one_more(self, workers: usize) -> f64 {
        self.throughput(workers + 1) / self.throughput(workers) - 1.0
    }
}

/// Scaling law of a pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingLaw {
    curve: Curve,
    /// Rate of one worker.
    pub lambda: Estimate,
    /// Serial share of a worker's work.
    pub sigma: Estimate,
    /// Cost of each pair of workers, as a share of the time that one worker alone takes for an item.
    pub kappa: Estimate,
    /// Whether all points had enough windows for valid intervals.
    pub is_known: bool,
    /// Largest relative distance of a point from the law.
    pub misfit: f64,
    /// Largest number of workers that was fitted.
    pub(crate) workers_max: usize,
}

/// Number of workers beyond which more are not useful.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// A second worker brings this share, which is negligible.
    Nothing(f64),
    /// One worker more than this brings less than [`PAYS`].
    After(usize),
    /// Like `After`, but beyond the measured numbers of workers.
    Beyond(usize),
    /// No contention in the measured range.
    Unseen,
}

impl ScalingLaw {
    /// Fits the law to points with different numbers of workers.
    ///
    /// # Errors
    /// Returns the reason if no law can be fitted.
    pub fn fit(points: &[Point]) -> Result<Self, String> {
        if points.len() < POINTS_MIN {
            return Err(format!(
                "no fit: the law takes {POINTS_MIN} numbers of workers that have no other bottleneck, and here {}",
                match points.len() {
                    0 => "is none".to_owned(),
                    1 => "is 1".to_owned(),
                    many => format!("are {many}"),
                }
            ));
        }
        let rates: Vec<f64> = points.iter().map(|point| point.rate).collect();
        let curve = fitted(points, &rates).ok_or("no fit: a rate is zero")?;
        let batches: Vec<Vec<f64>> = points.iter().map(|point| batch_means(&point.windows)).collect();
        let mut dice = BootstrapRng::default();
        let drawn: Vec<Curve> = (0..DRAWS)
            .filter_map(|_| {
                let of = |(batches, rate): (&Vec<f64>, &f64)| {
                    if batches.is_empty() { *rate } else { dice.mean_of(batches) }
                };
                let drawn: Vec<f64> = batches.iter().zip(&rates).map(of).collect();
                fitted(points, &drawn)
            })
            .collect();
        let interval = |of: fn(&Curve) -> f64| {
            let drawn: Vec<f64> = drawn.iter().map(of).chain([of(&curve)]).collect();
            interval_of(of(&curve), drawn)
        };
        let misfit =
            points.iter().map(|point| (point.rate / curve.throughput(point.workers) - 1.0).abs()).fold(0.0, f64::max);
        Ok(Self {
            curve,
            lambda: interval(|it| it.lambda),
            sigma: interval(|it| it.sigma),
            kappa: interval(|it| it.kappa),
            is_known: points.iter().all(|point| point.windows.len() >= WINDOWS_MIN),
            misfit,
            workers_max: points.iter().map(|point| point.workers).max().unwrap_or(0),
        })
    }

    /// Returns the rate of this number of workers by the law.
    pub fn throughput(&self, workers: usize) -> f64 {
        self.curve.throughput(workers)
    }

    /// Returns whether the law is far from one of its points.
    pub fn is_far(&self) -> bool {
        self.misfit > MISFIT_MAX
    }

    /// Returns the number of workers beyond which more are not useful.
    pub fn limit(&self) -> Limit {
        let second = self.curve.one_more(1);
        if second < PAYS {
            return Limit::Nothing(second);
        }
        // With many workers, one more brings little even without contention. That is not a limit.
        if self.throughput(self.workers_max) >= (1.0 - PAYS) * self.curve.lambda * self.workers_max as f64 {
            return Limit::Unseen;
        }
        let last = (1..WORKERS_MAX).find(|&workers| self.curve.one_more(workers) < PAYS).unwrap_or(WORKERS_MAX);
        if last <= self.workers_max { Limit::After(last) } else { Limit::Beyond(last) }
    }

    /// Returns the number of workers with the highest rate, `√((1 − σ) / κ)`. `None` if `κ` may be noise, or if the
    /// peak is far beyond the measured range.
    pub fn peak(&self) -> Option<usize> {
        if self.kappa.low <= 0.0 || self.kappa.mean <= 0.0 {
            return None;
        }
        let below = ((1.0 - self.sigma.mean).max(0.0) / self.kappa.mean).sqrt();
        let below = (1..=4 * self.workers_max).take_while(|&workers| workers as f64 <= below).last().unwrap_or(1);
        let peak = if self.throughput(below + 1) > self.throughput(below) { below + 1 } else { below };
        (peak <= 4 * self.workers_max).then_some(peak)
    }

    /// Formats the coefficients.
    pub fn evidence(&self) -> Vec<String> {
        let interval = |of: Estimate, digits: usize| {
            let Estimate { low, high, .. } = of;
            if self.is_known { format!(" ({low:.digits$} to {high:.digits$})") } else { String::new() }
        };
        let mut lines = vec![
            format!(
                "σ = {:.3}{}: {} of a worker's work is serial",
                self.sigma.mean,
                interval(self.sigma, 3),
                percent(self.sigma.mean)
            ),
            format!("κ = {:.4}{}: {}", self.kappa.mean, interval(self.kappa, 4), pairs(self.kappa.mean)),
        ];
        if !self.is_known {
            lines.push("too few windows for confidence intervals; measure for longer (`--seconds`)".to_owned());
        }
        if self.is_far() {
            lines.push(format!(
                "the law does not describe these workers well: the largest error is {}; use the measured points",
                percent(self.misfit)
            ));
        }
        lines
    }

    /// Formats the limit of useful workers as a sentence.
    pub fn sentence(&self) -> String {
        let most = self.workers_max;
        let sentence = match self.limit() {
            Limit::Nothing(second) => {
                format!("more workers gain nothing: a second worker brings {:+.1} %", 100.0 * second)
            }
            Limit::After(last) => format!("adding workers stops to pay after {last}: one more brings less than 5 %"),
            Limit::Beyond(last) => {
                format!("adding workers pays up to the {most} that were measured, and by the law up to {last}")
            }
            Limit::Unseen => {
                format!("no contention up to {most} workers: the rate is nearly linear")
            }
        };
        match self.peak().filter(|_| !matches!(self.limit(), Limit::Nothing(_))) {
            Some(peak) => format!("{sentence}; {peak} make the most, and more than that make less"),
            None => sentence,
        }
    }
}

/// Formats the cost of pairs of workers.
fn pairs(kappa: f64) -> String {
    match kappa {
        kappa if kappa < 5e-5 => "pairs of workers have no measurable cost".to_owned(),
        kappa if kappa < 1e-3 => {
            format!("each pair of workers costs {:.2} % of one worker's time per batch", 100.0 * kappa)
        }
        kappa => format!("each pair of workers costs {} of one worker's time per batch", percent(kappa)),
    }
}

/// Returns the curve that fits these rates best.
fn fitted(points: &[Point], rates: &[f64]) -> Option<Curve> {
    if rates.iter().any(|rate| !rate.is_finite() || *rate <= 0.0) {
        return None;
    }
    // A row of the equations: its terms and the 1 that they add up to, each times the weight of the point. A point of
    // unknown precision weighs no more than the least precise of the others.
    let unknown = points.iter().filter_map(|point| point.spread).fold(UNKNOWN, f64::max);
    let rows: Vec<([f64; 3], f64)> = points
        .iter()
        .zip(rates)
        .map(|(point, rate)| {
            let n = point.workers as f64;
            let weight = 1.0 / point.spread.unwrap_or(unknown).max(KNOWN);
            let scale = weight * rate / n;
            ([scale, scale * (n - 1.0), scale * n * (n - 1.0)], weight)
        })
        .collect();
    let error = |[a, b, c]: [f64; 3]| {
        let of = |([x, y, z], one): &([f64; 3], f64)| (a * x + b * y + c * z - one).powi(2);
        rows.iter().map(of).sum::<f64>()
    };
    let kept: [&[usize]; 4] = [&[0], &[0, 1], &[0, 2], &[0, 1, 2]];
    let found = kept.iter().filter_map(|kept| least_squares(&rows, kept));
    let allowed = found.filter(|[a, b, c]| *a > 0.0 && *b >= 0.0 && *c >= 0.0);
    let [a, b, c] = allowed.min_by(|one, other| error(*one).total_cmp(&error(*other)))?;
    Some(Curve { lambda: 1.0 / a, sigma: b / a, kappa: c / a })
}

/// Solves least squares in the terms `kept`, with the others 0: normal equations in columns of length 1, by
/// elimination with the largest pivot.
fn least_squares(rows: &[([f64; 3], f64)], kept: &[usize]) -> Option<[f64; 3]> {
    let length = |term: usize| rows.iter().map(|(row, _)| row[term] * row[term]).sum::<f64>().sqrt();
    let lengths: Vec<f64> = kept.iter().map(|&term| length(term)).collect();
    if lengths.iter().any(|length| *length <= 0.0) {
        return None;
    }
    let count = kept.len();
    let column = |at: usize, row: &[f64; 3]| row[kept[at]] / lengths[at];
    let mut matrix: Vec<Vec<f64>> = (0..count)
        .map(|i| {
            let products = (0..count).map(|j| rows.iter().map(|(row, _)| column(i, row) * column(j, row)).sum());
            products.chain([rows.iter().map(|(row, one)| column(i, row) * one).sum()]).collect()
        })
        .collect();
    for at in 0..count {
        let pivot = (at..count).max_by(|&a, &b| matrix[a][at].abs().total_cmp(&matrix[b][at].abs()))?;
        matrix.swap(at, pivot);
        // Nearly equal numbers of workers do not determine the coefficients.
        if matrix[at][at].abs() < 1e-12 {
            return None;
        }
        for below in at + 1..count {
            let (above, rest) = matrix.split_at_mut(below);
            let factor = rest[0][at] / above[at][at];
            for (value, pivot) in rest[0].iter_mut().zip(&above[at]) {
                *value -= factor * pivot;
            }
        }
    }
    let mut solution = [0.0; 3];
    for at in (0..count).rev() {
        let known: f64 = (at + 1..count).map(|later| matrix[at][later] * solution[kept[later]] * lengths[later]).sum();
        solution[kept[at]] = (matrix[at][count] - known) / matrix[at][at] / lengths[at];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Run of this rate in 64 windows with deterministic scatter of size `noise`.
    fn point(workers: usize, rate: f64, noise: f64) -> Point {
        let scatter = |at: usize| ((at * 37 + workers * 11) as f64 * 12.9898).sin() * 43_758.547;
        let windows: Vec<f64> =
            (0..64).map(|at| rate * (1.0 + noise * (2.0 * scatter(at).fract().abs() - 1.0))).collect();
        let mean = windows.iter().sum::<f64>() / windows.len() as f64;
        Point { workers, windows, rate: mean, spread: Some(noise / 8.0) }
    }

    fn curve(lambda: f64, sigma: f64, kappa: f64) -> Curve {
        Curve { lambda, sigma, kappa }
    }

    fn law(workers: &[usize], curve: Curve, noise: f64) -> ScalingLaw {
        let points: Vec<Point> =
            workers.iter().map(|&workers| point(workers, curve.throughput(workers), noise)).collect();
        ScalingLaw::fit(&points).expect("points enough")
    }

    #[test]
    fn fitted_curve_recovers_its_parameters() {
        for sigma in [0.0, 0.01, 0.2, 0.7, 1.0] {
            for kappa in [0.0, 1e-4, 0.01, 0.1] {
                for workers in [&[1, 2, 4, 8][..], &[1, 2, 3], &[2, 5, 9, 16, 32]] {
                    let found = law(workers, curve(120.0, sigma, kappa), 0.0);
                    let off = (found.sigma.mean - sigma).abs().max((found.kappa.mean - kappa).abs());
                    assert!(off < 1e-6, "{sigma} {kappa} {workers:?}: {found:?}");
                    assert!((found.lambda.mean / 120.0 - 1.0).abs() < 1e-6 && found.misfit < 1e-6, "{found:?}");
                }
            }
        }
    }

    #[test]
    fn noisy_interval_is_wider_and_contains_the_true_value() {
        for (sigma, kappa) in [(0.2, 0.02), (0.05, 0.002), (0.5, 0.05)] {
            let quiet = law(&[1, 2, 4, 8, 16], curve(50.0, sigma, kappa), 0.02);
            let loud = law(&[1, 2, 4, 8, 16], curve(50.0, sigma, kappa), 0.1);
            for found in [&quiet, &loud] {
                assert!(found.is_known && found.sigma.low <= found.sigma.mean && found.sigma.mean <= found.sigma.high);
                let near = |of: Estimate, truth: f64| of.low - 0.02 * truth <= truth && truth <= of.high + 0.02 * truth;
                assert!(near(found.sigma, sigma) && near(found.kappa, kappa), "{sigma} {kappa}: {found:?}");
            }
            assert!(
                loud.sigma.high - loud.sigma.low > 2.0 * (quiet.sigma.high - quiet.sigma.low),
                "{quiet:?} {loud:?}"
            );
        }
    }

    #[test]
    fn coefficients_are_never_negative() {
        // Superlinear scaling: two workers produce more than twice as much.
        let points = [point(1, 10.0, 0.0), point(2, 22.0, 0.0), point(4, 46.0, 0.0)];
        let law = ScalingLaw::fit(&points).expect("points enough");
        assert!(law.sigma.mean == 0.0 && law.kappa.mean == 0.0 && law.sigma.low >= 0.0, "{law:?}");
        assert_eq!(law.limit(), Limit::Unseen);
    }

    #[test]
    fn a_point_that_is_known_better_weighs_more() {
        let mut points = vec![point(1, 100.0, 0.0), point(2, 200.0, 0.0), point(3, 300.0, 0.0), point(4, 300.0, 0.0)];
        let off = |points: &[Point]| 400.0 - ScalingLaw::fit(points).expect("points enough").throughput(4);
        let equal = off(&points);
        points[3].spread = Some(0.3);
        assert!(off(&points) < 0.2 * equal, "{} {equal}", off(&points));
    }

    #[test]
    fn sentence_names_the_last_useful_worker() {
        let sentence = |workers: &[usize], coefficients| law(workers, coefficients, 0.0).sentence();
        let eight = [1, 2, 4, 8];
        assert!(
            sentence(&eight, curve(10.0, 1.0, 0.0))
                .starts_with("more workers gain nothing: a second worker brings +0.0 %")
        );
        assert!(
            sentence(&eight, curve(10.0, 0.9, 0.3)).starts_with("more workers gain nothing: a second worker brings -")
        );
        assert!(sentence(&eight, curve(10.0, 0.0, 0.0)).starts_with("no contention up to 8 workers"));
        // (1 − 0.2) / 0.02 = 40, of which the root is 6.3.
        let both = sentence(&eight, curve(10.0, 0.2, 0.02));
        assert!(both.contains("after 4: one more") && both.contains("6 make the most"), "{both}");
        // σ = 0.1: X(n+1)/X(n) − 1 = 0.9 / (n (1 + 0.1 n)), which is below 5 % from n = 10 on.
        assert_eq!(law(&eight, curve(10.0, 0.1, 0.0), 0.0).limit(), Limit::Beyond(10));
        assert_eq!(law(&[1, 4, 16], curve(10.0, 0.1, 0.0), 0.0).limit(), Limit::After(10));
    }

    #[test]
    fn a_kink_is_no_law_and_too_few_points_are_none() {
        // One lock with the same time for every worker: twice as much with two, and then no more.
        let kink: Vec<Point> =
            [(1, 10.0), (2, 20.0), (3, 20.0), (4, 20.0), (8, 20.0)].map(|(n, x)| point(n, x, 0.0)).into();
        let law = ScalingLaw::fit(&kink).expect("points enough");
        assert!(law.is_far() && law.evidence().iter().any(|line| line.contains("does not describe")), "{law:?}");
        for few in 0..POINTS_MIN {
            assert!(ScalingLaw::fit(&kink[..few]).is_err_and(|why| why.contains("takes 3 numbers of workers")));
        }
        assert!(ScalingLaw::fit(&[point(1, 0.0, 0.0), point(2, 1.0, 0.0), point(3, 1.0, 0.0)]).is_err());
    }

    #[test]
    fn without_windows_no_interval_is_reported() {
        let points = [1, 2, 4].map(|workers| Point { windows: Vec::new(), spread: None, ..point(workers, 5.0, 0.0) });
        let law = ScalingLaw::fit(&points).expect("points enough");
        assert!(!law.is_known && law.evidence().iter().any(|line| line.contains("too few windows")), "{law:?}");
    }
}
