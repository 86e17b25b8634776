// Callbacks of a backward pass. The safe wrapper is src/device/native/grad_hooks.rs.

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>

#include "native.h"

using cloze::guarded;

namespace {

using Call = void (*)(const void*);

// Owns `context`. Not copyable, so that it is released once.
class GradHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  GradHook(Call call, Call release, const void* context) : call_(call), release_(release), context_(context) {}
  GradHook(const GradHook&) = delete;
  GradHook& operator=(const GradHook&) = delete;
  ~GradHook() override { release_(context_); }

  void operator()(const torch::autograd::Variable&) override { call_(context_); }

 private:
  Call call_, release_;
  const void* context_;
};

}  // namespace

extern "C" {

// Calls `call(context)` each time that a backward pass has added to the gradient of `leaf`, on the thread of the pass. Takes
// ownership of `context`, also if it fails: `release(context)` is called once, when the leaf is freed.
int cloze_on_gradient(const at::Tensor* leaf, Call call, Call release, const void* context) {
  auto hook = std::make_unique<GradHook>(call, release, context);
  return guarded([&] {
    TORCH_CHECK(leaf->is_leaf() && leaf->requires_grad(), "only a leaf that requires a gradient has a hook");
    torch::autograd::impl::set_post_acc_grad_hooks(*leaf, std::move(hook));
  });
}
}
