// NCCL for devices in host memory. The ranks are threads of one process.
//
// As on a GPU, a call returns before its kernel has ended. The kernel of a rank ends when every rank has called, or when
// the communicator is aborted: then without an error, and with the sum of the parts that have arrived. Who waits for an
// event after the kernel waits for the kernel.
//
// An abort frees the communicator. The process ends if a call uses it afterwards, or is under way.

#include <ATen/ATen.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "memory.h"
#include "order.h"

namespace pretend {

namespace {

constexpr int kSuccess = 0, kInvalidArgument = 4;

// Duration of a call, for tests of races.
std::atomic<uint64_t> call_milliseconds{0};

// Parts of one operation, by rank. Undefined: the rank has not called.
using Round = std::vector<at::Tensor>;

struct World {
  explicit World(size_t size) : size(size) {}
  const size_t size;
  std::mutex mutex;
  std::condition_variable changed;
  size_t connected = 0;
  std::map<uint64_t, std::shared_ptr<Round>> rounds;

  // Returns the operation of a number.
  std::shared_ptr<Round> round(uint64_t number) {
    auto& round = rounds[number];
    if (!round) round = std::make_shared<Round>(size);
    return round;
  }
};

// It stays in memory after the end, so that later uses are noticed.
struct Communicator {
  std::shared_ptr<World> world;
  size_t rank;
  uint64_t operations = 0;
  std::atomic<int> calls{0};
  std::atomic<bool> is_aborted{false}, is_freed{false};
};

[[noreturn]] void misuse(const char* call, const char* what) {
  std::fprintf(stderr, "pretend NCCL: %s %s\n", call, what);
  std::abort();
}

// A call of NCCL, as long as it is under way.
class NcclCall {
 public:
  NcclCall(const char* name, Communicator* communicator) : communicator_(communicator) {
    if (communicator->is_freed) misuse(name, "uses a communicator that is freed");
    ++communicator->calls;
  }
  ~NcclCall() { --communicator_->calls; }
  NcclCall(const NcclCall&) = delete;
  NcclCall& operator=(const NcclCall&) = delete;

 private:
  Communicator* communicator_;
};

// Frees a communicator.
void end(const char* name, Communicator* communicator) {
  if (communicator->is_freed.exchange(true)) misuse(name, "uses a communicator that is freed");
  if (communicator->calls > 0) misuse(name, "frees a communicator that a call uses");
}

std::shared_ptr<World> world_of(const std::string& id, size_t size) {
  static std::mutex mutex;
  static auto* worlds = new std::map<std::string, std::shared_ptr<World>>;
  std::lock_guard<std::mutex> lock(mutex);
  auto& world = (*worlds)[id];
  if (!world) world = std::make_shared<World>(size);
  return world;
}

// Kernel of one rank.
class NcclKernel final : public Work {
 public:
  NcclKernel(Communicator* communicator, std::shared_ptr<Round> round, at::Tensor to)
      : communicator_(communicator), round_(std::move(round)), to_(std::move(to)) {}

  bool is_done() override {
    std::lock_guard<std::mutex> lock(communicator_->world->mutex);
    return has_ended();
  }

  void wait() override {
    std::unique_lock<std::mutex> lock(communicator_->world->mutex);
    communicator_->world->changed.wait(lock, [&] { return has_ended(); });
    if (is_written_) return;
    is_written_ = true;
    at::Tensor sum;
    for (const at::Tensor& part : *round_)
      if (part.defined()) sum = sum.defined() ? sum.add_(part) : part.clone();
    if (to_.numel() > 0) to_.copy_(sum);
  }

 private:
  bool has_ended() const {
    for (const at::Tensor& part : *round_)
      if (!part.defined()) return communicator_->is_aborted;
    return true;
  }

  Communicator* communicator_;
  std::shared_ptr<Round> round_;
  at::Tensor to_;
  bool is_written_ = false;
};

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

// Sets the duration of an all-reduce's call.
void pretend_nccl_call_milliseconds(uint64_t milliseconds) { pretend::call_milliseconds = milliseconds; }

const char* ncclGetErrorString(int) { return "invalid argument"; }

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
  ++world->connected;
  world->changed.notify_all();
  world->changed.wait(lock, [&] { return world->connected == world->size; });
  return pretend::kSuccess;
}

int ncclAllReduce(const void* from, void* to, size_t count, int type, int operation, Communicator* communicator,
                  void* stream) {
  const pretend::NcclCall call("ncclAllReduce", communicator);
  if (operation != 0) return pretend::kInvalidArgument;
  std::this_thread::sleep_for(std::chrono::milliseconds(pretend::call_milliseconds.load()));
  const size_t number = reinterpret_cast<size_t>(stream) - 1;
  const size_t before = pretend::exchange_stream(number);
  const pretend::Moment now = pretend::launch();
  pretend::exchange_stream(before);
  if (count > 0) {
    pretend::use(from, now, pretend::Access::read);
    pretend::use(to, now, pretend::Access::write);
  }
  const auto view = [&](const void* at) {
    if (count == 0) return at::empty({0}, pretend::type_of(type));
    return at::from_blob(pretend::for_kernels(at), {static_cast<int64_t>(count)}, pretend::type_of(type));
  };
  pretend::World& world = *communicator->world;
  std::lock_guard<std::mutex> lock(world.mutex);
  const uint64_t nth = communicator->operations++;
  auto round = world.round(nth);
  (*round)[communicator->rank] = view(from).clone();
  pretend::set_work(number, std::make_shared<pretend::NcclKernel>(communicator, round, view(to)));
  size_t called = 0;
  for (const at::Tensor& part : *round) called += part.defined();
  if (called == world.size) world.rounds.erase(nth);
  world.changed.notify_all();
  return pretend::kSuccess;
}

int ncclCommGetAsyncError(Communicator* communicator, int* status) {
  const pretend::NcclCall call("ncclCommGetAsyncError", communicator);
  *status = pretend::kSuccess;
  return pretend::kSuccess;
}

int ncclCommAbort(Communicator* communicator) {
  pretend::end("ncclCommAbort", communicator);
  std::lock_guard<std::mutex> lock(communicator->world->mutex);
  communicator->is_aborted = true;
  communicator->world->changed.notify_all();
  return pretend::kSuccess;
}

int ncclCommDestroy(Communicator* communicator) {
  pretend::end("ncclCommDestroy", communicator);
  return pretend::kSuccess;
}
}
