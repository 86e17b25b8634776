// Device memory, and pinned host memory.
//
// Device memory is mapped at two addresses. Tensors hold addresses of the first mapping, which is protected: host
// code that uses a device pointer causes a fault. Kernels use the second mapping at a fixed distance. Fresh memory
// contains the bytes 0xff, which is NaN in every float type and -1 in every integer type.
#pragma once

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "order.h"

namespace pretend {

// Requested sizes of live tensors.
struct Occupancy {
  uint64_t bytes = 0, peak_bytes = 0, pinned_bytes = 0;
};
Occupancy occupancy();
void reset_peak();

// Sets the memory sizes.
void limit(size_t device_bytes, size_t pinned_bytes);

// Returns whether an address is in the protected mapping.
bool is_device(const void* at);

// Returns the address for kernels, or `at` itself.
void* for_kernels(const void* at);

// Records a use of the block that contains `at`.
void use(const void* at, Moment now, Access access);

c10::DeviceAllocator& device_allocator();

bool is_pinned(const void* at);
at::HostAllocator& pinned_allocator();

}  // namespace pretend
