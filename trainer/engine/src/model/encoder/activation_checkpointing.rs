//! Activations rebuilt: a pass that keeps what its layers begin from, and not what they are in between.
//!
//! # What
//! The layers run without a graph. When the loss has said what it wants of the hidden states, each layer is run again, the
//! last first, with a graph this time, which ends with the layer.
//!
//! # Why
//! A layer keeps some 35 bytes for each hidden number, its beginning 2 or 4. A third more operations buy rows.
//!
//! # Definition
//! What is drawn is drawn again from the same state of the generator, so that the second run of a layer has the bits of
//! the first, and so have the gradients.
//!
//! # Reference
//! Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"; `torch.utils.checkpoint`.

use tch::{Tensor, no_grad};
use trainer_plan::Error;

use super::{Bias, Encoded, Encoder, Input};
use crate::device::native::{self, Draws};
use crate::device::precision::Cast as _;
use crate::model::layers::Mode;

/// What a pass keeps for its second run.
#[derive(Debug)]
pub(crate) struct Kept {
    // The embedding block's output with its graph; everybody else reads a leaf over it.
    block_btd: Tensor,
    // The same of what is added to scores.
    bias: Option<(Tensor, Bias)>,
    layers: Vec<Beginning>,
    mode: Mode,
}

/// What a layer begins from.
#[derive(Debug)]
struct Beginning {
    x_btd: Tensor,
    draws: Draws,
}

impl Encoder {
    /// Encodes rows and keeps little: [`finish`](Self::finish) is to follow the backward pass of the loss.
    pub(crate) fn forward_sparing(&self, input: Input<'_>, mode: Mode) -> Result<(Encoded, Kept), Error> {
        let device = input.ids_bt.device();
        let block_btd = self.embed(input, mode);
        let leaf_btd = leaf(&block_btd);
        let bias = self.attention_bias(input, mode);
        let mut x_btd = no_grad(|| self.precision.hidden(&leaf_btd)).detach();
        let mut layers = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            layers.push(Beginning { x_btd: x_btd.shallow_clone(), draws: Draws::now(device)? });
            x_btd = no_grad(|| layer.forward(&x_btd, bias.as_ref(), mode));
        }
        let bias = bias.map(|bias| match bias {
            Bias::Seen(seen) => (seen.shallow_clone(), Bias::Seen(seen)),
            Bias::Added(added) if added.requires_grad() => (added.shallow_clone(), Bias::Added(leaf(&added))),
            Bias::Added(added) => (added.shallow_clone(), Bias::Added(added)),
        });
        let hidden_btd = leaf(&no_grad(|| self.precision.widen(&x_btd)));
        let kept = Kept { block_btd, bias, layers, mode };
        Ok((Encoded { hidden_btd, block_btd: leaf_btd, precision: self.precision }, kept))
    }

    /// Brings what the loss wants of a pass of [`forward_sparing`](Self::forward_sparing) to the weights.
    pub(crate) fn finish(&self, encoded: &Encoded, kept: Kept) -> Result<(), Error> {
        let Kept { block_btd, bias, mut layers, mode } = kept;
        let slope_btd = encoded.hidden_btd.grad();
        if slope_btd.defined() {
            let added = bias.as_ref().map(|(_, bias)| bias);
            let mut slope_btd = self.precision.hidden(&slope_btd);
            for (at, layer) in self.layers.iter().enumerate().rev() {
                let Beginning { x_btd, draws } = layers.pop().expect("one for each layer");
                draws.again()?;
                let first = (at == 0).then(|| self.precision.hidden(&encoded.block_btd));
                let x_btd = first.unwrap_or_else(|| x_btd.set_requires_grad(true));
                native::backward(&layer.forward(&x_btd, added, mode), &slope_btd)?;
                if at > 0 {
                    slope_btd = x_btd.grad();
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
