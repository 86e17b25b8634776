//! Callbacks of a backward pass: safe wrapper of `native/grad_hooks.cpp`.

use std::ffi::{c_int, c_void};

use tch::Tensor;
use trainer_plan::Error;

use super::{RawTensor, check};

type Call = extern "C" fn(*const c_void);

unsafe extern "C" {
    fn cloze_on_gradient(leaf: RawTensor, call: Call, release: Call, context: *const c_void) -> c_int;
}

/// Function that a backward pass calls, on a thread of libtorch. A panic ends the process: a hook that allocates memory runs in
/// [`without_panic`](crate::device::oom::without_panic).
pub(crate) type GradHook = Box<dyn Fn() + Send + Sync>;

/// Calls `hook` each time that a backward pass has added to the gradient of `leaf`. Replaces an earlier hook of the
/// leaf, which owns it.
pub(crate) fn on_gradient(leaf: &Tensor, hook: GradHook) -> Result<(), Error> {
    // A thin pointer to the two words of the hook.
    let context = Box::into_raw(Box::new(hook)).cast::<c_void>();
    // SAFETY: a borrowed handle; the other side owns the context, and passes it to `release` once.
    check(unsafe { cloze_on_gradient(leaf.as_ptr().cast(), call, release, context) })
}

extern "C" fn call(context: *const c_void) {
    // SAFETY: made by `on_gradient`, and not released yet.
    let hook = unsafe { &*context.cast::<GradHook>() };
    hook();
}

extern "C" fn release(context: *const c_void) {
    // SAFETY: made by `on_gradient`, and released once.
    drop(unsafe { Box::from_raw(context.cast_mut().cast::<GradHook>()) });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tch::{Device, Kind};

    use super::*;

    #[test]
    fn a_hook_is_called_after_each_gradient_and_freed_with_its_leaf() {
        let calls = Arc::new(AtomicUsize::new(0));
        let leaf = Tensor::ones([2], (Kind::Float, Device::Cpu)).set_requires_grad(true);
        let held = Arc::clone(&calls);
        let hook: GradHook = Box::new(move || {
            held.fetch_add(1, Ordering::Relaxed);
        });
        on_gradient(&leaf, hook).expect("a leaf");
        for pass in 1..=2 {
            (&leaf * &leaf + &leaf * 3.0).sum(Kind::Float).backward();
            assert_eq!(calls.load(Ordering::Relaxed), pass, "once for all summands of a pass");
        }
        assert_eq!(Arc::strong_count(&calls), 2);
        drop(leaf);
        assert_eq!(Arc::strong_count(&calls), 1);
    }

    #[test]
    fn only_leaves_have_hooks() {
        let frozen = Tensor::ones([2], (Kind::Float, Device::Cpu));
        let owner = Arc::new(());
        let held = Arc::clone(&owner);
        let hook: GradHook = Box::new(move || drop(Arc::clone(&held)));
        let error = on_gradient(&frozen, hook).expect_err("it has no gradient").to_string();
        assert!(error.contains("requires a gradient"), "{error}");
        assert_eq!(Arc::strong_count(&owner), 1, "released");
    }
}
