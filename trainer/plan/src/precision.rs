//! `train.precision`: the number type of matrix products.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    #[must_use]
    /// Whether this processor has products of bfloat16 (`AVX512_BF16`, AMX, or Arm's). Others would make them of float32.
    pub fn is_of_this_processor() -> bool {
        #[cfg(target_arch = "x86_64")]
        let has = std::is_x86_feature_detected!("avx512bf16");
        #[cfg(target_arch = "aarch64")]
        let has = std::arch::is_aarch64_feature_detected!("bf16");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let has = false;
        has
    }

    /// Its name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Bf16Hidden => "bf16_hidden",
        }
    }

    /// Bytes of a number that matrix products take.
    #[must_use]
    pub(crate) fn product_bytes(self) -> f64 {
        match self {
            Self::F32 => 4.0,
            Self::Bf16 | Self::Bf16Hidden => 2.0,
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
