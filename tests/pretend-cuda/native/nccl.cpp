// NCCL for devices in host memory. The ranks are threads of one process.
//
// An operation of a stream runs in the call of the last rank. The other ranks wait in their calls, as for the first
// operation of NCCL, and return with an error after an abort.

#include <ATen/ATen.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "memory.h"
#include "order.h"

namespace pretend {

namespace {

constexpr int kSuccess = 0, kInternalError = 3, kInvalidArgument = 4;

struct World {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<at::Tensor> parts;
  at::Tensor sum;
  size_t present = 0;
  uint64_t round = 0;
  bool is_aborted = false;
};

struct Communicator {
  std::shared_ptr<World> world;
  size_t rank;
};

std::shared_ptr<World> world_of(const std::string& id, size_t size) {
  static std::mutex mutex;
  static auto* worlds = new std::map<std::string, std::shared_ptr<World>>;
  std::lock_guard<std::mutex> lock(mutex);
  auto& world = (*worlds)[id];
  if (!world) {
    world = std::make_shared<World>();
    world->parts.resize(size);
  }
  return world;
}

// Waits until every rank has called, and runs `last` in the call of the last one. Returns false after an abort by any
// rank.
template <typename Last>
bool meet(World& world, std::unique_lock<std::mutex>& lock, Last last) {
  const uint64_t round = world.round;
  if (world.is_aborted) return false;
  if (++world.present == world.parts.size()) {
    last();
    world.present = 0;
    ++world.round;
    world.changed.notify_all();
  }
  world.changed.wait(lock, [&] { return world.round != round || world.is_aborted; });
  return world.round != round;
}

at::ScalarType type_of(int type) {
  const std::map<int, at::ScalarType> types{{4, at::kLong}, {7, at::kFloat}, {8, at::kDouble}, {9, at::kBFloat16}};
  return types.at(type);
}

}  // namespace

// The number of a stream plus 1, so that it is not null.
void* native_handle(size_t stream) { return reinterpret_cast<void*>(stream + 1); }

}  // namespace pretend

using pretend::Communicator;

extern "C" {

struct ncclUniqueId {
  char internal[128];
};

const char* ncclGetErrorString(int status) {
  return status == pretend::kInternalError ? "internal error" : "invalid argument";
}

int ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<uint64_t> made{0};
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "%llu", static_cast<unsigned long long>(made++));
  return pretend::kSuccess;
}

int ncclCommInitRank(Communicator** communicator, int size, ncclUniqueId id, int rank) {
  auto world = pretend::world_of(std::string(id.internal, sizeof id.internal), static_cast<size_t>(size));
  *communicator = new Communicator{world, static_cast<size_t>(rank)};
  std::unique_lock<std::mutex> lock(world->mutex);
  return pretend::meet(*world, lock, [] {}) ? pretend::kSuccess : pretend::kInternalError;
}

int ncclAllReduce(const void* from, void* to, size_t count, int type, int operation, Communicator* communicator,
                  void* stream) {
  if (operation != 0) return pretend::kInvalidArgument;
  const size_t before = pretend::exchange_stream(reinterpret_cast<size_t>(stream) - 1);
  const pretend::Moment now = pretend::launch();
  pretend::exchange_stream(before);
  if (count > 0) {
    pretend::use(from, now, pretend::Access::read);
    pretend::use(to, now, pretend::Access::write);
  }
  const auto view = [&](const void* at) {
    return at::from_blob(pretend::for_kernels(at), {static_cast<int64_t>(count)}, pretend::type_of(type));
  };
  pretend::World& world = *communicator->world;
  std::unique_lock<std::mutex> lock(world.mutex);
  world.parts[communicator->rank] = count > 0 ? view(from).clone() : at::empty({0}, pretend::type_of(type));
  const bool is_complete = pretend::meet(world, lock, [&] {
    world.sum = world.parts[0].clone();
    for (size_t rank = 1; rank < world.parts.size(); ++rank) world.sum.add_(world.parts[rank]);
  });
  if (!is_complete) return pretend::kInternalError;
  if (count > 0) view(to).copy_(world.sum);
  return pretend::kSuccess;
}

int ncclCommGetAsyncError(Communicator*, int* status) {
  *status = pretend::kSuccess;
  return pretend::kSuccess;
}

// The other threads may still use it.
int ncclCommAbort(Communicator* communicator) {
  std::lock_guard<std::mutex> lock(communicator->world->mutex);
  communicator->world->is_aborted = true;
  communicator->world->changed.notify_all();
  return pretend::kSuccess;
}

int ncclCommDestroy(Communicator* communicator) {
  delete communicator;
  return pretend::kSuccess;
}
}
