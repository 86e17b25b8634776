// Products of float32 with a weight on the CPU. The safe wrapper is src/device/native/linear.rs.
//
// libtorch calls MKL, which has no 512-bit kernels for AMD processors, and copies the bias first. libtorch's oneDNN
// takes four fifths to nine tenths of that time for `x Wᵀ + b` and for the gradient by `x`. The gradient by `W`, a
// product of two transposed factors, uses MKL, which is 5 % faster for it.

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>

#include "native.h"

using cloze::guarded;

namespace {

// libtorch's fused linear layer and pointwise operation, used without the pointwise operation.
using Pointwise = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, std::string_view,
                             c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);

// Computes `x Wᵀ + b` of matrices. Uses MKL if this libtorch has no oneDNN.
at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  static const auto found = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
  if (!found || !at::globalContext().userEnabledMkldnn() || !at::globalContext().hasMKLDNN() || x.numel() == 0) {
    return bias ? at::addmm(*bias, x, weight.t()) : x.mm(weight.t());
  }
  return found->typed<Pointwise>().call(x, weight, bias, "none", c10::List<std::optional<at::Scalar>>(), "");
}

struct Linear : torch::autograd::Function<Linear> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) {
    const at::Tensor flat = x.reshape({-1, x.size(-1)});
    context->save_for_backward({flat, weight});
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.back() = weight.size(0);
    return product(flat, weight, bias).view(sizes);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& slopes) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor slope = slopes[0].reshape({-1, weight.size(0)});
    torch::autograd::variable_list back(3);
    if (context->needs_input_grad(0)) {
      std::vector<int64_t> sizes = slopes[0].sizes().vec();
      sizes.back() = weight.size(1);
      back[0] = product(slope, weight.t(), {}).view(sizes);
    }
    if (context->needs_input_grad(1)) back[1] = slope.t().mm(x);
    if (context->needs_input_grad(2)) back[2] = slope.sum(0);
    return back;
  }
};

}  // namespace

extern "C" {

// Computes `x Wᵀ + b` over the last axis of `x`, float32 on the CPU. Gradients are propagated.
int cloze_linear(const at::Tensor* x, const at::Tensor* weight, const at::Tensor* bias, at::Tensor** made) {
  return guarded([&] {
    for (const at::Tensor* it : {x, weight, bias}) {
      TORCH_CHECK(it->device().is_cpu() && it->scalar_type() == at::kFloat, "this product takes only float32 CPU tensors");
    }
    TORCH_CHECK(x->dim() > 0 && weight->dim() == 2 && bias->dim() == 1 && x->size(-1) == weight->size(1) &&
                    bias->size(0) == weight->size(0),
                "no product of ", x->sizes(), " with a weight of ", weight->sizes(), " and a bias of ", bias->sizes());
    *made = new at::Tensor(Linear::apply(*x, *weight, *bias));
  });
}
}
