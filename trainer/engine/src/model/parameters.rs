//! Named weights of a run, allocated as [`trainer_plan::weights`] declares them.
//!
//! A weight is identified by its path (`encoder.layers.0.attention.qkv.weight`, `heads.mlm.dense.bias`). Its initial
//! value is a function of the run's seed and that name alone, so that adding a head changes no other weight.

use std::collections::BTreeMap;

use tch::{Device, Tensor};
use trainer_plan::Error;
use trainer_plan::weights::{INITIAL_DEVIATION, Initial, WeightSpec, WeightSpecs};

use super::weight::{self, GradLeaves, GradReceiver, Weight};
use crate::device::precision::MASTER;
use crate::device::tensors::upload_once;

/// Named weight.
#[derive(Debug)]
pub(crate) struct Parameter {
    /// Value, a float32 leaf that accumulates gradients.
    pub tensor: Tensor,
    /// Whether weight decay applies.
    pub decays: bool,
    /// Whether the optimizer updates it.
    pub trains: bool,
    uses: GradLeaves,
}

/// All weights of a run, in the order of their names.
#[derive(Debug)]
pub(crate) struct Parameters {
    by_name: BTreeMap<String, Parameter>,
    device: Device,
}

impl Parameters {
    /// Allocates the declared weights on `device`, with initial values drawn from `seed`.
    #[must_use]
    pub(crate) fn new(specs: &WeightSpecs, seed: u64, device: Device) -> Self {
        let allocate = |(name, spec): (&str, &WeightSpec)| {
            let tensor = upload_once(&initial_values(spec, seed, name), device).set_requires_grad(spec.trains);
            let parameter = Parameter { tensor, decays: spec.decays, trains: spec.trains, uses: GradLeaves::default() };
            (name.to_owned(), parameter)
        };
        Self { by_name: specs.iter().map(allocate).collect(), device }
    }

    /// Returns the path below which a component finds its weights.
    pub(crate) fn path(&self, prefix: &str) -> Path<'_> {
        Path { parameters: self, prefix: prefix.to_owned() }
    }

    /// Iterates over names and weights, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Parameter)> {
        self.by_name.iter().map(|(name, parameter)| (name.as_str(), parameter))
    }

    /// Returns the weight of that name.
    #[must_use]
    pub(crate) fn get(&self, name: &str) -> Option<&Tensor> {
        self.by_name.get(name).map(|parameter| &parameter.tensor)
    }

    /// Refreshes the reduced-precision copies. Call it whenever weights may have changed.
    pub(crate) fn round(&self) -> Result<(), Error> {
        weight::round(self.by_name.values().map(|parameter| (&parameter.tensor, &parameter.uses)))
    }

    /// Adds the gradients of all uses to those of the weights, after a backward pass.
    pub(crate) fn accumulate_grads(&self) -> Result<(), Error> {
        weight::accumulate_grads(self.by_name.values().map(|parameter| (&parameter.tensor, &parameter.uses)))
    }

    /// Passes the gradient of each weight that trains to `receiver` during the next backward pass, as soon as all uses that
    /// are made until then have theirs. The index counts these weights.
    pub(crate) fn watch(&self, receiver: &GradReceiver) {
        let learning = self.by_name.values().filter(|parameter| parameter.trains);
        for (index, parameter) in learning.enumerate() {
            parameter.uses.watch(index, &parameter.tensor, receiver);
        }
    }

    /// Drops the uses that received no gradient, and ends the watch.
    pub(crate) fn clear_uses(&self) {
        weight::clear_uses(self.by_name.values().map(|parameter| &parameter.uses));
    }

    /// Returns the weights without any handle.
    #[cfg(test)]
    pub(crate) fn unused(&self) -> Vec<&str> {
        let unused = self.by_name.iter().filter(|(_, parameter)| !parameter.uses.is_shared());
        unused.map(|(name, _)| name.as_str()).collect()
    }

    /// Returns the device of the weights.
    #[must_use]
    pub(crate) fn device(&self) -> Device {
        self.device
    }
}

/// Draws initial values on the CPU, so that a run starts from the same weights on every device.
fn initial_values(spec: &WeightSpec, seed: u64, name: &str) -> Tensor {
    match spec.initial {
        Initial::Constant(value) => Tensor::full(&spec.shape, value, (MASTER, Device::Cpu)),
        Initial::Normal { rows } => {
            tch::manual_seed(hash_i64(&[&seed.to_le_bytes(), b"initial", name.as_bytes()]));
            let initial = Tensor::zeros(&spec.shape, (MASTER, Device::Cpu));
            let _ = initial.narrow(0, 0, rows).normal_(0.0, INITIAL_DEVIATION);
            initial
        }
    }
}

/// Prefix of weight names, for building a component.
#[derive(Debug)]
pub(crate) struct Path<'a> {
    parameters: &'a Parameters,
    prefix: String,
}

impl Path<'_> {
    /// Returns the path `name` below this one.
    pub(crate) fn sub(&self, name: &str) -> Path<'_> {
        Path { parameters: self.parameters, prefix: self.name(name) }
    }

    /// Returns a handle to the weight `name` below this path.
    ///
    /// # Panics
    /// If the plan does not declare the weight.
    pub(crate) fn weight(&self, name: &str) -> Weight {
        let name = self.name(name);
        let found = self.parameters.by_name.get(&name);
        let Parameter { tensor, uses, .. } = found.unwrap_or_else(|| panic!("weight `{name}` is not declared"));
        Weight::new(tensor, uses)
    }

    fn name(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}.{name}", self.prefix) }
    }
}

/// Returns a seed for torch's generator: the first 64 bits of BLAKE3 over the parts, each prefixed with its length.
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
            let mut specs = WeightSpecs::default();
            if with_other {
                specs.path("heads").matrix("other", [3, 3]);
            }
            specs.path("encoder").sub("layer").table("weight", [4, 5], 3);
            let parameters = Parameters::new(&specs, seed, Device::Cpu);
            parameters.path("encoder").sub("layer").weight("weight").master().detach()
        };
        assert_eq!(draw(1, false), draw(1, true));
        assert_ne!(draw(1, false), draw(2, false));
        assert_eq!(draw(1, false).get(3), Tensor::zeros([5], (MASTER, Device::Cpu)), "padding rows are 0");
    }
}
