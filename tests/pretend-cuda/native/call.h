// Conversion of the tensors of one call to tensors of the CPU's kernels.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <unordered_map>

#include "order.h"

namespace pretend {

// Properties of an operator that its schema does not contain.
struct Traits {
  bool mixes = false;      // accepts zero-dimensional CPU tensors together with device tensors
  bool draws = false;      // random
  bool waits = false;      // its CUDA kernel copies a number to the host
  bool indexes = false;    // uploads CPU indices, and waits for boolean device indices
  bool unordered = false;  // its CUDA kernel refuses floats in deterministic mode
};

class Call {
 public:
  Call(std::string name, Traits traits) : name_(std::move(name)), traits_(traits), now_(launch()) {}

  // Returns a CPU tensor over the same memory.
  at::Tensor host(const at::Tensor& tensor, Access access, const std::string& argument);
  c10::IValue host(const c10::IValue& value, Access access, const std::string& argument);

  // Returns a kernel's result on the device. A result in the memory of an argument stays there.
  at::Tensor device(const at::Tensor& made);
  c10::IValue device(const c10::IValue& made);

  // Updates an output to which the kernel may have given another shape or other memory.
  void settle(const at::Tensor& original, const at::Tensor& alias);

  // Returns uninitialized memory.
  at::Tensor empty(at::IntArrayRef sizes, at::ScalarType type);
  at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type);

 private:
  void check_guest(const at::Tensor& tensor, const std::string& argument);
  void check_device(c10::Device device, const std::string& argument);
  [[noreturn]] void mixed(c10::Device device, const std::string& argument) const;

  std::string name_;
  Traits traits_;
  Moment now_;
  std::optional<c10::Device> device_;
  at::AutoDispatchBelowADInplaceOrView below_;
  std::unordered_map<c10::StorageImpl*, c10::intrusive_ptr<c10::StorageImpl>> storages_;
  std::unordered_map<c10::StorageImpl*, c10::Storage> originals_;
};

}  // namespace pretend
