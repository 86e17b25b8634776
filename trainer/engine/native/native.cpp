// Functions of libtorch that tch does not expose. The safe wrapper is src/device/native.rs.

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <dlfcn.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <climits>
#include <cstring>
#include <cstdlib>  // also defines __GLIBC__
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "native.h"

std::string& cloze::last_error() {
  thread_local std::string it;
  return it;
}

using cloze::guarded;

namespace {

std::vector<at::Tensor> list(at::Tensor* const* tensors, size_t count) {
  std::vector<at::Tensor> result;
  result.reserve(count);
  for (size_t i = 0; i < count; ++i) result.push_back(*tensors[i]);
  return result;
}

// Maximum number of bytes of gradients that are widened at a time.
constexpr int64_t WIDENED_BYTES = 256 << 20;

const at::Generator& generator_of(int index) {
  const at::Device device = index < 0 ? at::Device(at::kCPU) : at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
  return at::globalContext().defaultGenerator(device);
}

// libtorch's fused kernels read as many numbers as the weight has from the other lists and do not check their sizes.
void check_like(const char* what, const at::Tensor& tensor, const at::Tensor& weight, size_t index) {
  TORCH_CHECK(tensor.defined() && tensor.sizes() == weight.sizes() && tensor.strides() == weight.strides() &&
                  tensor.scalar_type() == weight.scalar_type() && tensor.device() == weight.device(),
              "fused AdamW: ", what, " of weight ", index, " differs from it in shape, layout, type or device");
}

bool is_like(const at::Tensor& tensor, const at::Tensor& other) {
  return tensor.scalar_type() == other.scalar_type() && tensor.strides() == other.strides();
}

void check_scalar(const char* what, const at::Tensor& tensor, const at::Tensor& weight) {
  TORCH_CHECK(tensor.numel() == 1 && tensor.scalar_type() == at::kFloat && tensor.device() == weight.device(),
              "fused AdamW: ", what, " is not one float32 number on the device of the weights");
}

// Set before main, because torch looks up its CUDA hooks once and caches the result. On a machine without a driver,
// loading libtorch_cuda wastes 240 MB. One build therefore serves both kinds of machine.
bool has_driver = false;
// Constructed on first use: `load_cuda` runs before the constructors of this file's other variables.
std::string& cuda_problem() {
  static std::string it = "this machine has no NVIDIA driver (libcuda.so.1)";
  return it;
}

// Rows of different widths need blocks of different sizes, which fragment fixed segments after an hour or a day.
// Expandable segments do not fragment. A setting of the user takes precedence.
void choose_allocator() {
  if (!getenv("PYTORCH_CUDA_ALLOC_CONF")) setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True", 0);
}

__attribute__((constructor)) void load_cuda() {
  choose_allocator();
  has_driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr;
  if (!has_driver) return;
  void* cpu = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
  char folder[PATH_MAX] = {0};
  if (!cpu || dlinfo(cpu, RTLD_DI_ORIGIN, folder) != 0) {
    cuda_problem() = "the folder of libtorch_cpu.so cannot be found";
    return;
  }
  const std::string library = std::string(folder) + "/libtorch_cuda.so";
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
    cuda_problem().clear();
  } else {
    const char* reason = dlerror();
    cuda_problem() = reason ? reason : library + " cannot be loaded";
  }
}

}  // namespace

extern "C" {

// Valid until this thread's next failure.
const char* cloze_last_error() { return cloze::last_error().c_str(); }

// Empty where the CUDA libraries were loaded.
const char* cloze_cuda_problem() { return cuda_problem().c_str(); }

// Whether this machine has the CUDA driver, even if the libraries are not loaded.
int cloze_has_cuda_driver() { return has_driver; }

// glibc returns every freed tensor above 32 MiB to the kernel, which zeroes the pages again in the next step: 7 to 14 %
// of a step on the CPU. A run needs the same blocks in every step, so the process keeps them.
void keep_freed_memory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

// cuBLAS reads this variable when its first handle is made, and computes in a fixed order only with it (cuBLAS
// documentation, "Results reproducibility"). It is set for every run before `main`, because `setenv` is not safe next to
// threads that read the environment. The workspace takes 32 MiB. A value of the user stays.
__attribute__((constructor)) void set_cublas_workspace() { setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0); }

// Process-wide switches. Flushing denormals is per thread and inherited by the OpenMP team that the thread starts.
int cloze_configure(int deterministic, int tf32) {
  return guarded([&] {
    keep_freed_memory();
    at::globalContext().setFlushDenormal(true);
    at::globalContext().setFloat32MatmulPrecision(tf32 ? "high" : "highest");
    at::globalContext().setBenchmarkCuDNN(false);
    // Some of cuDNN's attention kernels round the dropout probability to sixteenths.
    at::globalContext().setSDPUseCuDNN(false);
    at::globalContext().setDeterministicAlgorithms(deterministic != 0, false);
    at::globalContext().setDeterministicFillUninitializedMemory(false);
  });
}

// Moves the gradients out of the weights: new handles, owned by the caller; null where a weight has none.
int cloze_take_gradients(at::Tensor* const* weights, size_t count, at::Tensor** gradients) {
  return guarded([&] {
    for (size_t i = 0; i < count; ++i) {
      at::Tensor& gradient = weights[i]->mutable_grad();
      gradients[i] = gradient.defined() ? new at::Tensor(gradient.contiguous()) : nullptr;
      gradient.reset();
    }
  });
}

// Copies each tensor of `from` into the tensor of `to` at the same index. Types may differ.
int cloze_copy_all(at::Tensor* const* to, at::Tensor* const* from, size_t count) {
  return guarded([&] {
    if (count == 0) return;
    c10::NoGradGuard no_grad;
    at::_foreach_copy_(list(to, count), list(from, count));
  });
}

// Adds each tensor of `what` to the tensor of `to` at the same index.
int cloze_add_all(at::Tensor* const* to, at::Tensor* const* what, size_t count) {
  return guarded([&] {
    if (count == 0) return;
    c10::NoGradGuard no_grad;
    at::_foreach_add_(list(to, count), list(what, count));
  });
}

// Adds gradients, of any type, to those of the weights. A weight may occur more than once. Each further gradient of a
// weight takes a further round, because a kernel over a list must not get a tensor twice.
int cloze_add_gradients(at::Tensor* const* weights, at::Tensor* const* gradients, size_t count) {
  return guarded([&] {
    c10::NoGradGuard no_grad;
    std::vector<size_t> waiting(count);
    for (size_t i = 0; i < count; ++i) {
      TORCH_CHECK(gradients[i]->sizes() == weights[i]->sizes(), "the gradient of weight ", i, " differs from it in shape");
      waiting[i] = i;
    }
    while (!waiting.empty()) {
      std::vector<at::Tensor> fresh, first, sums, more, sums_of_narrow, widened, narrow;
      std::vector<size_t> later;
      std::set<const void*> met;
      int64_t bytes = 0;
      for (const size_t i : waiting) {
        at::Tensor& sum = weights[i]->mutable_grad();
        // Summands are widened in temporary memory, so a round is limited to a part of the weights.
        if (bytes > WIDENED_BYTES || !met.insert(weights[i]->unsafeGetTensorImpl()).second) {
          later.push_back(i);
        } else if (!sum.defined() && is_like(*gradients[i], *weights[i])) {
          sum = *gradients[i];
        } else if (!sum.defined()) {
          sum = at::empty_like(*weights[i]);
          fresh.push_back(sum);
          first.push_back(*gradients[i]);
        } else if (is_like(*gradients[i], sum)) {
          sums.push_back(sum);
          more.push_back(*gradients[i]);
        } else {
          widened.push_back(at::empty_like(sum));
          narrow.push_back(*gradients[i]);
          sums_of_narrow.push_back(sum);
          bytes += static_cast<int64_t>(sum.nbytes());
        }
      }
      if (!fresh.empty()) at::_foreach_copy_(fresh, first);
      if (!narrow.empty()) at::_foreach_copy_(widened, narrow);
      sums.insert(sums.end(), sums_of_narrow.begin(), sums_of_narrow.end());
      more.insert(more.end(), widened.begin(), widened.end());
      if (!sums.empty()) at::_foreach_add_(sums, more);
      waiting = std::move(later);
    }
  });
}

// The L2 norm over all numbers of all tensors, a new float32 scalar on their device, owned by the caller.
int cloze_global_norm(at::Tensor* const* tensors, size_t count, at::Tensor** norm) {
  return guarded([&] {
    c10::NoGradGuard no_grad;
    *norm = new at::Tensor(at::linalg_vector_norm(at::stack(at::_foreach_norm(list(tensors, count), 2)), 2));
  });
}

// One AdamW update of every weight. `step` is the number of this update, counted from 1. Gradients are divided by
// `scale` first (and left divided); where `skip` is 1 nothing changes.
int cloze_fused_adamw(at::Tensor* const* weights, at::Tensor* const* gradients, at::Tensor* const* means,
                      at::Tensor* const* variances, size_t count, const at::Tensor* step, double lr, double beta1,
                      double beta2, double weight_decay, double eps, const at::Tensor* scale, const at::Tensor* skip) {
  return guarded([&] {
    if (count == 0) return;
    c10::NoGradGuard no_grad;
    const auto w = list(weights, count), g = list(gradients, count), m = list(means, count),
               v = list(variances, count);
    for (size_t i = 0; i < count; ++i) {
      check_like("the gradient", g[i], w[i], i);
      check_like("the first moment", m[i], w[i], i);
      check_like("the second moment", v[i], w[i], i);
    }
    check_scalar("the step", *step, w[0]);
    check_scalar("the scale", *scale, w[0]);
    check_scalar("the skip flag", *skip, w[0]);
    const std::vector<at::Tensor> steps(count, *step);
    at::_fused_adamw_(w, g, m, v, {}, steps, lr, beta1, beta2, weight_decay, eps, false, false, *scale, *skip);
  });
}

// Copies bytes to a device without waiting: a new byte tensor, owned by the caller. The pinned staging memory is freed
// immediately, and the allocator reuses it only after the copy is complete.
int cloze_upload(const void* bytes, size_t count, int index, at::Tensor** uploaded) {
  return guarded([&] {
    c10::NoGradGuard no_grad;
    const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
    const auto size = static_cast<int64_t>(count);
    at::Tensor pinned = at::empty({size}, at::TensorOptions(at::kByte).pinned_memory(true));
    if (count > 0) std::memcpy(pinned.mutable_data_ptr(), bytes, count);
    *uploaded = new at::Tensor(pinned.to(device, at::kByte, /*non_blocking=*/true));
  });
}

// Whether autograd records operations on this thread.
int cloze_records() { return c10::GradMode::is_enabled(); }

// Propagates a gradient back through the graph of a tensor, to the leaves.
int cloze_backward(const at::Tensor* made, const at::Tensor* gradient) {
  return guarded([&] { torch::autograd::backward({*made}, {*gradient}); });
}

// State of a device's random number generator, the CPU's for -1: a new byte tensor in host memory, owned by the caller.
int cloze_generator_state(int index, at::Tensor** state) {
  return guarded([&] {
    at::Generator generator = generator_of(index);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    *state = new at::Tensor(generator.get_state());
  });
}

// Restores the state of a generator.
int cloze_set_generator_state(int index, const at::Tensor* state) {
  return guarded([&] {
    at::Generator generator = generator_of(index);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(*state);
  });
}

// Waits for all enqueued work of the device.
int cloze_synchronize(int index) {
  return guarded([&] { at::accelerator::synchronizeDevice(static_cast<c10::DeviceIndex>(index)); });
}
}
