//! The named weights of a run.
//!
//! A weight is known by its path (`encoder.layers.0.attention.qkv.weight`, `heads.mlm.dense.bias`). Its initial value
//! is a function of the run's seed and that name alone, so that adding a head changes no other weight. Whether AdamW
//! decays it follows from how it was made: matrices decay, biases and norms do not (Devlin et al. 2019, A.2).

use std::collections::BTreeMap;

use tch::{Device, Tensor};

use super::weight::{self, Uses, Weight};
use crate::device::precision::MASTER;
use crate::device::tensors::place;
use crate::error::Error;

/// Standard deviation of initial matrices (Devlin et al. 2019; `initializer_range` of Hugging Face).
pub(crate) const INITIAL_DEVIATION: f64 = 0.02;

/// One named weight.
#[derive(Debug)]
pub(crate) struct Parameter {
    /// The value, a float32 leaf that gathers gradients.
    pub tensor: Tensor,
    /// Whether weight decay applies.
    pub decays: bool,
    /// Whether the optimizer moves it.
    pub trains: bool,
    uses: Uses,
}

/// All weights of a run, in the order of their names.
#[derive(Debug)]
pub(crate) struct Parameters {
    by_name: BTreeMap<String, Parameter>,
    seed: u64,
    device: Device,
    // Shapes without values: what a plan counts.
    outline: bool,
}

impl Parameters {
    /// An empty set whose weights will be drawn under `seed` and live on `device`.
    #[must_use]
    pub(crate) fn new(seed: u64, device: Device) -> Self {
        Self { by_name: BTreeMap::new(), seed, device, outline: false }
    }

    /// An empty set whose weights have shapes and no memory: for counting, not for computing.
    #[must_use]
    pub(crate) fn outline() -> Self {
        Self { by_name: BTreeMap::new(), seed: 0, device: Device::Cpu, outline: true }
    }

    /// The place below which a component keeps its weights.
    pub(crate) fn path(&mut self, prefix: &str) -> Path<'_> {
        Path { parameters: self, prefix: prefix.to_owned(), trains: true }
    }

    /// Names and weights, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Parameter)> {
        self.by_name.iter().map(|(name, parameter)| (name.as_str(), parameter))
    }

    /// The weight of that name.
    #[must_use]
    pub(crate) fn get(&self, name: &str) -> Option<&Tensor> {
        self.by_name.get(name).map(|parameter| &parameter.tensor)
    }

    /// Makes the copies that products take anew: whenever weights may have changed.
    pub(crate) fn round(&self) -> Result<(), Error> {
        weight::round(self.by_name.values().map(|parameter| (&parameter.tensor, &parameter.uses)))
    }

    /// Adds the gradients that uses of the weights have to the weights', after a backward pass.
    pub(crate) fn gather(&self) -> Result<(), Error> {
        weight::gather(self.by_name.values().map(|parameter| (&parameter.tensor, &parameter.uses)))
    }

    /// Forgets uses that got no gradient.
    pub(crate) fn forget(&self) {
        weight::forget(self.by_name.values().map(|parameter| &parameter.uses));
    }

    /// Where they live.
    #[must_use]
    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// Numbers in all weights that learn.
    #[must_use]
    pub(crate) fn count(&self) -> u64 {
        self.by_name
            .values()
            .filter(|parameter| parameter.trains)
            .map(|parameter| parameter.tensor.numel() as u64)
            .sum()
    }

    /// Numbers in all weights that stay as they are.
    #[must_use]
    pub(crate) fn frozen_count(&self) -> u64 {
        let frozen = self.by_name.values().filter(|parameter| !parameter.trains);
        frozen.map(|parameter| parameter.tensor.numel() as u64).sum()
    }

    fn add(&mut self, name: &str, shape: &[i64], initial: Initial, (decays, trains): (bool, bool)) -> Weight {
        let values = if self.outline {
            Tensor::zeros([1], (MASTER, Device::Cpu)).expand(shape, false)
        } else {
            place(&initial.values(self.seed, name, shape), self.device)
        };
        let tensor = values.set_requires_grad(trains && !self.outline);
        let uses = Uses::default();
        let handle = Weight::new(&tensor, &uses);
        let former = self.by_name.insert(name.to_owned(), Parameter { tensor, decays, trains, uses });
        assert!(former.is_none(), "weight `{name}` was made twice");
        handle
    }
}

/// What a weight starts from.
#[derive(Clone, Copy, Debug)]
enum Initial {
    /// N(0, 0.02²) in the first rows; the others, padding, are 0.
    Normal {
        /// How many.
        rows: i64,
    },
    Constant(f64),
}

impl Initial {
    /// Drawn on the CPU, so that a run starts from the same weights on every device.
    fn values(self, seed: u64, name: &str, shape: &[i64]) -> Tensor {
        match self {
            Self::Constant(value) => Tensor::full(shape, value, (MASTER, Device::Cpu)),
            Self::Normal { rows } => {
                tch::manual_seed(hash_i64(&[&seed.to_le_bytes(), b"initial", name.as_bytes()]));
                let initial = Tensor::zeros(shape, (MASTER, Device::Cpu));
                let _ = initial.narrow(0, 0, rows).normal_(0.0, INITIAL_DEVIATION);
                initial
            }
        }
    }
}

/// A prefix of names, lent to a component while it makes its weights.
#[derive(Debug)]
pub(crate) struct Path<'a> {
    parameters: &'a mut Parameters,
    prefix: String,
    trains: bool,
}

impl Path<'_> {
    /// A place below this one.
    pub(crate) fn sub(&mut self, name: &str) -> Path<'_> {
        let prefix = self.name(name);
        Path { parameters: self.parameters, prefix, trains: self.trains }
    }

    /// The same place; what is made there does not learn if `frozen`.
    pub(crate) fn frozen(&mut self, frozen: bool) -> Path<'_> {
        Path { parameters: self.parameters, prefix: self.prefix.clone(), trains: self.trains && !frozen }
    }

    /// A matrix drawn from N(0, 0.02²). Decays.
    pub(crate) fn matrix(&mut self, name: &str, shape: &[i64]) -> Weight {
        self.table(name, shape, shape[0])
    }

    /// A matrix of which only the first `rows` rows are drawn; the others, padding, are 0. Decays.
    pub(crate) fn table(&mut self, name: &str, shape: &[i64], rows: i64) -> Weight {
        self.add(name, shape, Initial::Normal { rows }, true)
    }

    /// A vector of zeros. Does not decay.
    pub(crate) fn bias(&mut self, name: &str, length: i64) -> Weight {
        self.add(name, &[length], Initial::Constant(0.0), false)
    }

    /// A vector of ones. Does not decay.
    pub(crate) fn gain(&mut self, name: &str, length: i64) -> Weight {
        self.add(name, &[length], Initial::Constant(1.0), false)
    }

    fn add(&mut self, name: &str, shape: &[i64], initial: Initial, decays: bool) -> Weight {
        let name = self.name(name);
        self.parameters.add(&name, shape, initial, (decays, self.trains))
    }

    fn name(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}.{name}", self.prefix) }
    }
}

/// A seed for torch's generator: the first 64 bits of BLAKE3 over the parts, each with its length.
pub(crate) fn hash_i64(parts: &[&[u8]]) -> i64 {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    i64::from_le_bytes(hasher.finalize().as_bytes()[..8].try_into().expect("a hash has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_weight_depends_on_seed_and_name_alone() {
        let _alone = testing::generator();
        let draw = |seed, with_other: bool| {
            let mut parameters = Parameters::new(seed, Device::Cpu);
            if with_other {
                let _ = parameters.path("heads").matrix("other", &[3, 3]);
            }
            parameters.path("encoder").sub("layer").table("weight", &[4, 5], 3).master().detach()
        };
        assert_eq!(draw(1, false), draw(1, true));
        assert_ne!(draw(1, false), draw(2, false));
        assert_eq!(draw(1, false).get(3), Tensor::zeros([5], (MASTER, Device::Cpu)), "padding rows are 0");
    }
}
