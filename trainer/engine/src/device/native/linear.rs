//! Products with a weight: safe wrapper of `native/linear.cpp`.

use std::ffi::{c_int, c_void};

use tch::{Device, Tensor};
use trainer_plan::Error;

use super::{RawTensor, check};
use crate::device::precision::MASTER;

unsafe extern "C" {
    fn cloze_linear(x: RawTensor, weight: RawTensor, bias: RawTensor, made: *mut *mut c_void) -> c_int;
}

/// Computes `x Wᵀ + b` over the last axis.
///
/// Only for the rows of a batch, whose number is constant: oneDNN caches code for every number of rows, 0.4 to 1 MB
/// each. The number of rows of a head varies with the predicted positions, so heads use libtorch's products.
///
/// # Panics
/// If the shapes do not match.
pub(crate) fn linear(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Tensor {
    if x.device() == Device::Cpu && x.kind() == MASTER {
        on_cpu(x, weight, bias).expect("shapes that match")
    } else {
        x.linear(weight, Some(bias))
    }
}

fn on_cpu(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor, Error> {
    let mut made = std::ptr::null_mut();
    // SAFETY: borrowed handles; shapes, types and device are checked on the other side; on success `made` is a new
    // handle that the returned tensor owns.
    unsafe {
        check(cloze_linear(x.as_ptr().cast(), weight.as_ptr().cast(), bias.as_ptr().cast(), &raw mut made))?;
        Ok(Tensor::from_ptr(made.cast()))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests read values")]
mod tests {
    use super::*;

    /// Values and all gradients equal libtorch's for every memory layout.
    #[test]
    fn a_product_is_that_of_libtorch_with_its_gradients() {
        let wave = |shape: &[i64], step: f64| {
            let count = shape.iter().product::<i64>();
            (Tensor::arange(count, (MASTER, Device::Cpu)) * step).sin().view(shape).set_requires_grad(true)
        };
        let layouts: [fn(&Tensor) -> Tensor; 4] =
            [Tensor::shallow_clone, |x| x.narrow(0, 0, 0), |x| x.narrow(1, 1, 2), |x| x.transpose(0, 1)];
        for layout in layouts {
            let forward_backward = |product: &dyn Fn(&Tensor, &Tensor, &Tensor) -> Tensor| {
                let leaves = [wave(&[6, 4, 33], 1.3), wave(&[17, 33], 0.7), wave(&[17], 2.1)];
                let [x, weight, bias] = &leaves;
                let made = product(&layout(x), weight, bias);
                (&made * &made).sum(MASTER).backward();
                std::iter::once(made.detach()).chain(leaves.iter().map(Tensor::grad)).collect::<Vec<_>>()
            };
            let own = forward_backward(&linear);
            let theirs = forward_backward(&|x, weight, bias| x.linear(weight, Some(bias)));
            for (own, theirs) in own.iter().zip(&theirs) {
                assert_eq!(own.size(), theirs.size());
                assert!(own.allclose(theirs, 1e-5, 1e-4, false), "{own:?} is not {theirs:?}");
            }
        }
    }

    #[test]
    fn mismatched_shapes_are_an_error() {
        let of = |shape: &[i64]| Tensor::zeros(shape, (MASTER, Device::Cpu));
        let error = on_cpu(&of(&[2, 3]), &of(&[5, 4]), &of(&[5])).expect_err("3 are not 4").to_string();
        assert!(error.contains("no product of [2, 3] with a weight of [5, 4]"), "{error}");
    }
}
