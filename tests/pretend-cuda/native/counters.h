// What the device was asked to do, for tests to count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace pretend {

// Whether a variable is set, and not to 0.
bool is_set(const char* variable);

// One operator below autograd. (CUDA may launch several kernels for it, or fuse.)
void count_kernel(const std::string& name);

// The host stands still until the device has done something.
void count_wait(const std::string& why);

// `kind` is like "up pinned async": direction, the host's memory, whether the host goes on meanwhile.
void count_copy(const std::string& kind, size_t bytes);

void count_allocation();

// How often the host has waited since the newest mark.
uint64_t waits();

// A use that a real device would answer with garbage, found where nothing can be thrown.
void count_defect(const std::string& what);

}  // namespace pretend
