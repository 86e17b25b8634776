// Asynchronous copies of tensors to host memory. The safe wrapper is src/device/native/copies.rs.
//
// The copies run on a separate stream, after all earlier work of the main stream. Readers wait for them. Before the
// main stream overwrites the copied tensors, it waits for the copies on the device. They take no device memory.

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <vector>

#include "native.h"

using cloze::guarded;

namespace {

struct Copies {
  std::vector<at::Tensor> blocks;  // `block` bytes each, except the last
  size_t block;
  bool pinned;
  c10::Device device;
  c10::Event done{c10::DeviceType::CUDA};
};

// libtorch's allocator of pinned memory rounds each block up to a power of two.
std::vector<at::Tensor> blocks(size_t total, size_t block, bool pinned) {
  std::vector<at::Tensor> made;
  for (size_t at = 0; at < total; at += block) {
    const auto size = static_cast<int64_t>(std::min(block, total - at));
    made.push_back(at::empty({size}, at::TensorOptions(at::kByte).pinned_memory(pinned)));
  }
  return made;
}

// If the host provides no pinned memory, ordinary memory is used, and every copy is synchronous.
void make_blocks(Copies& copies, size_t total) {
  try {
    copies.blocks = blocks(total, copies.block, true);
    copies.pinned = true;
  } catch (const c10::Error&) {
    copies.blocks = blocks(total, copies.block, false);
    copies.pinned = false;
  }
}

// Copies one tensor to its place, which may span several blocks.
void copy(const at::Tensor& tensor, Copies& copies, size_t place) {
  TORCH_CHECK(tensor.is_contiguous() && tensor.device() == copies.device, "a tensor to copy is not contiguous on ",
              copies.device);
  const at::Tensor bytes = tensor.detach().view({-1}).view(at::kByte);
  const auto total = static_cast<size_t>(bytes.numel());
  for (size_t done = 0; done < total;) {
    const size_t at = (place + done) % copies.block, count = std::min(total - done, copies.block - at);
    copies.blocks[(place + done) / copies.block]
        .narrow(0, static_cast<int64_t>(at), static_cast<int64_t>(count))
        .copy_(bytes.narrow(0, static_cast<int64_t>(done), static_cast<int64_t>(count)), copies.pinned);
    done += count;
  }
}

}  // namespace

extern "C" {

// Starts to copy each tensor to its place among `total` bytes. Any later work may change the first `volatile_count`
// tensors, so they are copied before it. The others do not change before `cloze_copies_hold`. The caller owns the
// result.
int cloze_copies_begin(at::Tensor* const* tensors, const size_t* places, size_t count, size_t volatile_count, size_t total,
                       size_t block, int index, void** copies) {
  return guarded([&] {
    c10::NoGradGuard no_grad;
    const c10::Device device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
    const c10::DeviceGuard on(device);
    const c10::impl::VirtualGuardImpl cuda(c10::DeviceType::CUDA);
    const c10::Stream main = cuda.getStream(device), side = cuda.getStreamFromGlobalPool(device, /*isHighPriority=*/false);
    std::unique_ptr<Copies> made(new Copies{{}, block, false, device});
    make_blocks(*made, total);
    for (size_t i = 0; i < volatile_count; ++i) copy(*tensors[i], *made, places[i]);
    c10::Event now(c10::DeviceType::CUDA);
    now.record(main);
    const c10::StreamGuard on_side(side);
    now.block(side);
    for (size_t i = volatile_count; i < count; ++i) {
      copy(*tensors[i], *made, places[i]);
      // If the tensor is freed, the allocator does not reuse its memory before the copy is complete.
      cuda.recordDataPtrOnStream(tensors[i]->storage().data_ptr(), side);
    }
    made->done.record(side);
    *copies = made.release();
  });
}

// Whether the memory is pinned. If it is not, the copies are complete.
int cloze_copies_are_pinned(const void* copies) { return static_cast<const Copies*>(copies)->pinned; }

// Makes the main stream wait for the copies. The host does not wait.
int cloze_copies_hold(const void* copies) {
  return guarded([&] {
    const auto& it = *static_cast<const Copies*>(copies);
    it.done.block(c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getStream(it.device));
  });
}

// Makes the host wait for the copies. Any thread may call it.
int cloze_copies_wait(const void* copies) {
  return guarded([&] { static_cast<const Copies*>(copies)->done.synchronize(); });
}

// First byte of a block. It must not be read before the copies are complete.
const void* cloze_copies_block(const void* copies, size_t number) {
  return static_cast<const Copies*>(copies)->blocks[number].const_data_ptr();
}

// The allocator reuses the memory after the copies are complete.
void cloze_copies_free(void* copies) { delete static_cast<Copies*>(copies); }
}
