// Memory statistics and attention kernels of a device. The safe wrapper is src/device/native/facts.rs.
//
// Only interfaces of all libtorch devices are used, because the program does not link the CUDA libraries.

#include <ATen/ATen.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>

#include <string>

#include "native.h"

using cloze::guarded;

namespace {

c10::DeviceAllocator& allocator() { return *c10::getDeviceAllocator(c10::DeviceType::CUDA); }

}  // namespace

extern "C" {

// Peak bytes of tensors, peak bytes that the allocator reserved, both since the last call, and all bytes of the device.
// Does not wait for the device.
int cloze_device_memory(int index, uint64_t* figures) {
  return guarded([&] {
    const auto device = static_cast<c10::DeviceIndex>(index);
    const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const auto stats = allocator().getDeviceStats(device);
    figures[0] = static_cast<uint64_t>(stats.allocated_bytes[all].peak);
    figures[1] = static_cast<uint64_t>(stats.reserved_bytes[all].peak);
    figures[2] = allocator().getMemoryInfo(device).second;
    allocator().resetPeakStats(device);
  });
}

// Peak bytes of tensors since the last call of `cloze_device_memory`. Does not wait for the device or reset the peak.
int cloze_device_peak(int index, uint64_t* bytes) {
  return guarded([&] {
    const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const auto stats = allocator().getDeviceStats(static_cast<c10::DeviceIndex>(index));
    *bytes = static_cast<uint64_t>(stats.allocated_bytes[all].peak);
  });
}

// The allocator's settings as libtorch parsed them, valid until the next call on this thread.
int cloze_allocator_settings(const char** settings) {
  return guarded([&] {
    thread_local std::string it;
    it = c10::CachingAllocator::getAllocatorSettings();
    *settings = it.c_str();
  });
}

// The attention kernel for rows of the given shape, a number of at::SDPBackend. `mask` is 0 for none, 1 for a mask of
// keys, 2 for a learned bias of each pair.
int cloze_attention_kernel(int index, int half, int64_t rows, int64_t width, int64_t heads, int64_t head_width, int mask,
                           double dropout, int64_t* kernel) {
  return guarded([&] {
    const c10::AutoGradMode grad_mode(true);
    const c10::Device device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
    const c10::DeviceGuard on(device);
    const auto floats = at::TensorOptions(device).dtype(half ? at::kBFloat16 : at::kFloat);
    // One row is expanded to all rows, in the encoder's layout.
    const at::Tensor row = at::empty({1, width, 3, heads, head_width}, floats).requires_grad_(true);
    const auto qkv = row.expand({rows, width, 3, heads, head_width}).unbind(2);
    const auto part = [&](size_t which) { return qkv[which].transpose(1, 2); };
    std::optional<at::Tensor> mask_or_bias;
    if (mask == 1) mask_or_bias = at::empty({1, 1, 1, width}, floats.dtype(at::kBool)).expand({rows, 1, 1, width});
    if (mask == 2) mask_or_bias = at::empty({1, heads, width, width}, floats).requires_grad_(true);
    *kernel = at::_fused_sdp_choice(part(0), part(1), part(2), mask_or_bias, dropout, /*is_causal=*/false);
  });
}
}
