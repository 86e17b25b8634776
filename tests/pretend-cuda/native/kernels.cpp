// One kernel for every operator that CUDA has one for: the CPU's, over the device's memory.
//
// There is no fallback for the others. What is made of other operators is taken apart as on CUDA, and what only the CPU
// has fails with libtorch's own words.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <set>

#include "call.h"
#include "counters.h"
#include "generator.h"
#include "order.h"

namespace pretend {

namespace {

// From native_functions.yaml, by build.rs.
struct Listed {
  const char* name;
  bool mixes;
};
constexpr Listed kListed[] = {
#include "cuda_operators.inc"
};

// Their CUDA kernels bring a number to the host.
const std::set<std::string> kWaits = {
    "_local_scalar_dense", "nonzero", "nonzero.out", "masked_select", "masked_select.out", "equal", "_unique", "_unique2",
    "unique_dim", "unique_consecutive", "unique_dim_consecutive", "bincount", "repeat_interleave.Tensor", "multinomial", "multinomial.out"};
const std::set<std::string> kIndexes = {"index.Tensor", "index.Tensor_out", "_index_put_impl_", "index_put_"};
// Their CUDA kernels say so themselves where deterministic ones are asked for. (Those of networks like ours; there are more.)
const std::set<std::string> kUnordered = {"put_", "median.dim_values", "histc", "histc.out", "cumsum", "cumsum.out",
                                          "cumsum_", "nll_loss2d_forward", "nll_loss2d_backward",
                                          "scatter_reduce.two_out", "scatter_reduce_.two", "grid_sampler_2d_backward"};

// Written by hand in copies.cpp and attention.cpp.
const std::set<std::string> kByHand = {
    "empty.memory_format", "empty_strided", "copy_", "resize_", "record_stream", "_fused_sdp_choice",
    "_scaled_dot_product_efficient_attention", "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_backward"};

struct Operator {
  std::string name;
  Traits traits;
};
std::unordered_map<const c10::FunctionSchema*, Operator>& operators() {
  static auto* it = new std::unordered_map<const c10::FunctionSchema*, Operator>;
  return *it;
}

bool has_flags(const c10::IValue& indices) {
  for (const std::optional<at::Tensor>& index : indices.toOptionalTensorVector())
    if (index && index->defined() && (index->scalar_type() == at::kBool || index->scalar_type() == at::kByte)) return true;
  return false;
}

bool is_written(const c10::Argument& argument) { return argument.alias_info() && argument.alias_info()->isWrite(); }

// Whether the host looks at what the device has done.
bool looks(const Traits& traits, const c10::FunctionSchema& schema, const std::vector<c10::IValue>& given) {
  bool found = traits.waits;
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string& name = schema.arguments()[i].name();
    if (traits.indexes && name == "indices" && has_flags(given[i])) found = true;
    // Where `repeat_interleave` is told the length it need not look.
    if (name == "output_size" && !given[i].isNone()) found = false;
  }
  return found;
}

// The argument that a result is, where it is one that was written to.
const c10::IValue* same_as(const c10::Argument& result, const c10::FunctionSchema& schema,
                           const std::vector<c10::IValue>& given) {
  if (!is_written(result)) return nullptr;
  for (size_t i = 0; i < given.size(); ++i) {
    const auto& argument = schema.arguments()[i];
    if (is_written(argument) && argument.alias_info()->beforeSets() == result.alias_info()->beforeSets()) return &given[i];
  }
  return nullptr;
}

void settle(Call& call, const c10::IValue& given, const c10::IValue& alias) {
  if (given.isTensor()) return call.settle(given.toTensor(), alias.toTensor());
  if (!given.isTensorList()) return;
  const auto originals = given.toTensorVector(), aliases = alias.toTensorVector();
  for (size_t i = 0; i < originals.size(); ++i) call.settle(originals[i], aliases[i]);
}

void compute(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const Operator& known = operators().at(&schema);
  const size_t count = schema.arguments().size(), begin = stack->size() - count;
  const std::vector<c10::IValue> given(stack->begin() + static_cast<long>(begin), stack->end());
  count_kernel(known.name);
  // Sums of whole numbers are the same in any order.
  if (known.traits.unordered && given[0].isTensor() && given[0].toTensor().is_floating_point())
    at::globalContext().alertNotDeterministic(known.name);
  const bool waits = looks(known.traits, schema, given);
  Call call(known.name, known.traits);
  std::vector<c10::IValue> hosts;
  for (size_t i = 0; i < count; ++i) {
    const auto& argument = schema.arguments()[i];
    hosts.push_back(call.host(given[i], is_written(argument) ? Access::write : Access::read, argument.name()));
    (*stack)[begin + i] = hosts.back();
  }
  {
    Draws draws(known.traits.draws);
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  if (waits) {
    count_wait(known.name);
    know(current_stream());
  }
  for (size_t i = 0; i < count; ++i)
    if (is_written(schema.arguments()[i])) settle(call, given[i], hosts[i]);
  const size_t returns = schema.returns().size(), first = stack->size() - returns;
  for (size_t i = 0; i < returns; ++i) {
    auto& value = (*stack)[first + i];
    const c10::IValue* argument = same_as(schema.returns()[i], schema, given);
    value = argument ? *argument : call.device(value);
  }
}

// The CPU's code for views makes device tensors of device tensors.
void rearrange(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

bool rearranges(const std::string& name, const c10::FunctionSchema& schema) {
  const auto& returns = schema.returns();
  return name.rfind("set_", 0) == 0 || (returns.size() == 1 && returns[0].alias_info() && !returns[0].alias_info()->isWrite());
}

struct Kernels {
  torch::Library library{torch::Library::IMPL, "aten", std::make_optional(c10::DispatchKey::CUDA), __FILE__, __LINE__};

  Kernels() {
    for (const Listed& listed : kListed)
      if (!kByHand.count(listed.name)) add(listed);
  }

  void add(const Listed& listed) {
    const std::string name = listed.name;
    const auto dot = name.find('.');
    const c10::OperatorName full("aten::" + name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1));
    const auto op = c10::Dispatcher::singleton().findOp(full);
    if (!op || !op->hasSchema() || !op->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) return;
    Traits traits;
    traits.mixes = listed.mixes;
    traits.waits = kWaits.count(name) != 0;
    traits.indexes = kIndexes.count(name) != 0;
    traits.unordered = kUnordered.count(name) != 0;
    traits.draws = op->hasTag(at::Tag::nondeterministic_seeded);
    operators()[&op->schema()] = {name, traits};
    library.impl(listed.name, rearranges(name, op->schema()) ? torch::CppFunction::makeFromBoxedFunction<&rearrange>()
                                                             : torch::CppFunction::makeFromBoxedFunction<&compute>());
  }
};
Kernels* const kernels = new Kernels;

}  // namespace

}  // namespace pretend
