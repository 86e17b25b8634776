// Attention kernels that only CUDA has, and the choice between them.
//
// Products and softmax are in float32. Results are cast and stored in the layout of CUDA's kernels. The dropout mask
// is a function of the seed that the forward pass returns, so the backward pass drops the same weights.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/SDPBackend.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <limits>

#include "call.h"
#include "counters.h"
#include "generator.h"

namespace pretend {

namespace {

// Parameters of the map from scores to weights.
struct Shape {
  double dropout;
  bool causal;
  double scale;
};

Shape shape(const at::Tensor& q, double dropout, bool causal, std::optional<double> scale) {
  return {dropout, causal, scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(-1))))};
}

struct Weights {
  at::Tensor weights;    // after the softmax
  at::Tensor factors;    // of dropout; undefined without
  at::Tensor logsumexp;  // of the scores

  at::Tensor used() const { return factors.defined() ? weights * factors : weights; }
};

Weights attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& bias, const Shape& shape, int64_t seed) {
  at::Tensor scores = q.matmul(k.transpose(-2, -1)) * shape.scale;
  const double lowest = -std::numeric_limits<double>::infinity();
  if (shape.causal) scores = scores.masked_fill(at::ones({q.size(2), k.size(2)}, at::kBool).triu(1), lowest);
  if (bias.defined()) scores = scores + bias;
  Weights made{scores.softmax(-1), {}, scores.logsumexp(-1)};
  if (shape.dropout > 0.0) {
    const auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
    made.factors = at::empty_like(made.weights).bernoulli_(1.0 - shape.dropout, generator).div_(1.0 - shape.dropout);
  }
  return made;
}

// Memory layout [b, t, h, d].
at::Tensor headed(Call& call, const at::Tensor& like) {
  return call.empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.scalar_type()).transpose(1, 2);
}

struct Forward {
  at::Tensor out, logsumexp, seed;
};

Forward forward(const char* name, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                const Shape& shape) {
  count_kernel(name);
  Call call(name, {});
  const auto in = [&](const at::Tensor& tensor, const char* argument) {
    return call.host(tensor, Access::read, argument).to(at::kFloat);
  };
  const at::Tensor hq = in(q, "query"), hk = in(k, "key"), hv = in(v, "value");
  Forward made{headed(call, q), call.empty({q.size(0), q.size(1), q.size(2)}, at::kFloat), call.empty({2}, at::kLong)};
  auto& generator = static_cast<Generator*>(default_generator().unsafeGetGeneratorImpl())->host;
  const int64_t seed = shape.dropout > 0.0
      ? static_cast<int64_t>(at::check_generator<at::CPUGeneratorImpl>(generator)->random64()) : 0;
  const auto weights = attend(hq, hk, call.host(bias, Access::read, "attn_bias"), shape, seed);
  const auto out = [&](const at::Tensor& tensor) { return call.host(tensor, Access::write, "result"); };
  out(made.out).copy_(weights.used().matmul(hv));
  out(made.logsumexp).copy_(weights.logsumexp);
  out(made.seed).fill_(seed);
  return made;
}

// Gradients of query, key, value and, if requested, of the bias.
std::array<at::Tensor, 4> backward(const char* name, const at::Tensor& slope, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v, const at::Tensor& bias, const at::Tensor& seed, const Shape& shape,
                                   bool of_bias) {
  count_kernel(name);
  Call call(name, {});
  const auto in = [&](const at::Tensor& tensor, const char* argument) {
    return call.host(tensor, Access::read, argument).to(at::kFloat);
  };
  const at::Tensor hq = in(q, "query"), hk = in(k, "key"), hv = in(v, "value"), gradient = in(slope, "grad_out");
  const at::Tensor drawn = call.host(seed, Access::read, "philox_seed");
  const int64_t number = shape.dropout > 0.0 ? *static_cast<const int64_t*>(drawn.const_data_ptr()) : 0;
  const auto weights = attend(hq, hk, call.host(bias, Access::read, "attn_bias"), shape, number);
  at::Tensor of_weights = gradient.matmul(hv.transpose(-2, -1));
  if (weights.factors.defined()) of_weights = of_weights * weights.factors;
  const at::Tensor of_scores = weights.weights * (of_weights - (of_weights * weights.weights).sum(-1, true));
  std::array<at::Tensor, 4> made{headed(call, q), headed(call, k), headed(call, v), {}};
  const auto out = [&](const at::Tensor& tensor) { return call.host(tensor, Access::write, "result"); };
  out(made[0]).copy_(of_scores.matmul(hk) * shape.scale);
  out(made[1]).copy_(of_scores.transpose(-2, -1).matmul(hq) * shape.scale);
  out(made[2]).copy_(weights.used().transpose(-2, -1).matmul(gradient));
  if (of_bias) {
    made[3] = call.empty(bias.sizes(), bias.scalar_type());
    out(made[3]).copy_(of_scores);
  }
  return made;
}

using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Four efficient(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& bias, bool,
               double dropout, bool causal, std::optional<double> scale) {
  TORCH_CHECK(!bias || bias->scalar_type() == q.scalar_type(), "invalid dtype for bias - should match query's dtype");
  const auto made = forward("_scaled_dot_product_efficient_attention", q, k, v, bias.value_or(at::Tensor()),
                            shape(q, dropout, causal, scale));
  return {made.out, made.logsumexp, made.seed.select(0, 0), made.seed.select(0, 1)};
}

Four efficient_backward(const at::Tensor& slope, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const at::Tensor& bias, const at::Tensor&, const at::Tensor&, const at::Tensor& seed,
                        const at::Tensor&, double dropout, std::array<bool, 4> wanted, bool causal,
                        std::optional<double> scale) {
  const auto made = backward("_scaled_dot_product_efficient_attention_backward", slope, q, k, v, bias, seed,
                             shape(q, dropout, causal, scale), bias.defined() && wanted[3]);
  return {made[0], made[1], made[2], made[3]};
}

using Flash = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor,
                         at::Tensor>;

Flash flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double dropout, bool causal, bool,
            std::optional<double> scale) {
  const auto made = forward("_scaled_dot_product_flash_attention", q, k, v, {}, shape(q, dropout, causal, scale));
  const auto unused = at::empty({0}, q.options());
  return {made.out, made.logsumexp, {}, {}, q.size(2), k.size(2), made.seed, unused, unused};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_backward(
    const at::Tensor& slope, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor&,
    const at::Tensor&, const at::Tensor&, const at::Tensor&, c10::SymInt, c10::SymInt, double dropout, bool causal,
    const at::Tensor& seed, const at::Tensor&, std::optional<double> scale) {
  const auto made = backward("_scaled_dot_product_flash_attention_backward", slope, q, k, v, {}, seed,
                             shape(q, dropout, causal, scale), false);
  return {made[0], made[1], made[2]};
}

// Selects in CUDA's order: flash attention for half types without a mask, memory-efficient attention for what it can
// align, otherwise products and a softmax. cuDNN's attention is not simulated.
int64_t choose(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& mask, double,
               bool, std::optional<double>, bool) {
  const bool half = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
  const auto dense = [](const at::Tensor& tensor) { return tensor.dim() == 4 && tensor.stride(-1) == 1; };
  const bool same_type = q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type();
  const bool fits = (half || q.scalar_type() == at::kFloat) && same_type && dense(q) && dense(k) && dense(v) && q.size(2) > 0;
  const auto& context = at::globalContext();
  if (fits && half && !mask && q.size(3) <= 256 && context.userEnabledFlashSDP())
    return static_cast<int64_t>(at::SDPBackend::flash_attention);
  const int64_t grain = half ? 8 : 4;
  const bool aligned = q.size(3) % grain == 0 && v.size(3) % grain == 0 && (!mask || mask->stride(-1) == 1);
  if (fits && aligned && context.userEnabledMemEfficientSDP())
    return static_cast<int64_t>(at::SDPBackend::efficient_attention);
  count_kernel("(attention by products)");
  return static_cast<int64_t>(at::SDPBackend::math);
}

struct Attention {
  torch::Library library{torch::Library::IMPL, "aten", std::make_optional(c10::DispatchKey::CUDA), __FILE__, __LINE__};

  Attention() {
    at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose);
    library.impl("_fused_sdp_choice", &choose);
    library.impl("_scaled_dot_product_efficient_attention", &efficient);
    library.impl("_scaled_dot_product_efficient_attention_backward", &efficient_backward);
    library.impl("_scaled_dot_product_flash_attention", &flash);
    library.impl("_scaled_dot_product_flash_attention_backward", &flash_backward);
  }
};
Attention* const attention = new Attention;

}  // namespace

}  // namespace pretend
