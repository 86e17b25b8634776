// The device's memory, and the host's that is pinned.
//
// Device memory has two faces. Tensors hold addresses of one at which nothing may be read or written by anybody: who
// takes a device tensor's pointer for the host's is stopped by the machine. Kernels use the other, a fixed distance away.
// Fresh memory holds what a device leaves there: bytes 0xff, NaN in every float type and -1 in every integer.
#pragma once

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "order.h"

namespace pretend {

// As tensors ask for it.
struct Occupancy {
  uint64_t bytes = 0, peak_bytes = 0, pinned_bytes = 0;
};
Occupancy occupancy();
void reset_peak();

// There is no more from now on.
void limit(size_t device_bytes, size_t pinned_bytes);

// Whether an address belongs to the face that tensors hold.
bool is_device(const void* at);

// The address at which kernels find it, or `at` itself.
void* for_kernels(const void* at);

// Notes a use of the block that holds `at`.
void use(const void* at, Moment now, Access access);

c10::DeviceAllocator& device_allocator();

bool is_pinned(const void* at);
at::HostAllocator& pinned_allocator();

}  // namespace pretend
