//! Test of the share of weights that attention drops on a GPU. A kernel that rounds the share would change training
//! silently.

use tch::{Device, Tensor};

use super::native;
use super::precision::{FLAG, INDEX, MASTER, Precision};
use crate::device::precision::PrecisionCast as _;
use crate::testing;

const SHARE: f64 = 0.1;
const ROWS: i64 = 4;
const HEADS: i64 = 2;
/// Width of a head, as in every published model.
const HEAD: i64 = 64;

/// Returns the share of attention weights that are 0 when all keys have equal weight.
///
/// Every weight is then 1/t or 0, and values are unit vectors. The output times t (1 − p) is the number of kept keys
/// among the t/64 keys that share a direction.
fn dropped(device: Device, precision: Precision, tokens: i64, mask: Option<&Tensor>) -> f64 {
    let flat = |tensor: Tensor| precision.compute(&tensor);
    let zeros = flat(Tensor::zeros([ROWS, HEADS, tokens, HEAD], (MASTER, device)));
    let directions_tk = Tensor::eye(HEAD, (MASTER, device)).repeat([tokens / HEAD, 1]);
    let values = flat(directions_tk.expand([ROWS, HEADS, tokens, HEAD], false).contiguous());
    let mixed = Tensor::scaled_dot_product_attention(&zeros, &zeros, &values, mask, SHARE, false, None, false);
    let kept = (precision.upcast(&mixed) * (tokens as f64 * (1.0 - SHARE))).round().sum(MASTER);
    let kept = f64::try_from(kept.to_device(Device::Cpu)).expect("one number");
    1.0 - kept / (ROWS * HEADS * tokens * tokens) as f64
}

#[test]
fn attention_drops_the_share_that_it_is_asked_for() {
    if !pretend_cuda::is_here(module_path!(), "attention_drops_the_share_that_it_is_asked_for") {
        return;
    }
    let _alone = testing::generator();
    native::configure(false, false).expect("switches");
    tch::manual_seed(5);
    let device = Device::Cuda(0);
    for precision in [Precision::F32, Precision::Bf16] {
        for tokens in [128, 512] {
            let real = Tensor::ones([ROWS, 1, 1, tokens], (FLAG, device));
            let bias = precision.compute(&Tensor::zeros([1, HEADS, tokens, tokens], (MASTER, device)));
            for (form, mask) in [("no mask", None), ("a mask", Some(&real)), ("a bias", Some(&bias))] {
                let found = dropped(device, precision, tokens, mask);
                let spread = (SHARE * (1.0 - SHARE) / (ROWS * HEADS * tokens * tokens) as f64).sqrt();
                let what = format!("{precision:?}, {tokens} tokens, {form}");
                // The flash kernels compare eight bits of each draw: they drop 0.102 for a requested 0.1.
                let rounded = if precision == Precision::F32 { 0.0 } else { 1.0 / 256.0 };
                let is_right = (found - SHARE).abs() < rounded + 6.0 * spread;
                assert!(is_right, "{what}: {found:.5} of the weights are 0, not {SHARE}");
            }
        }
        // Dropout between the sublayers.
        let ones = precision.compute(&Tensor::ones([1 << 20], (MASTER, device)));
        let zeros = ones.dropout(SHARE, true).eq(0.0).to_kind(INDEX).sum(MASTER);
        let found = f64::try_from(zeros.to_device(Device::Cpu)).expect("one number") / f64::from(1 << 20);
        assert!((found - SHARE).abs() < 0.002, "{precision:?}: {found:.5} of the numbers are 0, not {SHARE}");
    }
}
