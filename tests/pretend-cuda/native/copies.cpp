// Allocation of memory, and copies between host and device.
//
// An asynchronous copy between the device and pinned memory may happen at any time until the host has waited for it.
// An early read must give wrong values, and an early overwrite must be detected. A copy down therefore leaves NaN
// until then. For a copy up, the bytes are then compared with the bytes at its start.

#include <ATen/EmptyTensor.h>
#include <torch/library.h>

#include <cstring>
#include <mutex>
#include <vector>

#include "call.h"
#include "counters.h"
#include "memory.h"

namespace pretend {

namespace {

// Copy that the host has not waited for yet.
struct Flight {
  Moment moment;
  bool up;
  char* host;
  std::vector<char> content;  // up: bytes at the start; down: bytes at the end
  at::Tensor keeps;
};

std::mutex flights_mutex;
std::vector<Flight>& flights() {
  static auto* it = new std::vector<Flight>;
  return *it;
}

const char kOverwritten[] = "the host wrote to pinned memory while a copy from it was under way";

bool is_overwritten(const Flight& flight) {
  return flight.up && std::memcmp(flight.host, flight.content.data(), flight.content.size()) != 0;
}

// Completes the copies that the host has waited for.
void land() {
  std::lock_guard<std::mutex> lock(flights_mutex);
  std::vector<Flight> under_way;
  bool overwritten = false;
  for (Flight& flight : flights()) {
    overwritten = overwritten || is_overwritten(flight);
    if (!is_known(flight.moment)) {
      under_way.push_back(std::move(flight));
    } else if (!flight.up) {
      std::memcpy(flight.host, flight.content.data(), flight.content.size());
    }
  }
  flights() = std::move(under_way);
  TORCH_CHECK(!overwritten, kOverwritten);
}

struct LastLook {
  ~LastLook() {
    for (const Flight& flight : flights())
      if (is_overwritten(flight)) count_defect(kOverwritten);
  }
} last_look;

std::vector<char> bytes_of(const at::Tensor& host, size_t bytes) {
  const auto* begin = static_cast<const char*>(host.const_data_ptr());
  return {begin, begin + bytes};
}

void fly(const at::Tensor& host, bool up) {
  const size_t bytes = at::detail::computeStorageNbytes(host.sizes(), host.strides(), host.element_size());
  Flight flight{launch(), up, static_cast<char*>(host.data_ptr()), bytes_of(host, bytes), host};
  std::lock_guard<std::mutex> lock(flights_mutex);
  // The content before the first copy was complete is also valid for a second copy to the same place.
  for (const Flight& other : flights()) {
    const bool apart = other.host + other.content.size() <= flight.host || flight.host + bytes <= other.host;
    TORCH_CHECK(apart || !is_overwritten(other), kOverwritten);
  }
  if (!up) std::memset(flight.host, 0xff, bytes);
  flights().push_back(std::move(flight));
}

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device> device, std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(!pinned.value_or(false), "Only dense CPU tensors can be pinned");
  c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &device_allocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::CUDA), c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool> pinned) {
  TORCH_CHECK(!pinned.value_or(false), "Only dense CPU tensors can be pinned");
  c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                                           &device_allocator(), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                           c10::dtype_or_default(type));
}

// As in CUDA, an asynchronous copy waits if it ends in pageable host memory.
at::Tensor& copy_(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  if (to.is_same(from) || to.numel() == 0) return to;
  const bool up = from.is_cpu(), down = to.is_cpu(), crosses = up || down;
  const at::Tensor& host = up ? from : to;
  const bool pinned = crosses && host.is_pinned();
  if (crosses) {
    count_copy(std::string(up ? "up " : "down ") + (pinned ? "pinned " : "pageable ") + (non_blocking ? "async" : "blocking"),
               static_cast<size_t>(to.numel()) * (up ? to : from).element_size());
  } else {
    count_kernel("copy_");
  }
  Call call("copy_", {});
  const auto inside = [&](const at::Tensor& tensor, Access access) {
    return tensor.is_cuda() ? call.host(tensor, access, "self") : tensor;
  };
  const at::Tensor target = inside(to, Access::write);
  target.copy_(inside(from, Access::read));
  if (crosses && (!non_blocking || (down && !pinned))) {
    count_wait(up ? "copy up" : "copy down");
    know(current_stream());
  } else if (crosses && pinned) {
    fly(host, up);
  }
  return to;
}

const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef size, std::optional<at::MemoryFormat> format) {
  const auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  auto* impl = self.unsafeGetTensorImpl();
  if (self.sizes() != sizes) impl->set_sizes_contiguous(sizes);
  if (format) impl->empty_tensor_restride(*format);
  const size_t needed = at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.element_size(),
                                                         static_cast<size_t>(self.storage_offset()));
  auto* storage = self.storage().unsafeGetStorageImpl();
  if (needed > storage->nbytes()) {
    auto data = device_allocator().allocate(needed);
    if (storage->nbytes() > 0) device_allocator().copy_data(data.get(), storage->data(), storage->nbytes());
    storage->set_data_ptr_noswap(std::move(data));
    storage->set_nbytes(needed);
  }
  return self;
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  device_allocator().recordStream(self.storage().data_ptr(), stream);
}

struct Registration {
  torch::Library library{torch::Library::IMPL, "aten", std::make_optional(c10::DispatchKey::CUDA), __FILE__, __LINE__};

  Registration() {
    c10::SetAllocator(c10::DeviceType::CUDA, &device_allocator(), 255);
    at::setHostAllocator(c10::DeviceType::CUDA, &pinned_allocator(), 255);
    when_host_learns(&land);
    library.impl("empty.memory_format", &empty);
    library.impl("empty_strided", &empty_strided);
    library.impl("copy_", &copy_);
    library.impl("resize_", &resize_);
    library.impl("record_stream", &record_stream);
  }
};
Registration* const registration = new Registration;

}  // namespace

}  // namespace pretend
