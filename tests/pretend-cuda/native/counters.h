// Counters of device operations for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace pretend {

// Returns whether an environment variable is set, and not to 0.
bool is_set(const char* variable);

// Counts one operator below autograd. CUDA may launch several kernels for it, or fuse them.
void count_kernel(const std::string& name);

// Counts a wait of the host for the device.
void count_wait(const std::string& why);

// `kind` is like "up pinned async": direction, host memory, and whether the host continues meanwhile.
void count_copy(const std::string& kind, size_t bytes);

void count_allocation();

// Returns the number of waits since the newest mark.
uint64_t waits();

// Counts an invalid use that a real device would answer with garbage, at a place where no exception can be thrown.
void count_defect(const std::string& what);

}  // namespace pretend
