// The tensors of one call, as the CPU's kernels take them.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <unordered_map>

#include "order.h"

namespace pretend {

// What is known of an operator beside its schema.
struct Traits {
  bool mixes = false;      // takes numbers of the CPU, tensors without axes, beside the device's
  bool draws = false;      // random
  bool waits = false;      // its CUDA kernel brings a number to the host
  bool indexes = false;    // uploads indices that it is given on the CPU, and looks where those on the device are flags
  bool unordered = false;  // its CUDA kernel refuses floats where deterministic ones are asked for
};

class Call {
 public:
  Call(std::string name, Traits traits) : name_(std::move(name)), traits_(traits), now_(launch()) {}

  // A CPU tensor over the same memory.
  at::Tensor host(const at::Tensor& tensor, Access access, const std::string& argument);
  c10::IValue host(const c10::IValue& value, Access access, const std::string& argument);

  // What a kernel has made, on the device. What lies in memory of one of the arguments stays there.
  at::Tensor device(const at::Tensor& made);
  c10::IValue device(const c10::IValue& made);

  // An output that the kernel may have given another shape or other memory.
  void settle(const at::Tensor& original, const at::Tensor& alias);

  // Fresh memory.
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
