#include "memory.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "counters.h"

namespace pretend {

namespace {

// Size of the address range; pages are allocated on first use.
constexpr size_t kReserved = size_t{64} << 30;
// Allocation granularity of CUDA's allocator.
constexpr size_t kGrain = 512;

std::string mebibytes(size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

class Arena {
 public:
  static Arena& get() {
    static auto* it = new Arena;
    return *it;
  }

  void* allocate(size_t asked);
  void free(void* start);

  bool holds(const void* at) const { return at >= face_ && at < face_ + kReserved; }
  void* for_kernels(const void* at) const {
    auto* address = static_cast<char*>(const_cast<void*>(at));
    return holds(at) ? inside_ + (address - face_) : address;
  }
  void use(const void* at, Moment now, Access access) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (Block* block = find(at)) pretend::use(block->uses, now, access);
  }
  void record(const void* at, size_t stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (Block* block = find(at)) block->uses.recorded[stream] = 1;
  }
  c10::CachingDeviceAllocator::DeviceStats stats() {
    std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
  }
  // The device is as large as the address range unless a limit is set.
  size_t total() {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::min(limit_, kReserved);
  }
  void limit(size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    limit_ = bytes;
  }
  // Statistics for tests, which a reset of the allocator's statistics does not change.
  c10::CachingAllocator::Stat counted() {
    std::lock_guard<std::mutex> lock(mutex_);
    return counted_;
  }
  void reset_counted_peak() {
    std::lock_guard<std::mutex> lock(mutex_);
    counted_.reset_peak();
  }
  void reset_peak() {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto* stat : {&stats_.allocated_bytes, &stats_.active_bytes, &stats_.reserved_bytes, &stats_.requested_bytes})
      (*stat)[0].reset_peak();
  }

 private:
  struct Block {
    size_t bytes, asked;
    Uses uses;
  };

  Arena() {
    const auto map = [](int access) {
      void* at = mmap(nullptr, kReserved, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (at == MAP_FAILED) std::perror("pretend cuda: no addresses for a device"), std::abort();
      return static_cast<char*>(at);
    };
    face_ = map(PROT_NONE);
    inside_ = map(PROT_READ | PROT_WRITE);
    give_back(face_, kReserved);
    if (const char* limit = std::getenv("PRETEND_CUDA_BYTES")) limit_ = std::strtoull(limit, nullptr, 10);
  }

  Block* find(const void* at) {
    auto it = blocks_.upper_bound(static_cast<char*>(const_cast<void*>(at)));
    if (it == blocks_.begin()) return nullptr;
    --it;
    return at < it->first + it->second.bytes ? &it->second : nullptr;
  }
  void note(int64_t bytes, int64_t asked);
  void give_back(char* start, size_t bytes);

  char *face_, *inside_;
  size_t limit_ = SIZE_MAX;
  std::mutex mutex_;
  std::map<char*, Block> blocks_;
  std::map<char*, size_t> free_;
  std::set<std::pair<size_t, char*>> free_by_size_;
  c10::CachingDeviceAllocator::DeviceStats stats_;
  c10::CachingAllocator::Stat counted_;
};

void* Arena::allocate(size_t asked) {
  const size_t bytes = (asked + kGrain - 1) / kGrain * kGrain;
  char* start = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto taken = static_cast<size_t>(stats_.allocated_bytes[0].current);
    const auto fit = free_by_size_.lower_bound({bytes, nullptr});
    TORCH_CHECK_WITH(OutOfMemoryError, bytes <= limit_ && taken <= limit_ - bytes && fit != free_by_size_.end(),
                     "CUDA out of memory. Tried to allocate ", mebibytes(asked), ". GPU 0 has a total capacity of ",
                     mebibytes(limit_), " of which ", mebibytes(limit_ - std::min(limit_, taken)), " is free.");
    const auto [size, at] = *fit;
    start = at;
    free_by_size_.erase(fit);
    free_.erase(start);
    if (size > bytes) {
      free_[start + bytes] = size - bytes;
      free_by_size_.emplace(size - bytes, start + bytes);
    }
    Block block{bytes, asked, {}};
    block.uses.home = current_stream();
    blocks_[start] = block;
    note(static_cast<int64_t>(bytes), static_cast<int64_t>(asked));
  }
  std::memset(for_kernels(start), 0xff, bytes);
  count_allocation();
  return start;
}

void Arena::free(void* start) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto it = blocks_.find(static_cast<char*>(start));
  if (it == blocks_.end()) return;
  const Block block = it->second;
  blocks_.erase(it);
  note(-static_cast<int64_t>(block.bytes), -static_cast<int64_t>(block.asked));
  give_back(static_cast<char*>(start), block.bytes);
  lock.unlock();
  // A caching allocator reuses such a block at once, for the stream that it was allocated for.
  if (!is_settled(block.uses)) count_defect("memory is freed that another stream may still use (`record_stream`)");
}

void Arena::note(int64_t bytes, int64_t asked) {
  const auto change = [](c10::CachingAllocator::Stat& stat, int64_t by) {
    by > 0 ? stat.increase(static_cast<size_t>(by)) : stat.decrease(static_cast<size_t>(-by));
  };
  change(stats_.allocation[0], bytes > 0 ? 1 : -1);
  for (auto* stat : {&stats_.allocated_bytes, &stats_.active_bytes, &stats_.reserved_bytes}) change((*stat)[0], bytes);
  for (auto* stat : {&stats_.requested_bytes[0], &counted_}) change(*stat, asked);
}

// Merges a free block with its free neighbors.
void Arena::give_back(char* start, size_t bytes) {
  const auto take = [&](std::map<char*, size_t>::iterator it) {
    free_by_size_.erase({it->second, it->first});
    free_.erase(it);
  };
  auto next = free_.lower_bound(start);
  if (next != free_.end() && start + bytes == next->first) {
    bytes += next->second;
    take(next++);
  }
  next = free_.lower_bound(start);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == start) {
      start = before->first;
      bytes += before->second;
      take(before);
    }
  }
  free_[start] = bytes;
  free_by_size_.emplace(bytes, start);
}

struct DeviceAllocator final : c10::DeviceAllocator {
  static void release(void* start) { Arena::get().free(start); }
  c10::DataPtr allocate(size_t bytes) override {
    void* start = bytes ? Arena::get().allocate(bytes) : nullptr;
    return {start, start, &release, c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getDevice()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t count) const override {
    std::memcpy(pretend::for_kernels(to), pretend::for_kernels(from), count);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    Arena::get().record(data.get(), static_cast<size_t>(stream.id()));
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override { return Arena::get().stats(); }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override { Arena::get().reset_peak(); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override {
    const size_t total = Arena::get().total();
    const auto taken = static_cast<size_t>(Arena::get().stats().reserved_bytes[0].current);
    return {total - std::min(total, taken), total};
  }
};

// Page-locked host memory.
struct PinnedAllocator final : at::HostAllocator {
  static PinnedAllocator& get() {
    static auto* it = new PinnedAllocator;
    return *it;
  }
  static void release(void* start) {
    std::lock_guard<std::mutex> lock(get().mutex);
    const auto it = get().blocks.find(static_cast<char*>(start));
    if (it == get().blocks.end()) return;
    get().taken -= it->second;
    get().blocks.erase(it);
    std::free(start);
  }
  bool holds(const void* at) {
    std::lock_guard<std::mutex> lock(mutex);
    auto it = blocks.upper_bound(static_cast<char*>(const_cast<void*>(at)));
    return it != blocks.begin() && (--it, at < it->first + it->second);
  }
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, c10::Device(c10::kCPU)};
    std::lock_guard<std::mutex> lock(mutex);
    TORCH_CHECK(bytes <= limit && taken <= limit - bytes, "CUDA error: out of memory (of the host, pinned)");
    void* start = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    blocks[static_cast<char*>(start)] = bytes;
    taken += bytes;
    return {start, start, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t count) const override { std::memcpy(to, from, count); }
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

  std::mutex mutex;
  std::map<char*, size_t> blocks;
  size_t taken = 0, limit = SIZE_MAX;
};

// Prints the reason before the process ends with the original signal.
struct Watch {
  static struct sigaction& before() {
    static struct sigaction it;
    return it;
  }
  static void fault(int number, siginfo_t* info, void*) {
    if (Arena::get().holds(info->si_addr)) {
      const char text[] = "pretend cuda: the host reads or writes device memory\n";
      void* frames[32];
      if (write(2, text, sizeof(text) - 1) > 0) backtrace_symbols_fd(frames, backtrace(frames, 32), 2);
    }
    sigaction(number, &before(), nullptr);
  }
  Watch() {
    Arena::get();
    struct sigaction action = {};
    action.sa_sigaction = &fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &before());
  }
} watch;

}  // namespace

Occupancy occupancy() {
  const auto counted = Arena::get().counted();
  auto& pinned = PinnedAllocator::get();
  std::lock_guard<std::mutex> lock(pinned.mutex);
  return {static_cast<uint64_t>(counted.current), static_cast<uint64_t>(counted.peak), pinned.taken};
}
void reset_peak() { Arena::get().reset_counted_peak(); }
void limit(size_t device_bytes, size_t pinned_bytes) {
  Arena::get().limit(device_bytes);
  auto& pinned = PinnedAllocator::get();
  std::lock_guard<std::mutex> lock(pinned.mutex);
  pinned.limit = pinned_bytes;
}

bool is_device(const void* at) { return Arena::get().holds(at); }
void* for_kernels(const void* at) { return Arena::get().for_kernels(at); }
void use(const void* at, Moment now, Access access) { Arena::get().use(at, now, access); }

c10::DeviceAllocator& device_allocator() {
  static auto* it = new DeviceAllocator;
  return *it;
}

bool is_pinned(const void* at) { return PinnedAllocator::get().holds(at); }
at::HostAllocator& pinned_allocator() { return PinnedAllocator::get(); }

}  // namespace pretend
