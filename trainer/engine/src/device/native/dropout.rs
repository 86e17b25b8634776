//! Dropout on the CPU: safe wrapper of `native/dropout.cpp`.

use std::ffi::{c_double, c_int};

use tch::{Kind, Tensor};
use trainer_plan::Error;

use super::{RawTensor, check};

unsafe extern "C" {
    fn cloze_dropout(
        x: RawTensor,
        least: c_int,
        factor: c_double,
        kind: c_int,
        made: *mut *mut std::ffi::c_void,
    ) -> c_int;
}

/// Applies dropout to `x` on the CPU and returns a tensor of type `kind`. Gradients are propagated.
///
/// Each number takes one draw, uniform over −2¹⁵ .. 2¹⁵. If the draw is `least` or more, the result is `factor` times
/// the number, otherwise 0.
pub(crate) fn dropout(x: &Tensor, least: i32, factor: f64, kind: Kind) -> Result<Tensor, Error> {
    // Numbers of `c10::ScalarType`.
    let number = match kind {
        Kind::Float => 6,
        Kind::Double => 7,
        Kind::BFloat16 => 15,
        other => return Err(Error::Native(format!("dropout to {other:?} is not supported"))),
    };
    let mut made = std::ptr::null_mut();
    // SAFETY: a borrowed handle; on success `made` is a new one that the returned tensor owns.
    unsafe {
        check(cloze_dropout(x.as_ptr().cast(), least, factor, number, &raw mut made))?;
        Ok(Tensor::from_ptr(made.cast()))
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::device::precision::{INDEX, MASTER};
    use crate::testing;

    const FACTOR: f64 = 1.25;

    /// Type of a quarter of a 64-bit draw.
    const LANE: Kind = Kind::Int16;

    /// Mask as libtorch draws it, four lanes from each 64-bit number.
    fn by_libtorch(count: i64, least: i32) -> Tensor {
        let draws = Tensor::empty([(count + 3) / 4], (INDEX, Device::Cpu)).random_from(i64::MIN, None);
        draws.view_dtype(LANE).narrow(0, 0, count).ge(f64::from(least)).to_kind(MASTER) * FACTOR
    }

    #[test]
    fn draws_are_those_of_libtorchs_generator() {
        let _alone = testing::generator();
        // Counts around 64 bits, the generator's state (1,248 lanes) and a block (16,384 lanes).
        for count in [0, 1, 3, 4, 5, 1247, 1248, 1249, 16_384, 16_385, 40_001] {
            for before in [0, 1, 311, 623] {
                // The draws before and after take one 32-bit word each.
                let run = |kept: &dyn Fn() -> Tensor| {
                    tch::manual_seed(11);
                    let word = |count: i64| Tensor::zeros([count], (INDEX, Device::Cpu)).random_to(1 << 20);
                    drop(word(before));
                    (kept(), word(3))
                };
                let ones = Tensor::ones([count], (MASTER, Device::Cpu));
                let own = run(&|| dropout(&ones, -26_000, FACTOR, MASTER).expect("floats"));
                assert_eq!(own, run(&|| by_libtorch(count, -26_000)), "{count} after {before}");
            }
        }
    }

    #[test]
    fn numbers_and_gradients_are_those_of_a_product_in_any_layout() {
        let _alone = testing::generator();
        let values = || Tensor::arange(6 * 35, (MASTER, Device::Cpu)).sin().view([6, 5, 7]);
        let layouts: [fn(&Tensor) -> Tensor; 4] =
            [Tensor::shallow_clone, |x| x.transpose(0, 2), |x| x.narrow(2, 1, 5), |x| x.slice(1, 0, 5, 2)];
        for layout in layouts {
            let forward_backward = |drop: &dyn Fn(&Tensor) -> Tensor| {
                tch::manual_seed(3);
                let leaf = values().set_requires_grad(true);
                let made = drop(&layout(&leaf));
                (&made * &made).sum(MASTER).backward();
                (made.detach(), leaf.grad())
            };
            let own = forward_backward(&|x| dropout(x, -20_000, FACTOR, MASTER).expect("floats"));
            let product = forward_backward(&|x| {
                x * by_libtorch(i64::try_from(x.numel()).expect("few"), -20_000).view(&*x.size())
            });
            assert_eq!(own, product);
        }
    }

    #[test]
    fn other_types_are_rounded_once() {
        let _alone = testing::generator();
        let wide = Tensor::linspace(-3.0, 3.0, 501, (MASTER, Device::Cpu));
        let drop = |x: &Tensor, kind: Kind| {
            tch::manual_seed(9);
            dropout(x, -20_000, FACTOR, kind).expect("floats")
        };
        let half = wide.to_kind(Kind::BFloat16);
        let exact = drop(&half.to_kind(MASTER), MASTER);
        assert_eq!(drop(&half, MASTER), exact);
        assert_eq!(drop(&half, Kind::BFloat16), exact.to_kind(Kind::BFloat16));
        assert_eq!(drop(&wide, Kind::BFloat16), drop(&wide, MASTER).to_kind(Kind::BFloat16));
        assert_eq!(drop(&half.to_kind(Kind::Double), Kind::Double), exact.to_kind(Kind::Double));
        let leaf = wide.copy().set_requires_grad(true);
        drop(&leaf, Kind::BFloat16).sum(MASTER).backward();
        assert_eq!(leaf.grad(), drop(&wide.ones_like(), MASTER));
        let error = dropout(&wide.to_kind(Kind::Half), 0, FACTOR, MASTER).expect_err("not supported").to_string();
        assert!(error.contains("dropout from Half to Float is not supported"), "{error}");
    }
}
