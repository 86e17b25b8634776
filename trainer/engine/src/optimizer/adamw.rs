//! AdamW over the named weights. The state is owned here and not by libtorch, so that checkpoints can contain it.
//!
//! Definition, for the `n`-th update with gradient `g` (after clipping) and learning rate `η`:
//!
//! ```text
//! w ← w − η λ w                                   (matrices only, not biases and norms)
//! m ← β₁ m + (1 − β₁) g        v ← β₂ v + (1 − β₂) g²
//! w ← w − η · m / (1 − β₁ⁿ) / (√(v / (1 − β₂ⁿ)) + ε)
//! ```
//!
//! Clipping divides `g` by `max(1, (‖g‖ + 1e-6) / max_grad_norm)`, with `‖g‖` over all weights together. A weight that
//! is used twice, like the word table, counts once. A weight without gradient does not change. An update whose `‖g‖` is
//! not finite changes nothing: the device passes the flag to the kernel, and the host does not wait for it.
//!
//! With `shard = true`, each rank has the moments of a part of each weight and updates that part
//! (`training::moment_shards` completes the weights).
//!
//! With `bias_correction = false` both `1 − βⁿ` are 1. With `layer_decay < 1`, `η` depends on the layer of the weight
//! ([`OptimizerConfig::rate_factor`]), in the update and in the weight decay.
//!
//! Reference: Loshchilov & Hutter 2019, algorithm 2; `torch.optim.AdamW` and `clip_grad_norm_`.

use std::ops::Range;

use schemas::RankShard;
use tch::{Device, Tensor};
use trainer_plan::Error;
use trainer_plan::optimizer::OptimizerConfig;

use crate::device::native::{AdamWLists, AdamWUpdate, fused_adamw, global_norm, take_gradients};
use crate::device::precision::{MASTER, WIDE};
use crate::device::tensors::{HostTensors, overwrite, overwrite_part, part_of};
use crate::model::parameters::{Parameter, Parameters};

/// Step number at which `1 − βⁿ` is 1 in float32 for every β in use.
const UNCORRECTED: f64 = 1e8;

/// Optimizer of one run.
#[derive(Debug)]
pub(crate) struct AdamW {
    config: OptimizerConfig,
    slots: Vec<Slot>,
    // Distinct factors of the learning rate, in ascending order.
    rate_factors: Vec<f64>,
    // Number of updates so far, float32, on the device; skipped updates do not count.
    updates: Tensor,
}

#[derive(Debug)]
struct Slot {
    name: String,
    weight: Tensor,
    decays: bool,
    // Factor of the learning rate.
    rate_factor: f64,
    // Numbers that this rank updates, of the flat weight. `None`: all.
    part: Option<Range<i64>>,
    // View of these numbers of the weight.
    own: Tensor,
    mean: Tensor,
    variance: Tensor,
}

impl Slot {
    fn new(name: &str, parameter: &Parameter, rate_factor: f64, part: Option<Range<i64>>) -> Self {
        let weight = parameter.tensor.shallow_clone();
        let own = own_part(&weight.detach(), part.as_ref());
        Self {
            name: name.to_owned(),
            decays: parameter.decays,
            rate_factor,
            mean: own.zeros_like(),
            variance: own.zeros_like(),
            own,
            part,
            weight,
        }
    }
}

/// Alignment of parts in numbers, so that kernels treat a number as in a whole weight.
const PART_ALIGNMENT: u64 = 64;

/// Returns the numbers of a weight that belong to a rank.
fn part_for(share: RankShard, numbers: usize) -> Range<i64> {
    let each = (numbers as u64).div_ceil(u64::from(share.ranks())).next_multiple_of(PART_ALIGNMENT);
    let bound = |rank: u64| i64::try_from((rank * each).min(numbers as u64)).expect("sizes of memory fit 63 bits");
    let rank = share.in_stream(0);
    bound(rank)..bound(rank + 1)
}

/// Returns the part of each gradient that belongs to a rank. The update may belong to another one.
pub(crate) fn shares(gradients: &[Option<Tensor>], share: RankShard) -> Vec<Option<Tensor>> {
    let part = |gradient: &Tensor| {
        let part = part_for(share, gradient.numel());
        (!part.is_empty()).then(|| part_of(gradient, &part))
    };
    gradients.iter().map(|gradient| part(gradient.as_ref()?)).collect()
}

fn own_part(tensor: &Tensor, part: Option<&Range<i64>>) -> Tensor {
    part.map_or_else(|| tensor.shallow_clone(), |part| part_of(tensor, part))
}

/// Part of a tensor that this rank holds.
#[derive(Debug)]
pub(crate) struct HeldPart {
    /// Name in a checkpoint, or of the weight.
    pub name: String,
    /// Shape of the whole tensor.
    pub shape: Vec<i64>,
    /// Numbers of the flat tensor.
    pub part: Range<i64>,
    /// Values of the part.
    pub values: Tensor,
}

/// Result of one update, on the device.
#[derive(Debug)]
pub(crate) struct Update {
    /// Global norm of the gradient before clipping, float64.
    pub norm: Tensor,
    /// 1 if the norm was not finite and nothing changed, else 0; float64.
    pub skipped: Tensor,
}

impl AdamW {
    /// Creates an optimizer with empty moments, for a run whose main network has `layers` layers, on the rank of
    /// `share`.
    #[must_use]
    pub(crate) fn new(config: OptimizerConfig, layers: u32, parameters: &Parameters, share: RankShard) -> Self {
        let is_sharded = config.shard && share.ranks() > 1;
        let slot = |(name, parameter): (&str, &Parameter)| {
            let part = is_sharded.then(|| part_for(share, parameter.tensor.numel()));
            Slot::new(name, parameter, config.rate_factor(name, layers), part)
        };
        let updates = Tensor::zeros([1], (MASTER, parameters.device()));
        let learning = parameters.iter().filter(|(_, parameter)| parameter.trains);
        let slots: Vec<Slot> = learning.map(slot).collect();
        let mut rate_factors: Vec<f64> = slots.iter().map(|slot| slot.rate_factor).collect();
        rate_factors.sort_by(f64::total_cmp);
        rate_factors.dedup_by_key(|factor| factor.to_bits());
        Self { config, slots, rate_factors, updates }
    }

    /// Weights, in the order of the gradients.
    pub(crate) fn weights(&self) -> Vec<&Tensor> {
        self.slots.iter().map(|slot| &slot.weight).collect()
    }

    /// Weights with their names, in the order of the gradients.
    pub(crate) fn named_weights(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.slots.iter().map(|slot| (slot.name.as_str(), &slot.weight))
    }

    /// Takes the gradients out of the weights. `None` for weights without one.
    pub(crate) fn take_gradients(&self) -> Result<Vec<Option<Tensor>>, Error> {
        take_gradients(&self.weights())
    }

    /// Returns the norm of the gradients, `[1]`.
    pub(crate) fn norm(&self, gradients: &[Option<Tensor>]) -> Result<Tensor, Error> {
        let present: Vec<&Tensor> = gradients.iter().flatten().collect();
        Ok(if present.is_empty() { self.updates.zeros_like() } else { global_norm(&present)? }.view([1]))
    }

    /// Clips the gradients, one per weight, and updates the weights with learning rate `lr`. `norm` is that of all
    /// gradients.
    pub(crate) fn update(&mut self, gradients: &[Option<Tensor>], norm: &Tensor, lr: f64) -> Result<Update, Error> {
        let skip = norm.isfinite().logical_not().to_kind(MASTER);
        let scale = self.scale(norm);

        let gradients = self.own_gradients(gradients);
        let _ = self.updates.g_add_scalar_(1.0);
        // The kernel always applies the bias correction; at such a late step the correction is 1.
        let late = (!self.config.bias_correction).then(|| self.updates.full_like(UNCORRECTED));
        let step = late.as_ref().unwrap_or(&self.updates);
        for decays in [true, false] {
            let weight_decay = if decays { self.config.weight_decay } else { 0.0 };
            let betas = self.config.betas;
            let eps = self.config.eps;
            for &factor in &self.rate_factors {
                let lr = lr * factor;
                let update = AdamWUpdate { step, lr, betas, weight_decay, eps, scale: &scale, skip: &skip };
                fused_adamw(&self.lists(&gradients, decays, factor), update)?;
            }
        }
        self.updates -= &skip;
        Ok(Update { norm: norm.to_kind(WIDE).squeeze(), skipped: skip.to_kind(WIDE).squeeze() })
    }

    fn scale(&self, norm: &Tensor) -> Tensor {
        if self.config.max_grad_norm > 0.0 {
            ((norm + 1e-6) / self.config.max_grad_norm).clamp_min(1.0)
        } else {
            norm.ones_like()
        }
    }

    /// Returns the parts of the gradients whose weights this rank updates. `None` without gradients.
    fn own_gradients(&self, gradients: &[Option<Tensor>]) -> Vec<Option<Tensor>> {
        let own = |(slot, gradient): (&Slot, &Option<Tensor>)| {
            let part = slot.part.as_ref();
            let gradient = gradient.as_ref().filter(|_| part.is_none_or(|part| !part.is_empty()));
            gradient.map(|gradient| own_part(gradient, part))
        };
        self.slots.iter().zip(gradients).map(own).collect()
    }

    fn lists<'a>(&'a self, gradients: &'a [Option<Tensor>], decays: bool, rate_factor: f64) -> AdamWLists<'a> {
        let mut lists = AdamWLists::default();
        for (slot, gradient) in self.slots.iter().zip(gradients) {
            let is_member = slot.decays == decays && slot.rate_factor.to_bits() == rate_factor.to_bits();
            if let Some(gradient) = gradient.as_ref().filter(|_| is_member) {
                lists.weights.push(&slot.own);
                lists.gradients.push(gradient);
                lists.means.push(&slot.mean);
                lists.variances.push(&slot.variance);
            }
        }
        lists
    }

    /// Returns the parts of the weights that this rank updates, in order; nothing if it updates all.
    pub(crate) fn weight_parts(&self) -> impl Iterator<Item = HeldPart> {
        self.slots.iter().filter_map(|slot| {
            let part = slot.part.clone()?;
            let values = slot.own.shallow_clone();
            Some(HeldPart { name: slot.name.clone(), shape: slot.weight.size(), part, values })
        })
    }

    /// Returns the parts of the moments that this rank holds, in order; nothing if it holds all.
    pub(crate) fn moment_parts(&self) -> impl Iterator<Item = HeldPart> {
        self.slots.iter().filter_map(|slot| Some((slot, slot.part.clone()?))).flat_map(|(slot, part)| {
            moments(slot).map(|(name, values)| HeldPart {
                name,
                shape: slot.weight.size(),
                part: part.clone(),
                values: values.shallow_clone(),
            })
        })
    }

    /// Returns the number of updates, the only state of which every rank has all.
    pub(crate) fn updates(&self) -> (String, &Tensor) {
        ("updates".to_owned(), &self.updates)
    }

    /// Loads a saved state. The error message names the tensor.
    pub(crate) fn load(&mut self, saved: &HostTensors, device: Device) -> Result<(), String> {
        for slot in &self.slots {
            for (name, moment) in moments(slot) {
                match &slot.part {
                    Some(part) => overwrite_part(moment, saved, &name, &slot.weight.size(), part, device)?,
                    None => overwrite(moment, saved, &name, device)?,
                }
            }
        }
        let (name, updates) = self.updates();
        overwrite(updates, saved, &name, device)
    }

    /// Returns the state: `mean.NAME`, `variance.NAME`, `updates`. The next update changes these tensors. Moments of
    /// which this rank has a part are not among them.
    pub(crate) fn state(&self) -> impl Iterator<Item = (String, &Tensor)> {
        let whole = self.slots.iter().filter(|slot| slot.part.is_none());
        whole.flat_map(moments).chain([self.updates()])
    }
}

fn moments(slot: &Slot) -> [(String, &Tensor); 2] {
    [(format!("mean.{}", slot.name), &slot.mean), (format!("variance.{}", slot.name), &slot.variance)]
}

#[cfg(test)]
mod tests {
    use tch::nn::OptimizerConfig as _;
    use trainer_plan::weights::WeightSpecs;

    use super::*;
    use crate::device::tensors::HostTensor;
    use crate::testing;

    const CONFIG: OptimizerConfig = OptimizerConfig {
        lr: 0.1,
        betas: [0.8, 0.95],
        eps: 1e-6,
        weight_decay: 0.1,
        bias_correction: true,
        max_grad_norm: 0.0,
        layer_decay: 1.0,
        shard: false,
    };

    // One matrix and one gain. Their gradients are their own values times `factor`.
    fn parameters() -> (Parameters, Tensor, Tensor) {
        let mut specs = WeightSpecs::default();
        specs.path("a").matrix("weight", [2, 3]);
        specs.path("b").gain("weight", 4);
        let parameters = Parameters::new(&specs, 3, Device::Cpu);
        let [matrix, gain] = ["a", "b"].map(|name| parameters.path(name).weight("weight").master().shallow_clone());
        (parameters, matrix, gain)
    }

    fn update(optimizer: &mut AdamW, lr: f64) -> Update {
        let gradients = optimizer.take_gradients().expect("weights have gradients");
        let norm = optimizer.norm(&gradients).expect("on one device");
        optimizer.update(&gradients, &norm, lr).expect("shapes agree")
    }

    fn values(tensor: &Tensor) -> Vec<f32> {
        Vec::try_from(&tensor.detach().view([-1])).expect("float32")
    }

    fn backward(matrix: &Tensor, gain: &Tensor, factor: f64) {
        ((matrix.square().sum(MASTER) + gain.square().sum(MASTER)) * (factor / 2.0)).backward();
    }

    fn by_formula(weights: &mut [f64], factors: &[f64], config: &OptimizerConfig, decay: f64) {
        let mut means = vec![0.0; weights.len()];
        let mut variances = vec![0.0; weights.len()];
        for (n, factor) in (1..).zip(factors) {
            for (i, weight) in weights.iter_mut().enumerate() {
                let gradient = *weight * factor;
                *weight -= config.lr * decay * *weight;
                means[i] = config.betas[0] * means[i] + (1.0 - config.betas[0]) * gradient;
                variances[i] = config.betas[1] * variances[i] + (1.0 - config.betas[1]) * gradient * gradient;
                let corrected = |beta: f64| if config.bias_correction { 1.0 - beta.powi(n) } else { 1.0 };
                let mean = means[i] / corrected(config.betas[0]);
                let variance: f64 = variances[i] / corrected(config.betas[1]);
                *weight -= config.lr * mean / (variance.sqrt() + config.eps);
            }
        }
    }

    fn assert_near(got: &[f32], expected: &[f64], tolerance: f64) {
        for (got, expected) in got.iter().zip(expected) {
            assert!((f64::from(*got) - expected).abs() < tolerance, "{got} is not {expected}");
        }
    }

    #[test]
    fn updates_follow_the_formula_and_exclude_biases_from_decay() {
        let _alone = testing::generator();
        for bias_correction in [true, false] {
            let config = OptimizerConfig { bias_correction, ..CONFIG };
            let (parameters, matrix, gain) = parameters();
            let mut expected_matrix: Vec<f64> = values(&matrix).into_iter().map(f64::from).collect();
            let mut expected_gain = vec![1.0; 4];
            let factors = [1.0, -0.5, 2.0, 0.25];
            by_formula(&mut expected_matrix, &factors, &config, config.weight_decay);
            by_formula(&mut expected_gain, &factors, &config, 0.0);

            let mut optimizer = AdamW::new(config.clone(), 2, &parameters, RankShard::ALONE);
            for factor in factors {
                backward(&matrix, &gain, factor);
                update(&mut optimizer, config.lr);
            }
            assert_near(&values(&matrix), &expected_matrix, 1e-5);
            assert_near(&values(&gain), &expected_gain, 1e-5);
        }
    }

    /// Weights of the embeddings, of the first of two layers and of a head. Their gradients and moments are equal.
    #[test]
    fn every_layer_has_its_learning_rate() {
        let _alone = testing::generator();
        for bias_correction in [true, false] {
            let mut specs = WeightSpecs::default();
            let names = ["encoder.embeddings.word", "encoder.layers.0.attention.qkv", "heads.task.classifier"];
            for name in names {
                specs.path(name).gain("weight", 3);
                specs.path(name).matrix("matrix", [1, 3]);
            }
            let parameters = Parameters::new(&specs, 3, Device::Cpu);
            let weights = |name: &str| {
                ["weight", "matrix"].map(|kind| parameters.path(name).weight(kind).master().shallow_clone())
            };
            for [_, matrix] in names.map(weights) {
                let _ = tch::no_grad(|| matrix.shallow_clone().fill_(1.0));
            }
            let config = OptimizerConfig { layer_decay: 0.5, bias_correction, ..CONFIG };
            let mut optimizer = AdamW::new(config.clone(), 2, &parameters, RankShard::ALONE);
            let factors = [1.0, -0.5, 2.0];
            for factor in factors {
                for [gain, matrix] in names.map(weights) {
                    backward(&matrix, &gain, factor);
                }
                update(&mut optimizer, config.lr);
            }
            for (name, rate) in names.into_iter().zip([0.0625, 0.125, 1.0]) {
                let slower = OptimizerConfig { lr: config.lr * rate, ..config.clone() };
                for (weight, decay) in weights(name).iter().zip([0.0, config.weight_decay]) {
                    let mut expected = vec![1.0; 3];
                    by_formula(&mut expected, &factors, &slower, decay);
                    assert_near(&values(weight), &expected, 1e-6);
                }
            }
        }
    }

    #[test]
    fn updates_equal_those_of_libtorch() {
        let _alone = testing::generator();
        let (parameters, matrix, gain) = parameters();
        let config = OptimizerConfig { weight_decay: 0.0, ..CONFIG };
        let store = tch::nn::VarStore::new(Device::Cpu);
        let theirs = store.root().var_copy("matrix", &matrix);
        let mut reference = tch::nn::AdamW { beta1: 0.8, beta2: 0.95, wd: 0.0, eps: 1e-6, amsgrad: false }
            .build(&store, config.lr)
            .expect("an optimizer");
        let mut optimizer = AdamW::new(config, 2, &parameters, RankShard::ALONE);
        for factor in [1.0, 3.0, -1.0, 0.5, 2.0] {
            backward(&matrix, &gain, factor);
            update(&mut optimizer, 0.1);
            reference.backward_step(&(theirs.square().sum(MASTER) * (factor / 2.0)));
        }
        let expected: Vec<f64> = values(&theirs).into_iter().map(f64::from).collect();
        assert_near(&values(&matrix), &expected, 1e-6);
    }

    /// The parts of three ranks, with weights shorter than a part, are updated as one rank updates the whole.
    #[test]
    fn ranks_update_their_parts_as_one_rank_updates_all() {
        let _alone = testing::generator();
        let run = |shares: &[RankShard]| {
            let mut specs = WeightSpecs::default();
            specs.path("a").matrix("weight", [7, 61]);
            specs.path("b").gain("weight", 5);
            let parameters = Parameters::new(&specs, 3, Device::Cpu);
            let [matrix, gain] = ["a", "b"].map(|name| parameters.path(name).weight("weight").master().shallow_clone());
            let config = OptimizerConfig { shard: true, ..CONFIG };
            let mut optimizers: Vec<AdamW> =
                shares.iter().map(|share| AdamW::new(config.clone(), 2, &parameters, *share)).collect();
            for factor in [1.0, -0.5, 2.0] {
                backward(&matrix, &gain, factor);
                let gradients = optimizers[0].take_gradients().expect("weights have gradients");
                for optimizer in &mut optimizers {
                    let norm = optimizer.norm(&gradients).expect("on one device");
                    optimizer.update(&gradients, &norm, 0.1).expect("shapes agree");
                }
            }
            let held: i64 =
                optimizers.iter().flat_map(AdamW::weight_parts).map(|held| held.part.end - held.part.start).sum();
            (values(&matrix), values(&gain), held)
        };
        let whole = run(&[RankShard::ALONE]);
        let parts = run(&[0, 1, 2].map(|rank| RankShard::new(rank, 3).expect("one of three")));
        assert_eq!((&parts.0, &parts.1), (&whole.0, &whole.1));
        assert_eq!([whole.2, parts.2], [0, 7 * 61 + 5], "each number belongs to one rank");
    }

    #[test]
    fn a_long_gradient_is_cut_to_the_limit() {
        let _alone = testing::generator();
        let (parameters, matrix, gain) = parameters();
        // Adam normalises the length of a gradient away; the second moment shows it.
        let mut optimizer =
            AdamW::new(OptimizerConfig { max_grad_norm: 0.5, ..CONFIG }, 2, &parameters, RankShard::ALONE);
        backward(&matrix, &gain, 100.0);
        update(&mut optimizer, 0.0);
        let squares = optimizer.slots.iter().map(|slot| slot.variance.sum(WIDE)).sum::<Tensor>();
        let length = (f64::try_from(&squares).expect("a scalar") / (1.0 - CONFIG.betas[1])).sqrt();
        assert!((length - 0.5).abs() < 1e-4, "clipped to {length}");
    }

    #[test]
    fn a_gradient_that_is_not_finite_changes_nothing() {
        let _alone = testing::generator();
        let (parameters, matrix, gain) = parameters();
        let mut optimizer = AdamW::new(CONFIG, 2, &parameters, RankShard::ALONE);
        backward(&matrix, &gain, 1.0);
        update(&mut optimizer, 0.1);
        let state = |optimizer: &AdamW| -> Vec<HostTensor> {
            optimizer.state().map(|(_, tensor)| HostTensor::copy_of(tensor).expect("float32")).collect()
        };
        let before = (state(&optimizer), values(&matrix));
        backward(&matrix, &gain, f64::NAN);
        let update = update(&mut optimizer, 0.1);
        assert!(f64::try_from(&update.skipped).is_ok_and(|flag| flag > 0.5));
        assert_eq!((state(&optimizer), values(&matrix)), before);
    }
}
