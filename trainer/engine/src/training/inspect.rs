//! Hidden states, word vectors and gradients with the weights of a checkpoint, for `cloze analyze`.

use std::collections::BTreeSet;

use analysis::Vectors;
use schemas::Batch;
use schemas::ordinal::Step;
use store::Store;
use tch::{Kind, Tensor};
use trainer_plan::Error;
use trainer_plan::TrainPlan;
use trainer_plan::metric_name::MetricName;
use trainer_plan::networks::MAIN;

use crate::device::native::CheckStatus as _;
use crate::device::tensors::{as_i64, upload_once};
use crate::model::encoder::Input;
use crate::model::forward::Forward;
use crate::model::host_batch::HostBatch;
use crate::model::layers::Mode;
use crate::training::checkpoint;
use crate::training::inference;
use crate::training::metric_accumulator::{MetricAccumulator, MetricReading};
use crate::training::oom_error;
use crate::training::step::Trainer;

/// Most tokens of one pass, padding included.
const TOKENS_AT_ONCE: usize = 16_384;

/// Weights of a checkpoint, in eval mode.
#[derive(Debug)]
pub struct Inspector {
    trainer: Trainer,
}

impl Inspector {
    /// Loads the weights of `run` after `step`.
    ///
    /// # Errors
    /// If there is no such checkpoint.
    pub fn open(plan: &TrainPlan, run: &Store, step: Step) -> Result<Self, Error> {
        let (place, snapshot) = checkpoint::pick(run, Some(step))?;
        // Without the identity check: a changed key does not matter for inference.
        let trainer = inference::trainer(plan, |trainer| trainer.load(&place, &snapshot).map(drop))?;
        Ok(Self { trainer })
    }

    /// Loads the weights that `train.init_from` of the plan names.
    ///
    /// # Errors
    /// If the folder cannot be read, or if its model is of another shape.
    pub fn of_model(plan: &TrainPlan) -> Result<Self, Error> {
        Ok(Self { trainer: inference::trainer(plan, Trainer::begin)? })
    }

    /// Returns the number of layers of the main network.
    fn layers(&self) -> usize {
        self.trainer.plan().encoder.layers as usize
    }

    /// Encodes rows, frames included, with the main network. Passes the index of each row and its hidden states to
    /// `visit`, in order, one array for each of `layers`; layer 0 is the output of the embedding block.
    ///
    /// # Errors
    /// If libtorch fails, or if memory is short.
    pub fn encode(
        &self,
        rows: &[Vec<u32>],
        layers: &[usize],
        visit: &mut dyn FnMut(usize, Vec<Vectors>),
    ) -> Result<(), Error> {
        let mut first = 0;
        while first < rows.len() {
            let mut end = first;
            let mut width = 0;
            while end < rows.len() {
                let wider = width.max(rows[end].len());
                if end > first && wider * (end + 1 - first) > TOKENS_AT_ONCE {
                    break;
                }
                width = wider;
                end += 1;
            }
            let states =
                oom_error::wrap_read_only(self.trainer.plan(), || self.encode_batch(&rows[first..end], width, layers))?;
            for (row, states) in (first..end).zip(states) {
                visit(row, states);
            }
            first = end;
        }
        Ok(())
    }

    fn encode_batch(&self, rows: &[Vec<u32>], width: usize, layers: &[usize]) -> Result<Vec<Vec<Vectors>>, Error> {
        let _guard = tch::no_grad_guard();
        let padding = i64::from(self.trainer.plan().vocab.special.pad);
        let mut ids = Vec::with_capacity(rows.len() * width);
        let mut valid = Vec::with_capacity(rows.len() * width);
        for row in rows {
            let missing = width - row.len();
            ids.extend(row.iter().map(|&id| i64::from(id)).chain(std::iter::repeat_n(padding, missing)));
            valid.extend(std::iter::repeat_n(true, row.len()).chain(std::iter::repeat_n(false, missing)));
        }
        let shape = [as_i64(rows.len()), as_i64(width)];
        let device = self.trainer.device();
        let ids_bt = upload_once(&Tensor::from_slice(&ids).view(shape), device);
        let has_padding = valid.contains(&false);
        let valid_bt = has_padding.then(|| upload_once(&Tensor::from_slice(&valid).view(shape), device));
        let input = Input { ids_bt: &ids_bt, token_types_bt: None, valid_bt: valid_bt.as_ref(), packed: None };
        let encoder = self.trainer.networks().encoder(MAIN);
        let last = self.layers();
        let encoded = if layers.iter().any(|&layer| layer != 0 && layer != last) {
            encoder.forward_keeping_layers(input, Mode::Eval)
        } else {
            encoder.forward(input, Mode::Eval)
        };
        let mut found: Vec<Vec<Vectors>> = rows.iter().map(|_| Vec::with_capacity(layers.len())).collect();
        for &layer in layers {
            let hidden_btd = if layer == last { encoded.hidden_btd.shallow_clone() } else { encoded.layer_btd(layer) };
            for ((row, found), ids) in (0..).zip(&mut found).zip(rows) {
                found.push(flat(&hidden_btd.get(row).narrow(0, 0, as_i64(ids.len())))?);
            }
        }
        Ok(found)
    }

    /// Returns the rows of the word table for ids of the vocabulary.
    ///
    /// # Errors
    /// If libtorch fails.
    pub fn word_vectors(&self, ids: &[u32]) -> Result<Vectors, Error> {
        let _guard = tch::no_grad_guard();
        let ids: Vec<i64> = ids.iter().map(|&id| i64::from(id)).collect();
        let ids_n = upload_once(&Tensor::from_slice(&ids), self.trainer.device());
        let table = self.trainer.networks().word_table(MAIN);
        flat(&table.master().detach().index_select(0, &ids_n))
    }
}

impl Inspector {
    /// Returns the gradient of the summed cross-entropy of the main network's prediction head at `positions` of a row,
    /// frame included, whose ids there are masks. It is concatenated over the trained weights that `matches` selects, in
    /// the order of their names. Dropout is off.
    ///
    /// # Errors
    /// [`Error::Config`] if no objective of the run predicts tokens, or if no weight is selected.
    pub fn gradient(
        &self,
        ids: &[u32],
        positions: &[usize],
        targets: &[u32],
        matches: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<f32>, Error> {
        oom_error::wrap_read_only(self.trainer.plan(), || {
            let parameters = self.trainer.parameters();
            let trained = || parameters.iter().filter(|(_, weight)| weight.trains);
            let chosen: Vec<_> = trained().filter(|(name, _)| matches(name)).collect();
            if chosen.is_empty() {
                let names = trained().map(|(name, _)| name).take(20).collect::<Vec<_>>().join(", ");
                return Err(Error::Config(format!("no trained weight has such a name; the first are {names}")));
            }
            let Some(head) = self.trainer.token_head() else {
                return Err(Error::Config("the main network has no head that predicts tokens".to_owned()));
            };
            let device = self.trainer.device();
            let whole = |values: &mut dyn Iterator<Item = i64>| {
                upload_once(&Tensor::from_slice(&values.collect::<Vec<_>>()), device)
            };
            let ids_bt = whole(&mut ids.iter().map(|&id| i64::from(id))).unsqueeze(0);
            let positions_n = whole(&mut positions.iter().map(|&at| as_i64(at)));
            let targets_n = whole(&mut targets.iter().map(|&id| i64::from(id)));
            let input = Input { ids_bt: &ids_bt, token_types_bt: None, valid_bt: None, packed: None };
            let encoded = self.trainer.networks().encoder(MAIN).forward(input, Mode::Eval);
            let hidden_nd = Forward::gather(&encoded.hidden_btd, &positions_n);
            let scored = head.score(&hidden_nd, &targets_n, |_| {});
            scored.nll_n.sum(scored.nll_n.kind()).f_backward().checked()?;
            parameters.accumulate_grads()?;
            parameters.clear_uses();
            let mut gradient = Vec::new();
            for (_, weight) in &chosen {
                let found = weight.tensor.grad();
                if found.defined() {
                    gradient.extend_from_slice(flat(&found.reshape([1, -1]))?.get(0));
                } else {
                    gradient.resize(gradient.len() + weight.tensor.numel(), 0.0);
                }
            }
            for (_, weight) in parameters.iter() {
                let mut found = weight.tensor.grad();
                if found.defined() {
                    let _ = found.zero_();
                }
            }
            Ok(gradient)
        })
    }

    /// Returns the terms and metrics of all objectives on batches, in eval mode. The term of an objective with one term
    /// has an empty name.
    ///
    /// # Errors
    /// If libtorch fails, or if a batch is none of this run.
    pub fn metrics(&self, batches: impl IntoIterator<Item = Batch>) -> Result<Vec<(MetricName, f64)>, Error> {
        let mut metrics = MetricAccumulator::new(self.trainer.device());
        for batch in batches {
            oom_error::wrap_read_only(self.trainer.plan(), || {
                let batch = HostBatch::new(&batch, self.trainer.networks())?;
                self.trainer.evaluate(&batch, &BTreeSet::new(), |_| true, &mut metrics).map(drop)
            })?;
        }
        let (MetricReading { terms, metrics, .. }, _) = metrics.read(self.trainer.ranks(), &[])?;
        Ok(terms.into_iter().chain(metrics).collect())
    }
}

/// Copies vectors `[n, d]` to the host.
fn flat(vectors_nd: &Tensor) -> Result<Vectors, Error> {
    let width = usize::try_from(vectors_nd.size()[1]).expect("a width is positive");
    let flat = vectors_nd.f_to_kind(Kind::Float).checked()?.f_reshape([-1]).checked()?;
    Ok(Vectors::new(width, Vec::<f32>::try_from(&flat).checked()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn inspector() -> Inspector {
        Inspector { trainer: testing::trainer(&testing::request()) }
    }

    const ROW: [u32; 5] = [2, 7, 4, 9, 3];

    #[test]
    fn rows_are_encoded_alone_as_with_others_and_every_layer_is_kept() {
        let _alone = testing::generator();
        let inspector = inspector();
        let layers: Vec<usize> = (0..=inspector.layers()).collect();
        let encode = |rows: &[Vec<u32>], layers: &[usize]| {
            let mut found = Vec::new();
            inspector.encode(rows, layers, &mut |row, states| found.push((row, states))).expect("encoded");
            found
        };
        let long: Vec<u32> = (5..14).collect();
        let together = encode(&[ROW.to_vec(), long], &layers);
        let alone = encode(&[ROW.to_vec()], &layers);
        assert_eq!(together.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [0, 1]);
        for (one, other) in together[0].1.iter().zip(&alone[0].1) {
            assert_eq!(one.count(), ROW.len(), "without padding");
            let mut cells = one.iter().flatten().zip(other.iter().flatten());
            assert!(cells.all(|(a, b)| (a - b).abs() < 1e-5), "padding is not seen");
        }
        let last = encode(&[ROW.to_vec()], &layers[layers.len() - 1..]);
        assert_eq!(last[0].1[0], alone[0].1[layers.len() - 1]);
        assert_ne!(alone[0].1[0], alone[0].1[1], "layers differ");
    }

    #[test]
    fn the_gradient_is_the_slope_of_the_loss_and_leaves_no_trace() {
        let _alone = testing::generator();
        let inspector = inspector();
        let gradient = |matches: &dyn Fn(&str) -> bool| inspector.gradient(&ROW, &[2], &[8], matches);
        let whole = gradient(&|name| name.starts_with("encoder.layers.")).expect("computed");
        let one = gradient(&|name| name == "encoder.layers.1.feed_forward.norm.bias").expect("computed");
        assert_eq!(
            gradient(&|name| name == "encoder.layers.1.feed_forward.norm.bias").expect("computed"),
            one,
            "no gradient is left"
        );
        assert!(whole.len() > one.len() && whole.iter().any(|value| *value != 0.0));
        let loss = || {
            let _guard = tch::no_grad_guard();
            let ids_bt = Tensor::from_slice(&ROW.map(i64::from)).unsqueeze(0);
            let input = Input { ids_bt: &ids_bt, token_types_bt: None, valid_bt: None, packed: None };
            let hidden_btd = inspector.trainer.networks().encoder(MAIN).forward(input, Mode::Eval).hidden_btd;
            let head = inspector.trainer.token_head().expect("the run predicts tokens");
            let scored = head.score(&hidden_btd.get(0).narrow(0, 2, 1), &Tensor::from_slice(&[8_i64]), |_| {});
            f64::try_from(scored.nll_n.sum(Kind::Double)).expect("one number")
        };
        let weight = inspector.trainer.parameters().get("encoder.layers.1.feed_forward.norm.bias").expect("it exists");
        let moved = |by: f64| tch::no_grad(|| drop(weight.get(0).g_add_scalar_(by)));
        let step = 1e-2;
        moved(step);
        let above = loss();
        moved(-2.0 * step);
        let slope = (above - loss()) / (2.0 * step);
        assert!((slope - f64::from(one[0])).abs() < 1e-3 * slope.abs().max(0.1), "{slope} {}", one[0]);
        assert!(gradient(&|_| false).is_err_and(|error| error.to_string().contains("no trained weight")));
    }
}
