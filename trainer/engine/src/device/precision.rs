//! Number types of tensors. Only this file chooses a [`Kind`].
//!
//! Weights, their gradients and the optimizer's state are always float32. With [`Precision::Bf16`] a sublayer computes
//! in bfloat16, from its first product to the dropout after its last, on copies of the weights that are made once per
//! step ([`weight`](crate::model::weight)). Residual sums and norms are float32, as under PyTorch's autocast
//! (Micikevicius et al. 2018, section 3). Embeddings, network outputs for objectives, losses, and gradients that are
//! accumulated over uses and micro-batches are float32 too.
//!
//! With [`Precision::Bf16Hidden`] the hidden states between sublayers are bfloat16 too, and so are the gains and biases of
//! the encoder's norms; norms and softmax accumulate in float32 inside their kernels. This halves the memory traffic between products. Each post-norm layer starts from a
//! norm, so rounding does not accumulate over layers. Objectives that compare hidden states closely are affected by it:
//! a contrast of differences, or one at a low temperature.

use tch::{Kind, Tensor};
pub(crate) use trainer_plan::precision::Precision;

/// Type of weights, sums and losses.
pub(crate) const MASTER: Kind = Kind::Float;
/// Type in which numbers for reports are accumulated.
pub(crate) const WIDE: Kind = Kind::Double;
/// Type of indices into tensors.
pub(crate) const INDEX: Kind = Kind::Int64;
/// Type of masks.
pub(crate) const FLAG: Kind = Kind::Bool;

/// Conversion of tensors to the number types of a [`Precision`].
pub(crate) trait PrecisionCast {
    /// Type of matrix products.
    fn kind(self) -> Kind;

    /// Converts `tensor` for matrix products: the tensor, or a cast copy that propagates gradients.
    fn compute(self, tensor: &Tensor) -> Tensor;

    /// Converts `tensor` for sums, norms and losses: at least float32.
    fn upcast(self, tensor: &Tensor) -> Tensor;

    /// Converts `tensor` to the type of hidden states between sublayers.
    fn hidden(self, tensor: &Tensor) -> Tensor;
}

impl PrecisionCast for Precision {
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

    fn upcast(self, tensor: &Tensor) -> Tensor {
        match self {
            Self::F32 => tensor.shallow_clone(),
            Self::Bf16 | Self::Bf16Hidden => tensor.to_kind(MASTER),
        }
    }

    fn hidden(self, tensor: &Tensor) -> Tensor {
        match self {
            Self::F32 => tensor.shallow_clone(),
            Self::Bf16 => self.upcast(tensor),
            Self::Bf16Hidden => self.compute(tensor),
        }
    }
}
