//! Activation checkpointing: a pass keeps the inputs of its layers and recomputes everything else.
//!
//! # What
//! The layers run without a graph. After the backward pass of the loss has reached the hidden states, each layer runs
//! again with a graph, last layer first. That graph covers one layer only.
//!
//! # Why
//! A layer keeps about 35 bytes for each hidden value, its input only 2 or 4. One third more operations allow larger
//! micro-batches.
//!
//! # Definition
//! The second run of a layer restores the generator state of the first run. So its random draws, its outputs and the
//! gradients are equal bit for bit.
//!
//! # Reference
//! Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"; `torch.utils.checkpoint`.

use tch::{Tensor, no_grad};
use trainer_plan::Error;

use super::{Bias, Encoded, Encoder, Input};
use crate::device::native::{self, Draws};
use crate::device::precision::PrecisionCast as _;
use crate::model::layers::Mode;

/// Data that a pass keeps for its second run.
#[derive(Debug)]
pub(crate) struct CheckpointedLayers {
    // Output of the embedding block with its graph. All other readers use a leaf over the same memory.
    block_btd: Tensor,
    // Attention bias with its graph, and the leaf over it.
    bias: Option<(Tensor, Bias)>,
    // Of the layers after the frozen ones.
    layers: Vec<LayerInput>,
    mode: Mode,
}

/// Input of a layer, and the generator state before it.
#[derive(Debug)]
struct LayerInput {
    x_btd: Tensor,
    draws: Draws,
}

impl Encoder {
    /// Encodes rows as [`forward_to`](Self::forward_to) and keeps only the layer inputs. [`finish`](Self::finish) must
    /// follow the backward pass of the loss.
    pub(crate) fn forward_checkpointed(
        &self,
        layers: Option<u32>,
        input: Input<'_>,
        mode: Mode,
    ) -> Result<(Encoded, CheckpointedLayers), Error> {
        let device = input.ids_bt.device();
        let block_btd = self.embed(input, mode);
        let leaf_btd = leaf(&block_btd);
        let bias = self.attention_bias(input, mode);
        let mut x_btd = no_grad(|| self.precision.hidden(&leaf_btd)).detach();
        let run = self.first(layers);
        let mut layers = Vec::with_capacity(run.len());
        for (at, layer) in run.iter().enumerate() {
            if at >= self.frozen_layers {
                layers.push(LayerInput { x_btd: x_btd.shallow_clone(), draws: Draws::now(device)? });
            }
            x_btd = no_grad(|| layer.forward(&x_btd, bias.as_ref(), mode));
        }
        let bias = bias.map(|bias| match bias {
            Bias::Seen(seen) => (seen.shallow_clone(), Bias::Seen(seen)),
            Bias::Added(added) if added.requires_grad() => (added.shallow_clone(), Bias::Added(leaf(&added))),
            Bias::Added(added) => (added.shallow_clone(), Bias::Added(added)),
        });
        let hidden_btd = leaf(&no_grad(|| self.precision.upcast(&x_btd)));
        let kept = CheckpointedLayers { block_btd, bias, layers, mode };
        Ok((Encoded { hidden_btd, block_btd: leaf_btd, layers: Vec::new(), precision: self.precision }, kept))
    }

    /// Adds the gradients of a pass of [`forward_checkpointed`](Self::forward_checkpointed) to the weights.
    pub(crate) fn finish(&self, encoded: &Encoded, kept: CheckpointedLayers) -> Result<(), Error> {
        let CheckpointedLayers { block_btd, bias, mut layers, mode } = kept;
        let grad_btd = encoded.hidden_btd.grad();
        if grad_btd.defined() {
            let added = bias.as_ref().map(|(_, bias)| bias);
            let mut grad_btd = self.precision.hidden(&grad_btd);
            if layers.is_empty() {
                // The hidden states are those of the embedding block.
                native::backward(&self.precision.hidden(&encoded.block_btd.alias()), &grad_btd)?;
            }
            for (at, layer) in self.layers.iter().enumerate().skip(self.frozen_layers).take(layers.len()).rev() {
                let LayerInput { x_btd, draws } = layers.pop().expect("one for each layer");
                draws.restore()?;
                // The input of the first trained layer needs no gradient if the embeddings are frozen too.
                let x_btd = match at {
                    0 => self.precision.hidden(&encoded.block_btd),
                    _ if at == self.frozen_layers => x_btd,
                    _ => x_btd.set_requires_grad(true),
                };
                native::backward(&layer.forward(&x_btd, added, mode), &grad_btd)?;
                if at > self.frozen_layers {
                    grad_btd = x_btd.grad();
                }
            }
        }
        for (made, leaf) in bias
            .iter()
            .filter_map(|(made, bias)| match bias {
                Bias::Added(leaf) => Some((made, leaf)),
                Bias::Seen(_) => None,
            })
            .chain([(&block_btd, &encoded.block_btd)])
        {
            if made.requires_grad() && leaf.grad().defined() {
                native::backward(made, &leaf.grad())?;
            }
        }
        Ok(())
    }
}

fn leaf(tensor: &Tensor) -> Tensor {
    tensor.detach().set_requires_grad(true)
}
