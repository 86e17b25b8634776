//! Sums on the device for the next report. Only this file reads numbers back from the device.
//!
//! Sums, counts and metrics are accumulated on the device. A report fetches all of them in one copy, so that training
//! does not wait for the device between reports. A term is `Σ S / Σ N` over the steps since the last report, and
//! NaN if nothing was counted. The loss is the weighted sum of the terms that counted anything.

use std::collections::{BTreeMap, BTreeSet};

use tch::{Device, Tensor};
use trainer_plan::Error;
use trainer_plan::checkpoint::SavedMean;
use trainer_plan::metric_name::MetricName;

use crate::device::native;
use crate::device::native::CheckStatus as _;
use crate::device::precision::WIDE;
use crate::device::tensors::{HostTensors, overwrite};
use crate::objectives::{Denominator, Metric};
use crate::training::process_group::ProcessGroup;

/// Running mean on the device.
#[derive(Debug)]
pub(crate) struct Mean {
    // float64 scalar on the device.
    sum: Tensor,
    count: Count,
}

/// Denominator of a mean.
#[derive(Debug)]
enum Count {
    Host(f64),
    /// float64 scalar, if only the device knows the count.
    Device(Tensor),
}

fn zero(device: Device) -> Tensor {
    Tensor::zeros([0_i64; 0], (WIDE, device))
}

/// Pending additions of scalars, which take a few kernels for all of them together.
#[derive(Debug, Default)]
pub(crate) struct PendingAdditions(Vec<(Tensor, Tensor)>);

impl PendingAdditions {
    /// Schedules the in-place addition of `scalar` to the float64 scalar `to`. [`settle`](Self::settle) does it.
    pub(crate) fn add(&mut self, to: &Tensor, scalar: &Tensor) {
        self.0.push((to.shallow_clone(), scalar.detach().view([1])));
    }

    /// Does all scheduled additions.
    pub(crate) fn settle(self) -> Result<(), Error> {
        let mut rest = self.0;
        // One concatenation per element type.
        while let Some(kind) = rest.first().map(|(_, scalar)| scalar.kind()) {
            let (these, others) = rest.into_iter().partition(|(_, scalar)| scalar.kind() == kind);
            let (to, scalars): (Vec<Tensor>, Vec<Tensor>) = Vec::into_iter(these).unzip();
            let scalars = Tensor::cat(&scalars, 0).to_kind(WIDE).unbind(0);
            native::add_all(&to.iter().collect::<Vec<_>>(), &scalars.iter().collect::<Vec<_>>())?;
            rest = others;
        }
        Ok(())
    }
}

impl Mean {
    /// Creates an empty mean whose count is on the host.
    #[must_use]
    pub(crate) fn new(device: Device) -> Self {
        Self { sum: zero(device), count: Count::Host(0.0) }
    }

    fn counted_on_device(device: Device) -> Self {
        Self { sum: zero(device), count: Count::Device(zero(device)) }
    }

    /// Adds a scalar of the device, once `sums` are settled, and the number of summands.
    ///
    /// # Panics
    /// If `count` is negative or not finite, or if the count of the mean is on the device.
    pub(crate) fn add(&mut self, sum: &Tensor, count: f64, sums: &mut PendingAdditions) {
        assert!(count.is_finite() && count >= 0.0, "{count} is no count");
        let Count::Host(so_far) = &mut self.count else { panic!("a mean is counted in one place") };
        *so_far += count;
        sums.add(&self.sum, sum);
    }

    fn add_counted(&mut self, sum: &Tensor, count: &Tensor, sums: &mut PendingAdditions) {
        let Count::Device(so_far) = &self.count else { panic!("a mean is counted in one place") };
        sums.add(so_far, count);
        sums.add(&self.sum, sum);
    }

    /// Replaces the sum and the count.
    fn set(&mut self, SumAndCount { sum, count: number }: SumAndCount) {
        let _ = self.sum.fill_(sum);
        match &mut self.count {
            Count::Host(count) => *count = number,
            Count::Device(count) => drop(count.fill_(number)),
        }
    }

    fn has_any(&self) -> bool {
        matches!(self.count, Count::Host(count) if count > 0.0)
    }
}

/// Fetches means over all ranks, NaN if nothing was counted, and this rank's numbers of `extra`, in one copy.
pub(crate) fn fetch<'a>(
    ranks: &dyn ProcessGroup,
    means: impl IntoIterator<Item = &'a Mean>,
    extra: &[&Tensor],
) -> Result<(std::vec::IntoIter<f64>, Vec<f64>), Error> {
    let (sums, rest) = read_back(means, extra)?;
    let mut numbers: Vec<f64> = sums.iter().flat_map(|both| [both.sum, both.count]).collect();
    ranks.sum(&mut numbers)?;
    let mean = |both: &[f64]| SumAndCount { sum: both[0], count: both[1] }.mean();
    Ok((numbers.chunks_exact(2).map(mean).collect::<Vec<_>>().into_iter(), rest))
}

/// Sum of a mean and its count, on the host.
#[derive(Clone, Copy, Debug, Default)]
struct SumAndCount {
    sum: f64,
    count: f64,
}

impl SumAndCount {
    fn mean(self) -> f64 {
        if self.count > 0.0 { self.sum / self.count } else { f64::NAN }
    }
}

/// Replaces numbers by their sums over all ranks. Ranks may have different names: a rank that does not know a name adds
/// 0.
fn sum_by_name<'a>(
    ranks: &dyn ProcessGroup,
    own: impl Iterator<Item = (&'a str, &'a mut SumAndCount)>,
) -> Result<(), Error> {
    let mut own: BTreeMap<&str, &mut SumAndCount> = own.collect();
    let names = own.keys().copied().collect::<Vec<_>>().join("\n");
    let all = ranks.gather("names of metrics", names.as_bytes())?;
    let all: BTreeSet<String> = all
        .iter()
        .flat_map(|names| String::from_utf8_lossy(names).lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let known = |name: &String| own.get(name.as_str()).map_or_else(SumAndCount::default, |both| **both);
    let mut numbers: Vec<f64> = all.iter().map(known).flat_map(|both| [both.sum, both.count]).collect();
    ranks.sum(&mut numbers)?;
    for (name, both) in all.iter().zip(numbers.chunks_exact(2)) {
        if let Some(own) = own.get_mut(name.as_str()) {
            **own = SumAndCount { sum: both[0], count: both[1] };
        }
    }
    Ok(())
}

/// Reads means and this rank's numbers of `extra` in one copy. Waits for the device.
#[expect(clippy::disallowed_methods, reason = "the only place that reads back, once per report")]
fn read_back<'a>(
    means: impl IntoIterator<Item = &'a Mean>,
    extra: &[&Tensor],
) -> Result<(Vec<SumAndCount>, Vec<f64>), Error> {
    let means: Vec<&Mean> = means.into_iter().collect();
    let mut scalars: Vec<Tensor> = Vec::new();
    for mean in &means {
        scalars.push(mean.sum.view([1]));
        if let Count::Device(count) = &mean.count {
            scalars.push(count.view([1]));
        }
    }
    scalars.extend(extra.iter().map(|numbers| numbers.reshape([-1])));
    if scalars.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let mut read = Vec::<f64>::try_from(&Tensor::f_cat(&scalars, 0).checked()?.f_to_device(Device::Cpu).checked()?)
        .checked()?
        .into_iter();
    let mut next = || read.next().expect("one number per scalar");
    let mut sums = Vec::new();
    for mean in means {
        let sum = next();
        let count = match &mean.count {
            Count::Host(count) => *count,
            Count::Device(_) => next(),
        };
        sums.push(SumAndCount { sum, count });
    }
    Ok((sums, read.collect()))
}

/// Running mean of a term, and its weight in the loss.
#[derive(Debug)]
struct WeightedTerm {
    mean: Mean,
    weight: f64,
}

/// Running mean of a metric.
#[derive(Debug)]
struct MetricMean {
    mean: Mean,
    // Metric whose entropy is added: the metric is a gain over a constant guess.
    entropy_of: Option<MetricName>,
}

/// Gain of a detector over a constant guess.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Gain {
    /// Nats per token.
    pub value: f64,
    /// Tokens of this rank that were counted.
    pub tokens: f64,
}

/// Sums since the last report.
#[derive(Debug)]
pub(crate) struct MetricAccumulator {
    terms: BTreeMap<MetricName, WeightedTerm>,
    metrics: BTreeMap<MetricName, MetricMean>,
    norm: Mean,
    device: Device,
}

/// Values of a [`MetricAccumulator`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MetricReading {
    /// Weighted sum of the terms.
    pub loss: f64,
    /// Terms by name.
    pub terms: BTreeMap<MetricName, f64>,
    /// Metrics by name.
    pub metrics: BTreeMap<MetricName, f64>,
    /// Those metrics that are gains over a constant guess.
    pub gains: BTreeMap<MetricName, Gain>,
    /// Mean norm of the gradients.
    pub norm: f64,
}

impl MetricAccumulator {
    /// Creates an empty accumulator.
    #[must_use]
    pub(crate) fn new(device: Device) -> Self {
        Self { terms: BTreeMap::new(), metrics: BTreeMap::new(), norm: Mean::new(device), device }
    }

    /// Adds a sum of the term `name`, which has the weight `weight` in the loss.
    pub(crate) fn add_term(
        &mut self,
        name: MetricName,
        weight: f64,
        sum: &Tensor,
        count: f64,
        sums: &mut PendingAdditions,
    ) {
        let fresh = || WeightedTerm { mean: Mean::new(self.device), weight };
        let term = self.terms.entry(name).or_insert_with(fresh);
        term.weight = weight;
        term.mean.add(sum, count, sums);
    }

    /// Adds a metric of an objective.
    pub(crate) fn add_metric(&mut self, objective: &str, metric: &Metric, sums: &mut PendingAdditions) {
        let name = MetricName::new(objective, metric.name);
        let device = self.device;
        let fresh = || MetricMean {
            mean: match &metric.denominator {
                Denominator::Host(_) => Mean::new(device),
                Denominator::Device(_) => Mean::counted_on_device(device),
            },
            entropy_of: metric.entropy_of.map(|rate| MetricName::new(objective, rate)),
        };
        let MetricMean { mean, .. } = self.metrics.entry(name).or_insert_with(fresh);
        match &metric.denominator {
            Denominator::Host(count) => mean.add(&metric.numerator, *count, sums),
            Denominator::Device(count) => mean.add_counted(&metric.numerator, count, sums),
        }
    }

    /// Adds the norm of a step's gradient.
    pub(crate) fn add_norm(&mut self, norm: &Tensor, sums: &mut PendingAdditions) {
        self.norm.add(norm, 1.0, sums);
    }

    /// Moves the sums of all ranks to rank 0, and clears the others. Waits for the device.
    pub(crate) fn move_to_first_rank(&mut self, ranks: &dyn ProcessGroup) -> Result<(), Error> {
        let (sums, _) = self.fetch_all(ranks, &[])?;
        if !ranks.share().is_first() {
            self.clear();
            return Ok(());
        }
        let terms = self.terms.values_mut().map(|term| &mut term.mean);
        let metrics = self.metrics.values_mut().map(|metric| &mut metric.mean);
        let own = terms.chain(metrics).chain([&mut self.norm]);
        own.zip(sums).for_each(|(mean, sum)| mean.set(sum));
        Ok(())
    }

    /// Fetches the sums of all means over all ranks, in the order of terms, metrics and norm, and this rank's numbers
    /// of `extra`.
    fn fetch_all(&self, ranks: &dyn ProcessGroup, extra: &[&Tensor]) -> Result<(Vec<SumAndCount>, Vec<f64>), Error> {
        let terms = self.terms.iter().map(|(name, term)| (format!("term {name}"), &term.mean));
        let metrics = self.metrics.iter().map(|(name, metric)| (format!("metric {name}"), &metric.mean));
        let own: Vec<(String, &Mean)> = terms.chain(metrics).chain([("norm".to_owned(), &self.norm)]).collect();
        let (mut sums, rest) = read_back(own.iter().map(|(_, mean)| *mean), extra)?;
        if ranks.share().ranks() > 1 {
            sum_by_name(ranks, own.iter().map(|(name, _)| name.as_str()).zip(&mut sums))?;
        }
        Ok((sums, rest))
    }

    /// Reads all values over all ranks, and this rank's numbers of `extra`, in one copy. Waits for the device.
    pub(crate) fn read(&self, ranks: &dyn ProcessGroup, extra: &[&Tensor]) -> Result<(MetricReading, Vec<f64>), Error> {
        let (sums, rest) = self.fetch_all(ranks, extra)?;
        let mut sums = sums.into_iter();
        let counted: Vec<SumAndCount> = sums.by_ref().take(self.terms.len()).collect();
        let loss = weighted(self.terms.values().map(|term| term.weight).zip(&counted));
        let terms = self.terms.keys().cloned().zip(counted.into_iter().map(SumAndCount::mean)).collect();
        let read: BTreeMap<MetricName, SumAndCount> = self.metrics.keys().cloned().zip(sums.by_ref()).collect();
        let gains = self.gains(&read);
        let mut metrics: BTreeMap<_, _> = read.into_iter().map(|(name, read)| (name, read.mean())).collect();
        metrics.extend(gains.iter().map(|(name, gain)| (name.clone(), gain.value)));
        let norm = sums.next().expect("the norm is always read").mean();
        Ok((MetricReading { loss, terms, metrics, gains, norm }, rest))
    }

    /// Returns the gains whose tokens were counted, from the sums of all metrics.
    fn gains(&self, read: &BTreeMap<MetricName, SumAndCount>) -> BTreeMap<MetricName, Gain> {
        let gain = |(name, metric): (&MetricName, &MetricMean)| {
            let rate = read.get(metric.entropy_of.as_ref()?)?.mean();
            let tokens = read[name].count;
            (tokens > 0.0).then(|| (name.clone(), Gain { value: entropy(rate) + read[name].mean(), tokens }))
        };
        self.metrics.iter().filter_map(gain).collect()
    }

    /// Whether anything was counted for a term.
    #[must_use]
    pub(crate) fn counted(&self, term: &MetricName) -> bool {
        self.terms.get(term).is_some_and(|term| term.mean.has_any())
    }

    /// Begins the next interval.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.device);
    }

    /// Returns the device sums and their descriptions, for a checkpoint in the middle of an interval. The next
    /// micro-batch changes the tensors.
    pub(crate) fn save<'a>(&'a self) -> (Vec<(String, &'a Tensor)>, Vec<SavedMean>) {
        let mut tensors = Vec::new();
        let mut saved = Vec::new();
        let mut keep = |mean: &'a Mean, what: &dyn Fn(Option<f64>) -> SavedMean| {
            tensors.push((sum_name(saved.len()), &mean.sum));
            let count = match &mean.count {
                Count::Host(count) => Some(*count),
                Count::Device(count) => {
                    tensors.push((count_name(saved.len()), count));
                    None
                }
            };
            saved.push(what(count));
        };
        let host = |count: Option<f64>| count.expect("the host counts terms and steps");
        for (name, WeightedTerm { mean, weight }) in &self.terms {
            keep(mean, &|count| SavedMean::Term { name: name.clone(), weight: *weight, count: host(count) });
        }
        for (name, MetricMean { mean, entropy_of }) in &self.metrics {
            keep(mean, &|count| SavedMean::Metric { name: name.clone(), count, entropy_of: entropy_of.clone() });
        }
        keep(&self.norm, &|count| SavedMean::Norm { count: host(count) });
        (tensors, saved)
    }

    /// Restores a saved interval. An error names the tensor.
    pub(crate) fn load(&mut self, tensors: &HostTensors, saved: &[SavedMean]) -> Result<(), String> {
        self.clear();
        let device = self.device;
        let scalar = |name: &str| {
            let scalar = zero(device);
            overwrite(&scalar, tensors, name, device).map(|()| scalar)
        };
        for (at, what) in saved.iter().enumerate() {
            let sum = scalar(&sum_name(at))?;
            match what {
                SavedMean::Term { name, weight, count } => {
                    let mean = Mean { sum, count: Count::Host(*count) };
                    self.terms.insert(name.clone(), WeightedTerm { mean, weight: *weight });
                }
                SavedMean::Metric { name, count, entropy_of } => {
                    let on_device = || scalar(&count_name(at)).map(Count::Device);
                    let count = count.map_or_else(on_device, |count| Ok(Count::Host(count)))?;
                    let metric = MetricMean { mean: Mean { sum, count }, entropy_of: entropy_of.clone() };
                    self.metrics.insert(name.clone(), metric);
                }
                SavedMean::Norm { count } => self.norm = Mean { sum, count: Count::Host(*count) },
            }
        }
        Ok(())
    }
}

/// Returns the weighted sum of the means that counted anything; NaN if none did.
fn weighted<'a>(terms: impl Iterator<Item = (f64, &'a SumAndCount)>) -> f64 {
    let parts: Vec<f64> = terms.filter(|(_, sum)| sum.count > 0.0).map(|(weight, sum)| weight * sum.mean()).collect();
    if parts.is_empty() { f64::NAN } else { parts.iter().sum() }
}

/// Entropy in nats of an event that has this probability.
fn entropy(probability: f64) -> f64 {
    let share = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
    share(probability) + share(1.0 - probability)
}

fn sum_name(at: usize) -> String {
    format!("report.{at}.sum")
}

fn count_name(at: usize) -> String {
    format!("report.{at}.count")
}

/// Metrics with their names as in events.
pub(crate) fn written(metrics: BTreeMap<MetricName, f64>) -> BTreeMap<String, f64> {
    metrics.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

#[cfg(test)]
mod tests;
