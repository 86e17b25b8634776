//! The named weights of a run.
//!
//! A weight is known by its path (`encoder.layers.0.attention.qkv.weight`, `heads.mlm.dense.bias`). Its initial value
//! is a function of the run's seed and that name alone, so that adding a head changes no other weight. Whether AdamW
//! decays it follows from how it was made: matrices decay, biases and norms do not (Devlin et al. 2019, A.2).

use std::collections::BTreeMap;

use tch::{Device, Tensor};

use crate::precision::MASTER;

/// Standard deviation of initial matrices (Devlin et al. 2019; `initializer_range` of Hugging Face).
pub const INITIAL_DEVIATION: f64 = 0.02;

/// One named weight.
#[derive(Debug)]
pub struct Parameter {
    /// The value, a float32 leaf that gathers gradients.
    pub tensor: Tensor,
    /// Whether weight decay applies.
    pub decays: bool,
}

/// All weights of a run, in the order of their names.
#[derive(Debug)]
pub struct Parameters {
    by_name: BTreeMap<String, Parameter>,
    seed: u64,
    device: Device,
}

impl Parameters {
    /// An empty set whose weights will be drawn under `seed` and live on `device`.
    #[must_use]
    pub fn new(seed: u64, device: Device) -> Self {
        Self { by_name: BTreeMap::new(), seed, device }
    }

    /// The place below which a component keeps its weights.
    pub fn path(&mut self, prefix: &str) -> Path<'_> {
        Path { parameters: self, prefix: prefix.to_owned() }
    }

    /// Names and weights, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Parameter)> {
        self.by_name.iter().map(|(name, parameter)| (name.as_str(), parameter))
    }

    /// The weight of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.by_name.get(name).map(|parameter| &parameter.tensor)
    }

    /// Where they live.
    #[must_use]
    pub fn device(&self) -> Device {
        self.device
    }

    /// Numbers in all weights together.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.by_name.values().map(|parameter| parameter.tensor.numel() as u64).sum()
    }

    fn add(&mut self, name: &str, initial: &Tensor, decays: bool) -> Tensor {
        let tensor = initial.to_device(self.device).set_requires_grad(true);
        let handle = tensor.shallow_clone();
        let former = self.by_name.insert(name.to_owned(), Parameter { tensor, decays });
        assert!(former.is_none(), "weight `{name}` was made twice");
        handle
    }
}

/// A prefix of names, lent to a component while it makes its weights.
#[derive(Debug)]
pub struct Path<'a> {
    parameters: &'a mut Parameters,
    prefix: String,
}

impl Path<'_> {
    /// A place below this one.
    pub fn sub(&mut self, name: &str) -> Path<'_> {
        let prefix = self.name(name);
        Path { parameters: self.parameters, prefix }
    }

    /// A matrix drawn from N(0, 0.02²). Decays.
    pub fn matrix(&mut self, name: &str, shape: &[i64]) -> Tensor {
        self.table(name, shape, shape[0])
    }

    /// A matrix of which only the first `rows` rows are drawn; the others, padding, are 0. Decays.
    pub fn table(&mut self, name: &str, shape: &[i64], rows: i64) -> Tensor {
        let name = self.name(name);
        // Drawn on the CPU, so that a run starts from the same weights on every device.
        tch::manual_seed(hash_i64(&[&self.parameters.seed.to_le_bytes(), b"initial", name.as_bytes()]));
        let mut initial = Tensor::zeros(shape, (MASTER, Device::Cpu));
        let _ = initial.narrow(0, 0, rows).normal_(0.0, INITIAL_DEVIATION);
        let _ = initial.requires_grad_(false);
        self.parameters.add(&name, &initial, true)
    }

    /// A vector of zeros. Does not decay.
    pub fn bias(&mut self, name: &str, length: i64) -> Tensor {
        let name = self.name(name);
        self.parameters.add(&name, &Tensor::zeros([length], (MASTER, Device::Cpu)), false)
    }

    /// A vector of ones. Does not decay.
    pub fn gain(&mut self, name: &str, length: i64) -> Tensor {
        let name = self.name(name);
        self.parameters.add(&name, &Tensor::ones([length], (MASTER, Device::Cpu)), false)
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
            parameters.path("encoder").sub("layer").table("weight", &[4, 5], 3)
        };
        assert_eq!(draw(1, false), draw(1, true));
        assert_ne!(draw(1, false), draw(2, false));
        assert_eq!(draw(1, false).get(3), Tensor::zeros([5], (MASTER, Device::Cpu)), "padding rows are 0");
    }
}
