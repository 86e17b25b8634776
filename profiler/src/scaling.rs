//! How a pipeline goes by the number of its workers: the universal scalability law, fitted to runs.
//!
//! # Definition
//! `X(n) = λ n / (1 + σ (n − 1) + κ n (n − 1))`: `n` workers make `n` times what one makes, but for the share `σ` of their work
//! that goes one at a time, and for what each pair of them costs, `κ`.
//!
//! The reciprocal is a sum, `n / X = a + b (n − 1) + c n (n − 1)`, so that the fit is one of least squares with `b ≥ 0` and
//! `c ≥ 0`, which has one best answer and needs no first guess: of the four choices of what is zero, the best that is allowed.
//! Errors are relative, and weigh as much as they are surely there: a point that is known to 1 % says more than one that is
//! known to 5 %. Intervals are those of a bootstrap over the windows of each run. They have the chance in them that was in
//! the runs; how far the law is from the points is said next to them.
//!
//! # Reference
//! Gunther 2007, *Guerrilla Capacity Planning*, chapter 4 and following; Gunther 2008, "A General Theory of Computational
//! Scalability Based on Rational Functions", for why `κ = 0` is a repairman to whom all machines come at once.

use crate::statistics::percent;
use crate::statistics::{DRAWS, Dice, Estimate, batch_means, interval_of};

/// Points that the law takes at the least: it has as many coefficients.
pub(crate) const POINTS_MIN: usize = 3;

/// A worker that brings less, as a share of what there is, does not pay.
const PAYS: f64 = 0.05;

/// How well a point is known at the best, as a share: what the machine does in addition is in no window.
const KNOWN: f64 = 0.01;

/// How well a point is known at the least, of which too little was seen to say.
const UNKNOWN: f64 = 0.1;

/// How far a point may be from the law, as a share, before the law is said not to describe it.
const MISFIT_MAX: f64 = 0.10;

/// Numbers of workers that are looked at, when it is asked where they stop to pay.
const WORKERS_MAX: usize = 1024;

/// Windows of a run, at the least, for an interval.
const WINDOWS_MIN: usize = 4;

/// What so many workers made.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The number of workers.
    pub workers: usize,
    /// Of each window, in whatever there is a second.
    pub windows: Vec<f64>,
    /// Their mean.
    pub rate: f64,
    /// Half of its interval, as a share of it; none where it was measured too few times.
    pub spread: Option<f64>,
}

/// The coefficients, without what is known of their chance.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Curve {
    lambda: f64,
    sigma: f64,
    kappa: f64,
}

impl Curve {
    fn at(self, workers: usize) -> f64 {
        let n = workers as f64;
        self.lambda * n / (1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0))
    }

    /// What one more worker brings, as a share.
    fn one_more(self, workers: usize) -> f64 {
        self.at(workers + 1) / self.at(workers) - 1.0
    }
}

/// The law of a pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingLaw {
    curve: Curve,
    /// What one worker makes a second.
    pub lambda: Estimate,
    /// The share of a worker's work that goes one at a time.
    pub sigma: Estimate,
    /// What each pair of workers costs, as a share of the time that one worker alone takes for an item.
    pub kappa: Estimate,
    /// Whether all points had windows enough for the intervals to mean something.
    pub is_known: bool,
    /// How far the furthest point is from the law, as a share of what the law says.
    pub misfit: f64,
    /// The most workers that were fitted.
    pub(crate) workers_max: usize,
}

/// Where more workers stop to pay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// A second worker brings this share, which is next to nothing.
    Nothing(f64),
    /// One more than so many brings less than [`PAYS`].
    After(usize),
    /// As before, but further out than was measured.
    Beyond(usize),
    /// Workers do not hinder one another as far as was measured.
    Unseen,
}

impl ScalingLaw {
    /// The law of these points, each with another number of workers.
    ///
    /// # Errors
    /// Why there is none.
    pub fn of(points: &[Point]) -> Result<Self, String> {
        if points.len() < POINTS_MIN {
            return Err(format!(
                "the law takes {POINTS_MIN} numbers of workers that nothing else holds back, and here {}: nothing is fitted",
                match points.len() {
                    0 => "is none".to_owned(),
                    1 => "is 1".to_owned(),
                    many => format!("are {many}"),
                }
            ));
        }
        let rates: Vec<f64> = points.iter().map(|point| point.rate).collect();
        let curve = fitted(points, &rates).ok_or("workers that make nothing follow no law")?;
        let batches: Vec<Vec<f64>> = points.iter().map(|point| batch_means(&point.windows)).collect();
        let mut dice = Dice::default();
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
        let misfit = points.iter().map(|point| (point.rate / curve.at(point.workers) - 1.0).abs()).fold(0.0, f64::max);
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

    /// What so many workers make by the law.
    pub fn at(&self, workers: usize) -> f64 {
        self.curve.at(workers)
    }

    /// Whether the law is far from a point that it was fitted to.
    pub fn is_far(&self) -> bool {
        self.misfit > MISFIT_MAX
    }

    /// Where more workers stop to pay.
    pub fn limit(&self) -> Limit {
        let second = self.curve.one_more(1);
        if second < PAYS {
            return Limit::Nothing(second);
        }
        // Even workers that do not hinder one another bring little each when there are many: that is no limit.
        if self.at(self.workers_max) >= (1.0 - PAYS) * self.curve.lambda * self.workers_max as f64 {
            return Limit::Unseen;
        }
        let last = (1..WORKERS_MAX).find(|&workers| self.curve.one_more(workers) < PAYS).unwrap_or(WORKERS_MAX);
        if last <= self.workers_max { Limit::After(last) } else { Limit::Beyond(last) }
    }

    /// The number of workers that makes the most, `√((1 − σ) / κ)`; none where chance may have made `κ`, or where it is far
    /// from what was measured.
    pub fn peak(&self) -> Option<usize> {
        if self.kappa.low <= 0.0 || self.kappa.mean <= 0.0 {
            return None;
        }
        let below = ((1.0 - self.sigma.mean).max(0.0) / self.kappa.mean).sqrt();
        let below = (1..=4 * self.workers_max).take_while(|&workers| workers as f64 <= below).last().unwrap_or(1);
        let peak = if self.at(below + 1) > self.at(below) { below + 1 } else { below };
        (peak <= 4 * self.workers_max).then_some(peak)
    }

    /// The coefficients, in words.
    pub fn evidence(&self) -> Vec<String> {
        let interval = |of: Estimate, digits: usize| {
            let Estimate { low, high, .. } = of;
            if self.is_known { format!(" ({low:.digits$} to {high:.digits$})") } else { String::new() }
        };
        let mut lines = vec![
            format!(
                "σ = {:.3}{}: {} of a worker's work goes one at a time",
                self.sigma.mean,
                interval(self.sigma, 3),
                percent(self.sigma.mean)
            ),
            format!("κ = {:.4}{}: {}", self.kappa.mean, interval(self.kappa, 4), pairs(self.kappa.mean)),
        ];
        if !self.is_known {
            lines.push("measured too few times to say how sure that is; `--seconds` measures for longer".to_owned());
        }
        if self.is_far() {
            lines.push(format!(
                "the law does not describe these workers well: the furthest point is off by {}; go by the points",
                percent(self.misfit)
            ));
        }
        lines
    }

    /// Where more workers stop to pay, as a sentence.
    pub fn sentence(&self) -> String {
        let most = self.workers_max;
        let sentence = match self.limit() {
            Limit::Nothing(second) => {
                format!("more workers gain nothing: a second one brings {:+.1} %", 100.0 * second)
            }
            Limit::After(last) => format!("adding workers stops to pay after {last}: one more brings less than 5 %"),
            Limit::Beyond(last) => {
                format!("adding workers pays up to the {most} that were measured, and by the law up to {last}")
            }
            Limit::Unseen => {
                format!("nothing of it is seen up to {most} workers: each makes nearly what one alone does")
            }
        };
        match self.peak().filter(|_| !matches!(self.limit(), Limit::Nothing(_))) {
            Some(peak) => format!("{sentence}; {peak} make the most, and more than that make less"),
            None => sentence,
        }
    }
}

/// What pairs of workers cost, in words.
fn pairs(kappa: f64) -> String {
    match kappa {
        kappa if kappa < 5e-5 => "pairs of workers cost nothing that is seen".to_owned(),
        kappa if kappa < 1e-3 => {
            format!("each pair of workers costs {:.2} % of the time that one takes for a batch", 100.0 * kappa)
        }
        kappa => format!("each pair of workers costs {} of the time that one takes for a batch", percent(kappa)),
    }
}

/// The curve that is nearest to these rates of the points' numbers of workers.
fn fitted(points: &[Point], rates: &[f64]) -> Option<Curve> {
    if rates.iter().any(|rate| !rate.is_finite() || *rate <= 0.0) {
        return None;
    }
    // A row of the equations: its terms and the 1 that they add up to, each times what the point weighs.
    // Of whom nobody knows how well it is known is known no better than the worst of the others.
    let unknown = points.iter().filter_map(|point| point.spread).fold(UNKNOWN, f64::max);
    let rows: Vec<([f64; 3], f64)> = points
        .iter()
        .zip(rates)
        .map(|(point, rate)| {
            let (n, weight) = (point.workers as f64, 1.0 / point.spread.unwrap_or(unknown).max(KNOWN));
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

/// Least squares in the terms that are `kept`, the others being 0: the normal equations, in columns of length 1, solved by
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
        // Numbers of workers that are hardly different say nothing of what tells them apart.
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

    /// A run of that rate in 64 windows that scatter by so much, the same each time.
    fn point(workers: usize, rate: f64, noise: f64) -> Point {
        let scatter = |at: usize| ((at * 37 + workers * 11) as f64 * 12.9898).sin() * 43_758.547;
        let windows: Vec<f64> =
            (0..64).map(|at| rate * (1.0 + noise * (2.0 * scatter(at).fract().abs() - 1.0))).collect();
        let mean = windows.iter().sum::<f64>() / windows.len() as f64;
        Point { workers, windows, rate: mean, spread: Some(noise / 8.0) }
    }

    fn law(workers: &[usize], (lambda, sigma, kappa): (f64, f64, f64), noise: f64) -> ScalingLaw {
        let curve = Curve { lambda, sigma, kappa };
        let points: Vec<Point> = workers.iter().map(|&workers| point(workers, curve.at(workers), noise)).collect();
        ScalingLaw::of(&points).expect("points enough")
    }

    #[test]
    fn what_made_a_curve_is_found_again() {
        for sigma in [0.0, 0.01, 0.2, 0.7, 1.0] {
            for kappa in [0.0, 1e-4, 0.01, 0.1] {
                for workers in [&[1, 2, 4, 8][..], &[1, 2, 3], &[2, 5, 9, 16, 32]] {
                    let found = law(workers, (120.0, sigma, kappa), 0.0);
                    let off = (found.sigma.mean - sigma).abs().max((found.kappa.mean - kappa).abs());
                    assert!(off < 1e-6, "{sigma} {kappa} {workers:?}: {found:?}");
                    assert!((found.lambda.mean / 120.0 - 1.0).abs() < 1e-6 && found.misfit < 1e-6, "{found:?}");
                }
            }
        }
    }

    #[test]
    fn with_noise_the_interval_holds_the_truth_and_is_wider() {
        for (sigma, kappa) in [(0.2, 0.02), (0.05, 0.002), (0.5, 0.05)] {
            let quiet = law(&[1, 2, 4, 8, 16], (50.0, sigma, kappa), 0.02);
            let loud = law(&[1, 2, 4, 8, 16], (50.0, sigma, kappa), 0.1);
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
        // Workers that help one another: more than twice as much by two.
        let points = [point(1, 10.0, 0.0), point(2, 22.0, 0.0), point(4, 46.0, 0.0)];
        let law = ScalingLaw::of(&points).expect("points enough");
        assert!(law.sigma.mean == 0.0 && law.kappa.mean == 0.0 && law.sigma.low >= 0.0, "{law:?}");
        assert_eq!(law.limit(), Limit::Unseen);
    }

    #[test]
    fn a_point_that_is_known_better_weighs_more() {
        let mut points = vec![point(1, 100.0, 0.0), point(2, 200.0, 0.0), point(3, 300.0, 0.0), point(4, 300.0, 0.0)];
        let off = |points: &[Point]| 400.0 - ScalingLaw::of(points).expect("points enough").at(4);
        let alike = off(&points);
        points[3].spread = Some(0.3);
        assert!(off(&points) < 0.2 * alike, "{} {alike}", off(&points));
    }

    #[test]
    fn where_workers_stop_to_pay_is_said() {
        let said = |workers: &[usize], coefficients| law(workers, coefficients, 0.0).sentence();
        let eight = [1, 2, 4, 8];
        assert!(said(&eight, (10.0, 1.0, 0.0)).starts_with("more workers gain nothing: a second one brings +0.0 %"));
        assert!(said(&eight, (10.0, 0.9, 0.3)).starts_with("more workers gain nothing: a second one brings -"));
        assert!(said(&eight, (10.0, 0.0, 0.0)).starts_with("nothing of it is seen up to 8 workers"));
        // (1 − 0.2) / 0.02 = 40, of which the root is 6.3.
        let both = said(&eight, (10.0, 0.2, 0.02));
        assert!(both.contains("after 4: one more") && both.contains("6 make the most"), "{both}");
        // σ = 0.1: X(n+1)/X(n) − 1 = 0.9 / (n (1 + 0.1 n)), which is below 5 % from n = 10 on.
        assert_eq!(law(&eight, (10.0, 0.1, 0.0), 0.0).limit(), Limit::Beyond(10));
        assert_eq!(law(&[1, 4, 16], (10.0, 0.1, 0.0), 0.0).limit(), Limit::After(10));
    }

    #[test]
    fn a_kink_is_no_law_and_too_few_points_are_none() {
        // One lock with the same time for everybody: twice as much by two, and then nothing more.
        let kink: Vec<Point> =
            [(1, 10.0), (2, 20.0), (3, 20.0), (4, 20.0), (8, 20.0)].map(|(n, x)| point(n, x, 0.0)).into();
        let law = ScalingLaw::of(&kink).expect("points enough");
        assert!(law.is_far() && law.evidence().iter().any(|line| line.contains("does not describe")), "{law:?}");
        for few in 0..POINTS_MIN {
            assert!(ScalingLaw::of(&kink[..few]).is_err_and(|why| why.contains("takes 3 numbers of workers")));
        }
        assert!(ScalingLaw::of(&[point(1, 0.0, 0.0), point(2, 1.0, 0.0), point(3, 1.0, 0.0)]).is_err());
    }

    #[test]
    fn without_windows_nothing_is_said_of_how_sure_it_is() {
        let points = [1, 2, 4].map(|workers| Point { windows: Vec::new(), spread: None, ..point(workers, 5.0, 0.0) });
        let law = ScalingLaw::of(&points).expect("points enough");
        assert!(!law.is_known && law.evidence().iter().any(|line| line.contains("too few times")), "{law:?}");
    }
}
