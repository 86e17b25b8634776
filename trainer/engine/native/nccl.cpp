// All-reduce of tensors on CUDA devices, by NCCL. The safe wrapper is src/device/native/nccl.rs.
//
// The program does not link the CUDA libraries, and is built without CUDA's headers. So NCCL's C interface is looked up
// among the libraries that libtorch_cuda has loaded, and streams and events are those of all libtorch devices.

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>

#include "native.h"

using cloze::guarded;

namespace {

// Numbers and types of NCCL's C interface. They are the same in all releases of NCCL 2 since 2.10.
constexpr int kSuccess = 0;
constexpr int kInProgress = 7;
constexpr int kSum = 0;
constexpr size_t kIdBytes = 128;

struct UniqueId {
  char bytes[kIdBytes];
};

int type_of(at::ScalarType type) {
  switch (type) {
    case at::kLong: return 4;
    case at::kFloat: return 7;
    case at::kDouble: return 8;
    case at::kBFloat16: return 9;
    default: TORCH_CHECK(false, "NCCL: no sum of ", type);
  }
}

template <typename Function>
Function* find(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  TORCH_CHECK(found, "NCCL is not loaded (no ", name, "): libtorch with CUDA loads it");
  return reinterpret_cast<Function*>(found);
}

void check(const char* call, int status) {
  if (status == kSuccess || status == kInProgress) return;
  static const auto text = find<const char*(int)>("ncclGetErrorString");
  TORCH_CHECK(false, "NCCL: ", call, ": ", text(status));
}

// Limit of the wait of an abort for a call that is under way.
constexpr std::chrono::seconds kCallLimit{5};

struct Communicator {
  // Null after the abort, which may happen on another thread.
  std::atomic<void*> handle;
  c10::Device device;
  // NCCL's kernels run next to those of the current stream.
  c10::Stream stream;
  // Held during each call of NCCL, because an abort frees what the call uses.
  std::timed_mutex calls{};
};

struct DeviceWork {
  c10::Event end{c10::DeviceType::CUDA};
  c10::Device device;
};

}  // namespace

extern "C" {

// Makes the id of a communicator, which all ranks need.
int cloze_nccl_id(void* id) {
  return guarded([&] {
    UniqueId made;
    check("ncclGetUniqueId", find<int(UniqueId*)>("ncclGetUniqueId")(&made));
    std::memcpy(id, made.bytes, kIdBytes);
  });
}

// Connects all ranks. Waits for them without a limit.
int cloze_nccl_connect(const void* id, int rank, int size, int index, Communicator** communicator) {
  return guarded([&] {
    const c10::Device device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
    const c10::DeviceGuard guard(device);
    UniqueId given;
    std::memcpy(given.bytes, id, kIdBytes);
    void* handle = nullptr;
    check("ncclCommInitRank", find<int(void**, int, UniqueId, int)>("ncclCommInitRank")(&handle, size, given, rank));
    const auto stream = c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getStreamFromGlobalPool(device, true);
    *communicator = new Communicator{{handle}, device, stream};
  });
}

// Starts to replace the tensor by its sum over all ranks, after all work of the current stream. Does not wait for the
// device.
int cloze_nccl_all_reduce(Communicator* communicator, const at::Tensor* tensor, DeviceWork** work) {
  return guarded([&] {
    TORCH_CHECK(tensor->defined() && tensor->device() == communicator->device && tensor->is_contiguous(),
                "the tensor of a collective is not contiguous on ", communicator->device);
    const c10::DeviceGuard guard(communicator->device);
    const c10::impl::VirtualGuardImpl streams(c10::DeviceType::CUDA);
    c10::Event ready(c10::DeviceType::CUDA);
    ready.record(streams.getStream(communicator->device));
    ready.block(communicator->stream);
    auto* call = find<int(const void*, void*, size_t, int, int, void*, void*)>("ncclAllReduce");
    void* data = tensor->data_ptr();
    {
      const std::lock_guard<std::timed_mutex> lock(communicator->calls);
      void* handle = communicator->handle.load();
      TORCH_CHECK(handle, "NCCL: the communicator was aborted");
      check("ncclAllReduce", call(data, data, static_cast<size_t>(tensor->numel()), type_of(tensor->scalar_type()), kSum,
                                  handle, communicator->stream.native_handle()));
    }
    // The allocator does not reuse the memory before the end.
    streams.recordDataPtrOnStream(tensor->storage().data_ptr(), communicator->stream);
    auto started = std::make_unique<DeviceWork>(DeviceWork{c10::Event(c10::DeviceType::CUDA), communicator->device});
    started->end.record(communicator->stream);
    *work = started.release();
  });
}

// Fails if NCCL has noticed a failure of a rank or of the network. Does not wait for a call that is under way.
int cloze_nccl_check(Communicator* communicator) {
  return guarded([&] {
    const std::unique_lock<std::timed_mutex> lock(communicator->calls, std::try_to_lock);
    if (!lock) return;
    void* handle = communicator->handle.load();
    TORCH_CHECK(handle, "NCCL: the communicator was aborted");
    int status = kSuccess;
    check("ncclCommGetAsyncError", find<int(void*, int*)>("ncclCommGetAsyncError")(handle, &status));
    check("ncclAllReduce", status);
  });
}

// Ends all kernels of the communicator, whatever the other ranks do. Any thread may call it. Waits for the end of a call
// on another thread, but not for one that does not return: that call waits for a kernel, which only the abort ends.
int cloze_nccl_abort(Communicator* communicator) {
  return guarded([&] {
    std::unique_lock<std::timed_mutex> lock(communicator->calls, std::defer_lock);
    (void)lock.try_lock_for(kCallLimit);
    void* handle = communicator->handle.exchange(nullptr);
    if (handle) check("ncclCommAbort", find<int(void*)>("ncclCommAbort")(handle));
  });
}

// Waits for all operations and frees the communicator, unless it was aborted.
void cloze_nccl_free(Communicator* communicator) {
  guarded([&] {
    const c10::DeviceGuard guard(communicator->device);
    void* handle = communicator->handle.exchange(nullptr);
    if (handle) check("ncclCommDestroy", find<int(void*)>("ncclCommDestroy")(handle));
  });
  delete communicator;
}

// Lets later work of the current stream wait for the operation. Does not wait for the device.
int cloze_device_work_order(const DeviceWork* work) {
  return guarded([&] {
    const c10::DeviceGuard guard(work->device);
    work->end.block(c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getStream(work->device));
  });
}

int cloze_device_work_is_done(const DeviceWork* work, int* is_done) {
  return guarded([&] { *is_done = work->end.query(); });
}

void cloze_device_work_free(DeviceWork* work) { delete work; }
}
