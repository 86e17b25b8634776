// Small programs with one fault each, and the same programs without it.
//
// A trial returns the result for the host: an exception, a number, or the end of the process.

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "counters.h"

namespace pretend {

namespace {

const c10::Device kDevice(c10::DeviceType::CUDA, 0);

at::Tensor pinned(double value) {
  return at::empty({1000}, at::TensorOptions(at::kFloat).pinned_memory(true)).fill_(value);
}
at::Tensor on_device(double value) { return at::full({1000}, value, at::device(kDevice).dtype(at::kFloat)); }
double average(const at::Tensor& tensor) { return tensor.mean().item<double>(); }

c10::Stream side() { return c10::impl::VirtualGuardImpl(c10::kCUDA).getStreamFromGlobalPool(kDevice, false); }
c10::Stream main_stream() { return c10::impl::VirtualGuardImpl(c10::kCUDA).getDefaultStream(kDevice); }

// A copy on a side stream, which the main stream reads.
double staged(bool with_event) {
  const at::Tensor host = pinned(3.0);
  const at::Tensor target = on_device(0.0);
  const c10::Stream stream = side();
  c10::Event made(c10::kCUDA), copied(c10::kCUDA);
  made.record(main_stream());
  {
    c10::StreamGuard guard(stream);
    made.block(stream);
    target.copy_(host, /*non_blocking=*/true);
    copied.record(stream);
  }
  if (with_event) copied.block(main_stream());
  const double found = average(target);
  copied.synchronize();
  return found;
}

// Two batches through one staging buffer.
double reused(bool with_wait) {
  at::Tensor host = pinned(1.0);
  const at::Tensor first = host.to(kDevice, /*non_blocking=*/true);
  c10::Event copied(c10::kCUDA);
  copied.record(main_stream());
  if (with_wait) copied.synchronize();
  host.fill_(2.0);
  const at::Tensor second = host.to(kDevice, /*non_blocking=*/true);
  return average(first) + average(second);
}

// A result that the host reads.
double fetched(bool with_wait) {
  const at::Tensor host = pinned(0.0);
  host.copy_(on_device(5.0), /*non_blocking=*/true);
  if (with_wait) main_stream().synchronize();
  return host[0].item<double>();
}

double sum_with(const at::Tensor& other) { return average(on_device(1.0) + other); }

double indexed(const c10::Device& device) {
  const at::Tensor ids = at::zeros({10}, at::device(device).dtype(at::kLong));
  return average(on_device(4.0).index_select(0, ids));
}

// Two devices with their own tensors. libtorch queries the number of devices once, after this.
double on_second(bool mixed) {
  setenv("PRETEND_CUDA_DEVICES", "2", 1);
  const at::Tensor there = at::ones({10}, at::device(c10::Device(c10::kCUDA, 1)).dtype(at::kFloat));
  TORCH_CHECK(there.add(1.0).device().index() == 1, "a result is on another device");
  return average(there + (mixed ? at::ones({10}, kDevice) : there));
}

// An optimizer moment that was not set to zero.
double moment(bool zeroed) {
  const at::Tensor mean_of = zeroed ? at::zeros({10}, kDevice) : at::empty({10}, at::device(kDevice).dtype(at::kFloat));
  return average(mean_of.mul(0.9).add(1.0));
}

// Number of waits of the host before it requests the result.
double waited(bool looks) {
  const uint64_t before = waits();
  const at::Tensor loss = on_device(2.0).sum();
  if (looks && loss.isnan().item<bool>()) return -1.0;
  return static_cast<double>(waits() - before);
}

double raw_read() { return static_cast<double>(*on_device(1.0).const_data_ptr<float>()); }

// The main stream frees memory that the side stream still reads.
double freed(bool recorded) {
  const c10::Stream stream = side();
  at::Tensor source = on_device(1.0);
  c10::Event made(c10::kCUDA);
  made.record(main_stream());
  at::Tensor sum;
  {
    c10::StreamGuard guard(stream);
    made.block(stream);
    sum = source.sum();
    if (recorded) source.record_stream(stream);
  }
  source.reset();
  stream.synchronize();
  return sum.item<double>();
}

const std::map<std::string, std::function<double()>>& trials() {
  static const auto* it = new std::map<std::string, std::function<double()>>{
      {"event", [] { return staged(true); }},
      {"missing-event", [] { return staged(false); }},
      {"buffer", [] { return reused(true); }},
      {"buffer-reused-too-early", [] { return reused(false); }},
      {"result", [] { return fetched(true); }},
      {"result-read-too-early", [] { return fetched(false); }},
      {"one-device", [] { return sum_with(on_device(1.0)); }},
      {"two-devices", [] { return sum_with(at::ones({1000})); }},
      {"second-device", [] { return on_second(false); }},
      {"first-and-second-device", [] { return on_second(true); }},
      {"indices", [] { return indexed(kDevice); }},
      {"indices-of-the-host", [] { return indexed(c10::Device(c10::kCPU)); }},
      {"moment", [] { return moment(true); }},
      {"uninitialised-moment", [] { return moment(false); }},
      {"no-wait", [] { return waited(false); }},
      {"hidden-wait", [] { return waited(true); }},
      {"raw-read", [] { return raw_read(); }},
      {"freed", [] { return freed(true); }},
      {"freed-too-early", [] { return freed(false); }},
  };
  return *it;
}

}  // namespace

}  // namespace pretend

// Prints the number of a trial, or the first line of its exception. Returns 0, or 1 after an exception.
extern "C" int pretend_cuda_trial(const char* name) {
  try {
    std::printf("%g\n", pretend::trials().at(name)());
    return 0;
  } catch (const c10::Error& error) {
    std::printf("%s\n", error.what_without_backtrace());
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
  }
  return 1;
}
