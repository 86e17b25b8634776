// Store and process group of libtorch's c10d. The safe wrapper is src/device/native/c10d.rs.
//
// An operation is started without waiting. `cloze_work_wait` waits for it a limited time, so that a caller can notice
// meanwhile that another rank has failed.

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "native.h"

using cloze::guarded;

namespace {

using Milliseconds = std::chrono::milliseconds;

struct Store {
  c10::intrusive_ptr<c10d::TCPStore> server_or_client;
  c10::intrusive_ptr<c10d::Store> keys;
};

struct Group {
  c10::intrusive_ptr<c10d::Backend> backend;
  Milliseconds operation_timeout;
};

// Wakes the waiter of an operation. The operation's callback shares it, so it can outlive the waiter.
struct Completion {
  std::mutex mutex;
  std::condition_variable is_done;
  bool done = false;
};

struct Work {
  c10::intrusive_ptr<c10d::Work> work;
  std::shared_ptr<Completion> completion = std::make_shared<Completion>();
};

std::vector<uint8_t> bytes_of(const void* bytes, size_t count) {
  const auto* from = static_cast<const uint8_t*>(bytes);
  return count == 0 ? std::vector<uint8_t>() : std::vector<uint8_t>(from, from + count);
}

// Keeps the bytes for this thread until its next call that returns bytes.
void give(std::vector<uint8_t> value, const void** bytes, size_t* count) {
  thread_local std::vector<uint8_t> it;
  it = std::move(value);
  *bytes = it.data();
  *count = it.size();
}

Work* track(c10::intrusive_ptr<c10d::Work> work) {
  auto tracked = std::make_unique<Work>();
  tracked->work = std::move(work);
  auto completion = tracked->completion;
  tracked->work->getFuture()->addCallback([completion](c10::ivalue::Future&) {
    const std::lock_guard<std::mutex> lock(completion->mutex);
    completion->done = true;
    completion->is_done.notify_all();
  });
  return tracked.release();
}

void check_flat(const char* what, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.defined() && tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous(),
              what, " of a collective is not a contiguous tensor in host memory");
}

}  // namespace

extern "C" {

// Connects to the store, and serves it first if `serves` is set. Port 0 lets the system choose.
int cloze_store_open(const char* host, uint16_t port, int serves, const char* prefix, int64_t timeout_ms,
                     Store** store) {
  return guarded([&] {
    c10d::TCPStoreOptions options;
    options.port = port;
    options.isServer = serves != 0;
    options.waitWorkers = false;
    options.timeout = Milliseconds(timeout_ms);
    auto made = std::make_unique<Store>();
    made->server_or_client = c10::make_intrusive<c10d::TCPStore>(host, options);
    made->keys = c10::make_intrusive<c10d::PrefixStore>(prefix, made->server_or_client);
    *store = made.release();
  });
}

uint16_t cloze_store_port(const Store* store) { return store->server_or_client->getPort(); }

int cloze_store_set(Store* store, const char* key, const void* bytes, size_t count) {
  return guarded([&] { store->keys->set(key, bytes_of(bytes, count)); });
}

// Sets the value of a key that has none. Returns the value that the key has then, valid until this thread's next call.
int cloze_store_set_first(Store* store, const char* key, const void* bytes, size_t count, const void** value,
                          size_t* value_count) {
  return guarded([&] { give(store->keys->compareSet(key, {}, bytes_of(bytes, count)), value, value_count); });
}

// The value of a key that has one, valid until this thread's next call.
int cloze_store_get(Store* store, const char* key, const void** value, size_t* value_count) {
  return guarded([&] { give(store->keys->get(key), value, value_count); });
}

int cloze_store_has(Store* store, const char* key, int* has) {
  return guarded([&] { *has = store->keys->check({key}); });
}

int cloze_store_add(Store* store, const char* key, int64_t amount, int64_t* sum) {
  return guarded([&] { *sum = store->keys->add(key, amount); });
}

void cloze_store_free(Store* store) { delete store; }

// Connects the processes that share `prefix` in the store by Gloo. `address` is an address of this host. If it is null,
// c10d chooses: the interface that GLOO_SOCKET_IFNAME names, or the address of the host's name.
int cloze_gloo_connect(const Store* store, const char* prefix, const char* address, int rank, int size,
                       int64_t timeout_ms, int64_t operation_timeout_ms, Group** group) {
  return guarded([&] {
    auto options = address ? c10d::ProcessGroupGloo::Options::create(Milliseconds(timeout_ms))
                           : c10d::ProcessGroupGloo::Options::create_default(Milliseconds(timeout_ms));
    if (address) options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
    auto made = std::make_unique<Group>();
    made->operation_timeout = Milliseconds(operation_timeout_ms);
    const auto keys = c10::make_intrusive<c10d::PrefixStore>(prefix, store->keys);
    made->backend = c10::make_intrusive<c10d::ProcessGroupGloo>(keys, rank, size, options);
    *group = made.release();
  });
}

// Starts to replace the tensor by its sum over all ranks.
int cloze_group_all_reduce(const Group* group, const at::Tensor* tensor, Work** work) {
  return guarded([&] {
    check_flat("the tensor", *tensor);
    std::vector<at::Tensor> tensors{*tensor};
    c10d::AllreduceOptions options;
    options.timeout = group->operation_timeout;
    *work = track(group->backend->allreduce(tensors, options));
  });
}

// Starts to collect the inputs of all ranks, which have one size, in the output in the order of the ranks.
int cloze_group_all_gather(const Group* group, const at::Tensor* output, const at::Tensor* input, Work** work) {
  return guarded([&] {
    check_flat("the output", *output);
    check_flat("the input", *input);
    at::Tensor to = *output;
    at::Tensor from = *input;
    c10d::AllgatherOptions options;
    options.timeout = group->operation_timeout;
    *work = track(group->backend->_allgather_base(to, from, options));
  });
}

// Starts to replace the tensor by that of rank 0.
int cloze_group_broadcast(const Group* group, const at::Tensor* tensor, Work** work) {
  return guarded([&] {
    check_flat("the tensor", *tensor);
    std::vector<at::Tensor> tensors{*tensor};
    c10d::BroadcastOptions options;
    options.timeout = group->operation_timeout;
    *work = track(group->backend->broadcast(tensors, options));
  });
}

void cloze_group_free(Group* group) { delete group; }

// Waits for an operation, at most the given time, and fails if the operation has failed.
int cloze_work_wait(Work* work, int64_t timeout_ms, int* is_done) {
  return guarded([&] {
    {
      std::unique_lock<std::mutex> lock(work->completion->mutex);
      auto& completion = *work->completion;
      *is_done = completion.is_done.wait_for(lock, Milliseconds(timeout_ms), [&] { return completion.done; });
    }
    if (*is_done) work->work->wait();
  });
}

void cloze_work_free(Work* work) { delete work; }
}
