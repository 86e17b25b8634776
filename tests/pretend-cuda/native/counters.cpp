#include "counters.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "memory.h"

namespace pretend {

namespace {

struct Copies {
  uint64_t count = 0, bytes = 0;
};

struct Counters {
  uint64_t kernel_count = 0, wait_count = 0, allocations = 0;
  std::map<std::string, uint64_t> kernels, waits, defects;
  std::map<std::string, Copies> copies;
};

std::mutex mutex;

// Never destroyed: libtorch frees tensors after other static variables are destroyed.
Counters& counters() {
  static auto* it = new Counters;
  return *it;
}

std::string number(uint64_t value) { return std::to_string(value); }
std::string number(const Copies& value) { return "[" + number(value.count) + "," + number(value.bytes) + "]"; }

template <typename Value>
std::string table(const std::map<std::string, Value>& values) {
  std::string text;
  for (const auto& [name, value] : values) text += (text.empty() ? "\"" : ",\"") + name + "\":" + number(value);
  return "{" + text + "}";
}

std::string json(const Counters& it) {
  const Occupancy memory = occupancy();
  return "{\"kernel_count\":" + number(it.kernel_count) + ",\"wait_count\":" + number(it.wait_count) +
         ",\"allocations\":" + number(it.allocations) + ",\"bytes\":" + number(memory.bytes) +
         ",\"peak_bytes\":" + number(memory.peak_bytes) + ",\"kernels\":" + table(it.kernels) +
         ",\"waits\":" + table(it.waits) + ",\"copies\":" + table(it.copies) + ",\"defects\":" + table(it.defects) + "}\n";
}

// Appends a line of JSON to the file of PRETEND_CUDA_REPORT.
void report() {
  const char* path = std::getenv("PRETEND_CUDA_REPORT");
  if (!path || !*path) return;
  const std::string line = json(counters());
  if (FILE* file = std::fopen(path, "a")) {
    std::fputs(line.c_str(), file);
    std::fclose(file);
  }
}

struct AtExit {
  ~AtExit() {
    std::lock_guard<std::mutex> lock(mutex);
    report();
  }
} at_exit;

}  // namespace

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value && std::strcmp(value, "0") != 0;
}

// Each call of the operator PRETEND_CUDA_MARK reports the counts since the previous call, including itself.
void count_kernel(const std::string& name) {
  static const char* const mark = std::getenv("PRETEND_CUDA_MARK");
  std::lock_guard<std::mutex> lock(mutex);
  auto& it = counters();
  ++it.kernels[name];
  ++it.kernel_count;
  if (mark && name == mark) {
    report();
    it = Counters{};
  }
}

void count_wait(const std::string& why) {
  std::lock_guard<std::mutex> lock(mutex);
  ++counters().waits[why];
  ++counters().wait_count;
}

void count_copy(const std::string& kind, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  auto& entry = counters().copies[kind];
  ++entry.count;
  entry.bytes += bytes;
}

void count_allocation() {
  std::lock_guard<std::mutex> lock(mutex);
  ++counters().allocations;
}

void count_defect(const std::string& what) {
  std::fprintf(stderr, "pretend cuda: %s\n", what.c_str());
  std::lock_guard<std::mutex> lock(mutex);
  ++counters().defects[what];
}

uint64_t waits() {
  std::lock_guard<std::mutex> lock(mutex);
  return counters().wait_count;
}

}  // namespace pretend

// Entry points for tests in the same process: `counts.rs`.
extern "C" {

void pretend_cuda_start() {
  std::lock_guard<std::mutex> lock(pretend::mutex);
  pretend::counters() = pretend::Counters{};
  pretend::reset_peak();
}

// Sets the sizes of device memory and of pinned memory.
void pretend_cuda_limit(uint64_t device_bytes, uint64_t pinned_bytes) { pretend::limit(device_bytes, pinned_bytes); }

// Kernels, waits, copies up and their bytes, copies down and their bytes, current bytes, peak bytes, pinned bytes,
// defects.
void pretend_cuda_read(uint64_t* counts) {
  std::lock_guard<std::mutex> lock(pretend::mutex);
  const auto& it = pretend::counters();
  const pretend::Occupancy memory = pretend::occupancy();
  pretend::Copies up, down;
  for (const auto& [kind, some] : it.copies) {
    auto& sum = kind.rfind("up", 0) == 0 ? up : down;
    sum = {sum.count + some.count, sum.bytes + some.bytes};
  }
  uint64_t defects = 0;
  for (const auto& [what, count] : it.defects) defects += count;
  const uint64_t values[] = {it.kernel_count, it.wait_count, up.count,          up.bytes,            down.count,
                             down.bytes,      memory.bytes,  memory.peak_bytes, memory.pinned_bytes, defects};
  std::memcpy(counts, values, sizeof values);
}
}
