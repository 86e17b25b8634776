//! Number type of matrix products (`train.precision`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number type of matrix products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// float32.
    #[default]
    F32,
    /// bfloat16 products over float32 weights, float32 between the products, as under autocast. Available on CUDA, and
    /// with `device = "cpu"` on processors with bfloat16 products.
    Bf16,
    /// Same as `bf16`, with hidden states in bfloat16: faster. Not suitable for contrastive objectives on differences
    /// or with a low temperature.
    #[serde(rename = "bf16_hidden")]
    Bf16Hidden,
}

impl Precision {
    /// Whether this processor has bfloat16 products (`AVX512_BF16`, AMX, or Arm's). Other processors emulate them in
    /// float32.
    #[must_use]
    pub fn has_native_bf16() -> bool {
        #[cfg(target_arch = "x86_64")]
        let has = std::is_x86_feature_detected!("avx512bf16");
        #[cfg(target_arch = "aarch64")]
        let has = std::arch::is_aarch64_feature_detected!("bf16");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let has = false;
        has
    }

    /// Name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Bf16Hidden => "bf16_hidden",
        }
    }

    /// Bytes of an operand of a matrix product.
    #[must_use]
    pub(crate) fn product_bytes(self) -> f64 {
        match self {
            Self::F32 => 4.0,
            Self::Bf16 | Self::Bf16Hidden => 2.0,
        }
    }

    /// Peak dense floating-point operations per second of one device of that name, for MFU; `None` if unknown.
    ///
    /// Source: NVIDIA data sheets, dense values: H100 and H200 SXM 989 TFLOP/s bf16, 495 TF32 and 67 float32, A100 312,
    /// 156 and 19.5.
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
    fn peak_flops_depend_on_the_number_type() {
        let peaks = |name| {
            [(Precision::Bf16, false), (Precision::F32, true), (Precision::F32, false)]
                .map(|(p, tf32)| p.peak_flops(tf32, name))
        };
        assert_eq!(peaks("NVIDIA H100 80GB HBM3"), [Some(989e12), Some(495e12), Some(67e12)]);
        assert_eq!(peaks("NVIDIA A100-SXM4-80GB"), [Some(312e12), Some(156e12), Some(19.5e12)]);
        assert_eq!(peaks("another"), [None; 3]);
    }
}
