//! Which number types are used where. The only file that chooses a [`Kind`].
//!
//! Weights, their gradients and the optimizer's state are float32 always. With [`Precision::Bf16`] a sublayer computes in
//! bfloat16, from its first product to the dropout behind its last, on copies of the weights that are made once a step
//! ([`weight`](crate::model::weight)). Residual sums and norms are float32, as under PyTorch's autocast (Micikevicius et
//! al. 2018, section 3), and so are embeddings, what a network gives to objectives, losses, and gradients that add up
//! over uses and micro-batches.
//!
//! With [`Precision::Bf16Hidden`] the hidden states between sublayers are bfloat16 too; norms and softmax add up in
//! float32 inside their kernels. That is half of the traffic between products. Each post-norm layer begins from a norm, so
//! that rounding does not add up over layers, but what compares hidden states closely sees it: a contrast of differences,
//! or at a low temperature.

use tch::{Kind, Tensor};
pub(crate) use trainer_plan::precision::Precision;

/// The type of weights, sums and losses.
pub(crate) const MASTER: Kind = Kind::Float;
/// The type in which numbers for reports are added up.
pub(crate) const WIDE: Kind = Kind::Double;
/// The type of indices into tensors.
pub(crate) const INDEX: Kind = Kind::Int64;
/// The type of masks.
pub(crate) const FLAG: Kind = Kind::Bool;

/// Tensors in the number types that a [`Precision`] chooses.
pub(crate) trait Cast {
    /// The type of products.
    fn kind(self) -> Kind;

    /// `tensor` as matrix products take it: itself, or a cast copy that passes gradients on.
    fn compute(self, tensor: &Tensor) -> Tensor;

    /// `tensor` as sums, norms and losses take it: at least float32.
    fn widen(self, tensor: &Tensor) -> Tensor;

    /// `tensor` as hidden states are between sublayers.
    fn hidden(self, tensor: &Tensor) -> Tensor;
}

impl Cast for Precision {
    fn kind(self) -> Kind {
        match self {
            Self::F32 => MASTER,
            Self::Bf16 | Self::Bf16Hidden => Kind::BFloat16,
        }
    }

    fn compute(self, tensor: &Tensor) -> Tensor {
        match self {
            Self::F32 => tensor.shallow_clone(),
            Self::Bf16 | Self::Bf16Hidden => tensor.to_kind(self.kind()),
        }
    }

    fn widen(self, tensor: &Tensor) -> Tensor {
        match self {
            Self::F32 => tensor.shallow_clone(),
            Self::Bf16 | Self::Bf16Hidden => tensor.to_kind(MASTER),
        }
    }

    fn hidden(self, tensor: &Tensor) -> Tensor {
        match self {
            Self::F32 => tensor.shallow_clone(),
            Self::Bf16 => self.widen(tensor),
            Self::Bf16Hidden => self.compute(tensor),
        }
    }
}
