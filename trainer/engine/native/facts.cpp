// What a device has, and what libtorch does with it. The safe face is src/device/native/facts.rs.
//
// All of it is asked of what every device of libtorch answers: the program does not link CUDA's libraries.

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

// The most bytes that tensors had at once, and the most that the allocator had taken, since the last call; all bytes of
// the device. Nobody waits for it.
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

// The most bytes that tensors had at once since the last call of the other. Nobody waits for it, and nothing is forgotten.
int cloze_device_peak(int index, uint64_t* bytes) {
  return guarded([&] {
    const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const auto stats = allocator().getDeviceStats(static_cast<c10::DeviceIndex>(index));
    *bytes = static_cast<uint64_t>(stats.allocated_bytes[all].peak);
  });
}

// The allocator's settings as libtorch has read them; valid until this thread asks again.
int cloze_allocator_settings(const char** settings) {
  return guarded([&] {
    thread_local std::string it;
    it = c10::CachingAllocator::getAllocatorSettings();
    *settings = it.c_str();
  });
}

// Which kernel attention would take for rows of that shape: a number of at::SDPBackend. `mask` is 0 for none, 1 for flags
// of keys, 2 for a learnt number of each pair.
int cloze_attention_kernel(int index, int half, int64_t rows, int64_t width, int64_t heads, int64_t head_width, int mask,
                           double dropout, int64_t* kernel) {
  return guarded([&] {
    const c10::AutoGradMode learning(true);
    const c10::Device device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
    const c10::DeviceGuard on(device);
    const auto floats = at::TensorOptions(device).dtype(half ? at::kBFloat16 : at::kFloat);
    // One row stands for all of them, as the encoder lays it out.
    const at::Tensor row = at::empty({1, width, 3, heads, head_width}, floats).requires_grad_(true);
    const auto qkv = row.expand({rows, width, 3, heads, head_width}).unbind(2);
    const auto part = [&](size_t which) { return qkv[which].transpose(1, 2); };
    std::optional<at::Tensor> told;
    if (mask == 1) told = at::empty({1, 1, 1, width}, floats.dtype(at::kBool)).expand({rows, 1, 1, width});
    if (mask == 2) told = at::empty({1, heads, width, width}, floats).requires_grad_(true);
    *kernel = at::_fused_sdp_choice(part(0), part(1), part(2), told, dropout, /*is_causal=*/false);
  });
}
}
