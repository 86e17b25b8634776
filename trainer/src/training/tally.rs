//! Numbers that are added up on the device. The only file that reads them back.
//!
//! Sums, counts and metrics are added up where they are made; a report fetches all of them in one copy, and between
//! reports nobody waits for the device. Loss terms are `Σ S / Σ N` over the steps since the last report.

use std::collections::BTreeMap;

use tch::{Device, Tensor};

use crate::device::precision::WIDE;
use crate::device::tensors::{HostTensor, HostTensors, overwrite};
use crate::error::Error;

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
}
