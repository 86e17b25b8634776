#include "call.h"

#include <ATen/EmptyTensor.h>

#include "counters.h"
#include "generator.h"
#include "memory.h"

namespace pretend {

namespace {

const c10::DispatchKeySet kCuda(c10::DispatchKey::CUDA), kCpu(c10::DispatchKey::CPU);

at::Tensor over(c10::Storage storage, c10::DispatchKeySet keys, const at::Tensor& like) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, like.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  return tensor;
}

}  // namespace

at::Tensor Call::host(const at::Tensor& tensor, Access access, const std::string& argument) {
  if (!tensor.defined()) return tensor;
  if (!tensor.is_cuda()) {
    check_guest(tensor, argument);
    return tensor;
  }
  check_device(tensor.device(), argument);
  auto* original = tensor.storage().unsafeGetStorageImpl();
  if (tensor.numel() > 0) use(original->data(), now_, access);
  auto& storage = storages_[original];
  if (!storage) {
    c10::DataPtr data(for_kernels(original->data()), c10::Device(c10::kCPU));
    storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), original->nbytes(), std::move(data),
                                                    c10::GetAllocator(c10::kCPU), /*resizable=*/true);
    originals_.emplace(storage.get(), tensor.storage());
  }
  at::Tensor alias = over(storage, kCpu, tensor);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) alias.unsafeGetTensorImpl()->set_wrapped_number(true);
  return alias;
}

c10::IValue Call::host(const c10::IValue& value, Access access, const std::string& argument) {
  if (value.isTensor()) return host(value.toTensor(), access, argument);
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(host(tensor, access, argument));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      list.push_back(tensor ? std::make_optional(host(*tensor, access, argument)) : std::nullopt);
    return list;
  }
  if (value.isDevice() && value.toDevice().is_cuda()) {
    check_device(value.toDevice(), argument);
    return c10::Device(c10::kCPU);
  }
  if (value.isGenerator() && value.toGenerator().device().is_cuda())
    return static_cast<Generator*>(value.toGenerator().unsafeGetGeneratorImpl())->host;
  return value;
}

at::Tensor Call::device(const at::Tensor& made) {
  if (!made.defined() || !made.is_cpu()) return made;
  auto* storage = made.storage().unsafeGetStorageImpl();
  const auto original = originals_.find(storage);
  if (original != originals_.end() && storage->data() == for_kernels(original->second.data()))
    return over(original->second, kCuda, made);
  const bool dense = made.is_non_overlapping_and_dense();
  const at::Tensor copy = dense ? empty_strided(made.sizes(), made.strides(), made.scalar_type())
                                : empty(made.sizes(), made.scalar_type());
  host(copy, Access::write, "result").copy_(made);
  return copy;
}

c10::IValue Call::device(const c10::IValue& made) {
  if (made.isTensor()) return device(made.toTensor());
  if (!made.isTensorList()) return made;
  c10::List<at::Tensor> list;
  for (const at::Tensor& tensor : made.toTensorVector()) list.push_back(device(tensor));
  return list;
}

void Call::settle(const at::Tensor& original, const at::Tensor& alias) {
  if (!original.defined() || !original.is_cuda()) return;
  const bool same = alias.sizes() == original.sizes() && alias.strides() == original.strides() &&
                    alias.storage_offset() == original.storage_offset() &&
                    alias.storage().data() == for_kernels(original.storage().data());
  if (same) return;
  const at::Tensor made = empty_strided(alias.sizes(), alias.strides(), alias.scalar_type());
  host(made, Access::write, "result").copy_(alias);
  auto* impl = original.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(made.storage());
  impl->set_sizes_and_strides(made.sizes(), made.strides(), 0);
}

at::Tensor Call::empty(at::IntArrayRef sizes, at::ScalarType type) {
  c10::OptionalDeviceGuard guard(device_);
  return at::detail::empty_generic(sizes, &device_allocator(), kCuda, type, std::nullopt);
}

at::Tensor Call::empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  c10::OptionalDeviceGuard guard(device_);
  return at::detail::empty_strided_generic(sizes, strides, &device_allocator(), kCuda, type);
}

void Call::check_guest(const at::Tensor& tensor, const std::string& argument) {
  if (tensor.is_cpu() && tensor.dim() == 0 && traits_.mixes) return;
  if (!tensor.is_cpu() || !traits_.indexes || argument != "indices") mixed(tensor.device(), argument);
  count_copy("up pageable blocking", tensor.nbytes());
  count_wait(name_ + " (indices of the CPU)");
}

void Call::check_device(c10::Device device, const std::string& argument) {
  if (!device_) device_ = device.has_index() ? device : c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice();
  if (device.has_index() && device != *device_) mixed(device, argument);
}

void Call::mixed(c10::Device device, const std::string& argument) const {
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ",
              device_.value_or(c10::Device(c10::kCUDA, 0)), " and ", device, "! (when checking argument ", argument,
              " of ", name_, ")");
}

}  // namespace pretend
