//! What a run says of itself. The only file that reads numbers back from the device.
//!
//! Sums, counts and metrics are added up where they are made; a report fetches all of them in one copy, and between
//! reports nobody waits for the device. Loss terms are `Σ S / Σ N` over the steps since the last report.

use std::collections::BTreeMap;
use std::fmt;

use schemas::ordinal::Step;
use serde::Serialize;
use tch::{Device, Tensor};

use crate::error::Error;
use crate::optimizer::overwrite;
use crate::precision::WIDE;
use crate::start::{Expectation, Surprise};
use crate::tensors::{HostTensor, HostTensors};

/// Numbers that are added up on the device.
#[derive(Debug)]
pub struct Tally {
    entries: BTreeMap<String, Entry>,
    device: Device,
}

#[derive(Debug)]
struct Entry {
    // float64 scalar on the device.
    sum: Tensor,
    count: f64,
    // The count where only the device knows it, float64.
    device_count: Option<Tensor>,
}

impl Tally {
    /// An empty one.
    #[must_use]
    pub fn new(device: Device) -> Self {
        Self { entries: BTreeMap::new(), device }
    }

    /// Adds a scalar of the device and how many things it sums over.
    pub fn add(&mut self, name: &str, sum: &Tensor, count: f64) {
        let sum = sum.detach().to_kind(WIDE).squeeze();
        match self.entries.get_mut(name) {
            Some(entry) => {
                entry.sum += sum;
                entry.count += count;
            }
            None => {
                // A copy: what was given may be changed later where it lives.
                self.entries.insert(name.to_owned(), Entry { sum: sum.copy(), count, device_count: None });
            }
        }
    }

    /// Adds a scalar of the device and how many things it sums over, which is on the device too.
    pub fn add_counted(&mut self, name: &str, sum: &Tensor, count: &Tensor) {
        let count = count.detach().to_kind(WIDE).squeeze();
        self.add(name, sum, 0.0);
        let entry = self.entries.get_mut(name).expect("just added");
        match &mut entry.device_count {
            Some(sum) => *sum += count,
            None => entry.device_count = Some(count.copy()),
        }
    }

    /// Every sum divided by its count (0 where nothing was counted), and `extra` scalars as they are: one copy.
    pub fn read(&self, extra: &[&Tensor]) -> Result<(BTreeMap<String, f64>, Vec<f64>), Error> {
        let sums = self.entries.values().map(|entry| &entry.sum);
        let device_counts = self.entries.values().filter_map(|entry| entry.device_count.as_ref());
        let scalars: Vec<Tensor> =
            sums.chain(device_counts).chain(extra.iter().copied()).map(|t| t.view([1])).collect();
        if scalars.is_empty() {
            return Ok((BTreeMap::new(), Vec::new()));
        }
        let values = Vec::<f64>::try_from(&Tensor::f_cat(&scalars, 0)?.f_to_device(Device::Cpu)?)?;
        let mut rest = &values[self.entries.len()..];
        let mut named = BTreeMap::new();
        for ((name, entry), sum) in self.entries.iter().zip(&values) {
            let mut count = entry.count;
            if entry.device_count.is_some() {
                count = rest[0];
                rest = &rest[1..];
            }
            named.insert(name.clone(), if count > 0.0 { sum / count } else { 0.0 });
        }
        Ok((named, rest.to_vec()))
    }

    /// Whether anything was counted under a name whose count the host knows.
    #[must_use]
    pub fn counted(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(|entry| entry.count > 0.0)
    }

    /// Begins the next interval.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// The sums as tensors and the counts, for a checkpoint in the middle of an interval.
    pub fn save(&self) -> Result<(HostTensors, BTreeMap<String, f64>), Error> {
        let mut sums = HostTensors::new();
        for (name, entry) in &self.entries {
            sums.insert(entry_name(name), HostTensor::copy_of(&entry.sum)?);
            if let Some(count) = &entry.device_count {
                sums.insert(count_name(name), HostTensor::copy_of(count)?);
            }
        }
        let counts = self.entries.iter().map(|(name, entry)| (name.clone(), entry.count)).collect();
        Ok((sums, counts))
    }

    /// Takes a saved interval over. The problem, if there is one, names the tensor.
    pub fn load(&mut self, saved: &HostTensors, counts: &BTreeMap<String, f64>) -> Result<(), String> {
        self.entries.clear();
        for (name, &count) in counts {
            let scalar = |name: &str| {
                let scalar = Tensor::zeros([0_i64; 0], (WIDE, self.device));
                overwrite(&scalar, saved, name, self.device).map(|()| scalar)
            };
            let device_count = saved.contains_key(&count_name(name)).then(|| scalar(&count_name(name))).transpose()?;
            self.entries.insert(name.clone(), Entry { sum: scalar(&entry_name(name))?, count, device_count });
        }
        Ok(())
    }
}

fn entry_name(name: &str) -> String {
    format!("report.{name}")
}

fn count_name(name: &str) -> String {
    format!("count.{name}")
}

/// What a run reports: one line for people ([`Display`](fmt::Display)), one JSON object for machines.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Report {
    /// After the first step of a run.
    Start(StartReport),
    /// After some steps.
    Train(StepReport),
    /// After a look at the valid split.
    Valid(ValidReport),
}

/// What a run began with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StartReport {
    /// Steps done: one.
    pub step: Step,
    /// Whether all weights were drawn. Otherwise nothing is expected.
    pub random: bool,
    /// Each term over the first step, by `objective` or `objective.term`.
    pub terms: BTreeMap<String, f64>,
    /// What those that have a law should be.
    pub expected: BTreeMap<String, Expectation>,
    /// Those that are not.
    pub surprises: Vec<Surprise>,
}

/// Training since the last report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepReport {
    /// What was learned. The same command reports the same, to the bit, on an equal number of threads.
    #[serde(flatten)]
    pub figures: Figures,
    /// Running BLAKE3 over the digests of all batches consumed.
    pub batch_hash: String,
    /// How fast: no two runs agree.
    #[serde(flatten)]
    pub speed: Speed,
}

/// The numbers of the steps since the last report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Steps done.
    pub step: Step,
    /// The sum of the terms with their weights.
    pub loss: f64,
    /// Each term in nats or its own unit, by `objective` or `objective.term`.
    pub terms: BTreeMap<String, f64>,
    /// By `objective.metric`.
    pub metrics: BTreeMap<String, f64>,
    /// Learning rate of the last step.
    pub lr: f64,
    /// Mean norm of the gradient before clipping; a skipped step counts as 0.
    pub grad_norm: f64,
    /// Steps skipped since the run began.
    pub skipped: u64,
}

/// Numbers that depend on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Speed {
    /// Real tokens (no padding) per second of wall time.
    pub tokens_per_s: f64,
    /// Share of the device's peak that the model needed; CUDA only.
    pub mfu: Option<f64>,
    /// Share of wall time spent waiting for batches.
    pub wait: f64,
}

/// The valid split, in eval mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValidReport {
    /// Steps done.
    pub step: Step,
    /// Rows looked at.
    pub rows: u64,
    /// The sum of the terms with their weights.
    pub loss: f64,
    /// Each term, by `objective` or `objective.term`.
    pub terms: BTreeMap<String, f64>,
    /// By `objective.metric`.
    pub metrics: BTreeMap<String, f64>,
    /// Plain masked language modelling on the fixed mask; none without a head that predicts tokens.
    pub mlm: Option<MlmReport>,
    /// Seconds it took.
    pub seconds: f64,
}

/// The yardstick: one fixed mask for all runs on the same data, beside what needs no context at all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MlmReport {
    /// Mean cross-entropy in nats.
    pub loss: f64,
    /// Share of masked tokens whose best guess is right.
    pub accuracy: f64,
    /// ln of the vocabulary's size: where an untrained model begins.
    pub ln_vocab: f64,
    /// Entropy of the masked targets' own distribution: what no model without context can beat.
    pub unigram_entropy: f64,
    /// Their cross-entropy under the training split's unigram distribution: what a model without context reaches.
    pub unigram_cross_entropy: f64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(report) => report.fmt(f),
            Self::Train(report) => report.fmt(f),
            Self::Valid(report) => report.fmt(f),
        }
    }
}

impl fmt::Display for StartReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.random { "at random" } else { "from weights it was given" };
        write!(f, "step {}  began {how} with {}", self.step, list(&self.terms))
    }
}

impl fmt::Display for StepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { step, loss, terms, lr, grad_norm, skipped, .. } = &self.figures;
        write!(f, "step {step}  loss {loss:.4} ({})  lr {lr:.1e}  norm {grad_norm:.2}", list(terms))?;
        write!(f, "  {}", rate(self.speed.tokens_per_s))?;
        if let Some(mfu) = self.speed.mfu {
            write!(f, "  mfu {:.0} %", 100.0 * mfu)?;
        }
        write!(f, "  wait {:.1} %", 100.0 * self.speed.wait)?;
        if *skipped > 0 {
            write!(f, "  skipped {skipped}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ValidReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}  valid loss {:.4} ({})", self.step, self.loss, list(&self.terms))?;
        if let Some(mlm) = &self.mlm {
            write!(f, "  valid/mlm {:.4} (ln V {:.2}, unigram {:.2})", mlm.loss, mlm.ln_vocab, mlm.unigram_entropy)?;
        }
        Ok(())
    }
}

fn list(terms: &BTreeMap<String, f64>) -> String {
    terms.iter().map(|(name, value)| format!("{name} {value:.4}")).collect::<Vec<_>>().join(", ")
}

fn rate(tokens_per_s: f64) -> String {
    if tokens_per_s >= 1e6 {
        format!("{:.2} M tok/s", tokens_per_s / 1e6)
    } else if tokens_per_s >= 1e4 {
        format!("{:.0} k tok/s", tokens_per_s / 1e3)
    } else {
        format!("{tokens_per_s:.0} tok/s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_survives_a_checkpoint() {
        let mut tally = Tally::new(Device::Cpu);
        tally.add("mlm", &Tensor::from(3_f32), 2.0);
        tally.add("mlm", &Tensor::from(4_f32), 5.0);
        tally.add("empty", &Tensor::from(0_f32), 0.0);
        tally.add_counted("hits", &Tensor::from(1_i64), &Tensor::from(3_i64));
        let (sums, counts) = tally.save().expect("copied");
        let mut other = Tally::new(Device::Cpu);
        other.load(&sums, &counts).expect("complete");
        other.add("mlm", &Tensor::from(1_f32), 1.0);
        other.add_counted("hits", &Tensor::from(1_i64), &Tensor::from(1_i64));
        let (named, extra) = other.read(&[&Tensor::from(9_f64)]).expect("read");
        assert_eq!((named["mlm"], named["empty"], named["hits"], extra), (1.0, 0.0, 0.5, vec![9.0]));
    }

    #[test]
    fn a_report_is_one_line_and_one_object() {
        let report = Report::Train(StepReport {
            figures: Figures {
                step: Step(1200),
                loss: 3.41,
                terms: [("mlm".to_owned(), 2.9), ("tc".to_owned(), 0.51)].into(),
                metrics: [("mlm.accuracy".to_owned(), 0.4)].into(),
                lr: 1e-4,
                grad_norm: 0.8,
                skipped: 0,
            },
            batch_hash: "ab".to_owned(),
            speed: Speed { tokens_per_s: 745_000.0, mfu: Some(0.44), wait: 0.003 },
        });
        assert_eq!(
            report.to_string(),
            "step 1200  loss 3.4100 (mlm 2.9000, tc 0.5100)  lr 1.0e-4  norm 0.80  745 k tok/s  mfu 44 %  wait 0.3 %"
        );
        let json = serde_json::to_value(&report).expect("plain data");
        assert_eq!((&json["kind"], &json["terms"]["tc"], &json["step"]), (&"train".into(), &0.51.into(), &1200.into()));
    }
}
