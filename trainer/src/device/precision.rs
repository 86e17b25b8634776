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

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

/// The type of weights, sums and losses.
pub(crate) const MASTER: Kind = Kind::Float;
/// The type in which numbers for reports are added up.
pub(crate) const WIDE: Kind = Kind::Double;
/// The type of indices into tensors.
pub(crate) const INDEX: Kind = Kind::Int64;
/// The type of masks.
pub(crate) const FLAG: Kind = Kind::Bool;

/// The type in which matrix products are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// float32.
    #[default]
    F32,
    /// bfloat16 products over float32 weights, between them float32, as under autocast; on CUDA, or with `device = "cpu"` on
    /// processors that have such products.
    Bf16,
    /// The same with hidden states in bfloat16: faster still. Not for contrasts of differences or of low temperature.
    #[serde(rename = "bf16_hidden")]
    Bf16Hidden,
}

impl Precision {
    /// The type of products.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::F32 => MASTER,
            Self::Bf16 | Self::Bf16Hidden => Kind::BFloat16,
        }
    }

    /// Whether this processor has products of bfloat16 (`AVX512_BF16`, AMX, or Arm's). Others would make them of float32.
    pub(crate) fn is_of_this_processor() -> bool {
        #[cfg(target_arch = "x86_64")]
        let has = std::is_x86_feature_detected!("avx512bf16");
        #[cfg(target_arch = "aarch64")]
        let has = std::arch::is_aarch64_feature_detected!("bf16");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let has = false;
        has
    }

    /// As it is written.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Bf16Hidden => "bf16_hidden",
        }
    }

    /// `tensor` as matrix products take it: itself, or a cast copy that passes gradients on.
    pub fn compute(self, tensor: &Tensor) -> Tensor {
        match self {
            Self::F32 => tensor.shallow_clone(),
            Self::Bf16 | Self::Bf16Hidden => tensor.to_kind(self.kind()),
        }
    }

    /// `tensor` as sums, norms and losses take it: at least float32.
    pub fn widen(self, tensor: &Tensor) -> Tensor {
        match self {
            Self::F32 => tensor.shallow_clone(),
            Self::Bf16 | Self::Bf16Hidden => tensor.to_kind(MASTER),
        }
    }

    /// `tensor` as hidden states are between sublayers.
    pub(crate) fn hidden(self, tensor: &Tensor) -> Tensor {
        match self {
            Self::F32 => tensor.shallow_clone(),
            Self::Bf16 => self.widen(tensor),
            Self::Bf16Hidden => self.compute(tensor),
        }
    }

    /// Dense floating-point operations per second of one device of that name, for MFU; `None` where unknown.
    ///
    /// NVIDIA data sheets, dense figures: H100 and H200 SXM 989 TFLOP/s bf16, 495 TF32 and 67 float32, A100 312, 156 and
    /// 19.5.
    #[must_use]
    pub fn peak_flops(self, tf32: bool, device_name: &str) -> Option<f64> {
        let (bf16, rounded, f32) = match device_name {
            name if name.contains("H100") || name.contains("H200") => (989e12, 495e12, 67e12),
            name if name.contains("A100") => (312e12, 156e12, 19.5e12),
            _ => return None,
        };
        Some(match self {
            Self::F32 if tf32 => rounded,
            Self::F32 => f32,
            Self::Bf16 | Self::Bf16Hidden => bf16,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_that_of_the_products_that_are_taken() {
        let peaks = |name| {
            [(Precision::Bf16, false), (Precision::F32, true), (Precision::F32, false)]
                .map(|(p, tf32)| p.peak_flops(tf32, name))
        };
        assert_eq!(peaks("NVIDIA H100 80GB HBM3"), [Some(989e12), Some(495e12), Some(67e12)]);
        assert_eq!(peaks("NVIDIA A100-SXM4-80GB"), [Some(312e12), Some(156e12), Some(19.5e12)]);
        assert_eq!(peaks("another"), [None; 3]);
    }
}
