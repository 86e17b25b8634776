// Devices, streams and events of libtorch's interface.

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <chrono>
#include <cstdlib>

#include "counters.h"
#include "memory.h"
#include "order.h"

namespace pretend {

namespace {

c10::DeviceIndex device_count() {
  static const int count = std::getenv("PRETEND_CUDA_DEVICES") ? std::atoi(std::getenv("PRETEND_CUDA_DEVICES")) : 1;
  return static_cast<c10::DeviceIndex>(count);
}

thread_local c10::DeviceIndex device_of_thread = 0;

size_t id(const c10::Stream& stream) { return static_cast<size_t>(stream.id()); }

// An event that was never recorded orders nothing, and waiting for it returns at once.
struct Event {
  Clock clock{};
  std::shared_ptr<Work> work{};
  std::chrono::steady_clock::time_point at{};
};

void wait_for(Event& event) {
  if (event.work) event.work->wait();
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {c10::DeviceType::CUDA, device_of_thread}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.is_cuda() && device.index() < device_count(), "CUDA error: invalid device ordinal (", device, ")");
    uncheckedSetDevice(device);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) device_of_thread = device.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }

  c10::Stream stream(size_t number) const {
    return c10::Stream(c10::Stream::UNSAFE, getDevice(), static_cast<c10::StreamId>(number));
  }
  c10::Stream getStream(c10::Device) const override { return stream(current_stream()); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    static std::atomic<size_t> given{0};
    return stream(1 + given++ % (kStreams - 1));
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return native_handle(id(stream)); }
  c10::Stream getNewStream(c10::Device device, int) const override { return getStreamFromGlobalPool(device, false); }
  c10::Stream exchangeStream(c10::Stream to) const override { return stream(exchange_stream(id(to))); }
  bool queryStream(const c10::Stream& stream) const override { return know(id(stream)), true; }
  void synchronizeStream(const c10::Stream& stream) const override {
    count_wait("synchronizeStream");
    know(id(stream));
  }
  void synchronizeDevice(const c10::DeviceIndex) const override {
    count_wait("synchronizeDevice");
    know_all();
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override;

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (!*event) *event = new Event;
    static_cast<Event*>(*event)->clock = pretend::record(id(stream));
    static_cast<Event*>(*event)->work = pretend::work(id(stream));
    static_cast<Event*>(*event)->at = std::chrono::steady_clock::now();
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (!event) return;
    wait_for(*static_cast<Event*>(event));
    pretend::block(id(stream), static_cast<Event*>(event)->clock);
  }
  bool queryEvent(void* event) const override {
    if (!event) return true;
    auto& work = static_cast<Event*>(event)->work;
    if (work && !work->is_done()) return false;
    know(static_cast<Event*>(event)->clock);
    return true;
  }
  void synchronizeEvent(void* event) const override {
    count_wait("synchronizeEvent");
    if (!event) return;
    wait_for(*static_cast<Event*>(event));
    know(static_cast<Event*>(event)->clock);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  // Work runs on the host at its launch, so it is complete.
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    TORCH_CHECK(from && to, "CUDA error: an event was never recorded");
    const auto apart = static_cast<Event*>(to)->at - static_cast<Event*>(from)->at;
    return std::chrono::duration<double, std::milli>(apart).count();
  }
};

}  // namespace

void Guard::recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const {
  device_allocator().recordStream(data, stream);
}

C10_REGISTER_GUARD_IMPL(CUDA, Guard)

}  // namespace pretend
