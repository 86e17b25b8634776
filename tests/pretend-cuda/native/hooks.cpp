// CUDA hooks of libtorch, and the random numbers of the device.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include "counters.h"
#include "generator.h"
#include "memory.h"

namespace pretend {

Generator::Generator(c10::Device device)
    : GeneratorImpl(device, c10::DispatchKeySet(c10::DispatchKey::CUDA)),
      host(at::detail::createCPUGenerator(c10::default_rng_seed_val)) {}

// The generator equals the CPU's if a test compares the two, and differs otherwise.
void Generator::set_current_seed(uint64_t seed) {
  static const bool same = is_set("PRETEND_CUDA_CPU_DRAWS");
  host.set_current_seed(same ? seed : seed ^ 0x9e3779b97f4a7c15);
  seed_ = seed;
}

uint64_t Generator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seed_;
}

void Generator::set_state(const c10::TensorImpl& state) { host.unsafeGetGeneratorImpl()->set_state(state); }
c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const { return host.unsafeGetGeneratorImpl()->get_state(); }

Generator* Generator::clone_impl() const {
  auto* copy = new Generator(device());
  copy->host = host.clone();
  copy->seed_ = seed_;
  return copy;
}

const at::Generator& default_generator() {
  static auto* it = new at::Generator(c10::make_intrusive<Generator>(c10::Device(c10::kCUDA, 0)));
  return *it;
}

Draws::Draws(bool wanted) : wanted_(wanted) {
  if (wanted_) swap();
}

Draws::~Draws() {
  if (wanted_) swap();
}

void Draws::swap() {
  const auto cpu = [](const at::Generator& generator) { return at::check_generator<at::CPUGeneratorImpl>(generator); };
  auto* one = cpu(at::detail::getDefaultCPUGenerator());
  auto* other = cpu(static_cast<Generator*>(default_generator().unsafeGetGeneratorImpl())->host);
  const auto engine = one->engine();
  const auto single = one->next_float_normal_sample();
  const auto twice = one->next_double_normal_sample();
  one->set_engine(other->engine());
  one->set_next_float_normal_sample(other->next_float_normal_sample());
  one->set_next_double_normal_sample(other->next_double_normal_sample());
  other->set_engine(engine);
  other->set_next_float_normal_sample(single);
  other->set_next_double_normal_sample(twice);
}

}  // namespace pretend

namespace at {

// libtorch looks the hooks up under this name.
struct CUDAHooks final : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  static const c10::impl::DeviceGuardImplInterface& guard() {
    return *c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA);
  }
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  const Generator& getDefaultGenerator(DeviceIndex) const override { return pretend::default_generator(); }
  Generator getNewGenerator(DeviceIndex) const override {
    return make_generator<pretend::Generator>(c10::Device(c10::kCUDA, 0));
  }
  Device getDeviceFromPtr(void*) const override { return guard().getDevice(); }
  bool isPinnedPtr(const void* at) const override { return pretend::is_pinned(at); }
  Allocator* getPinnedMemoryAllocator() const override { return &pretend::pinned_allocator(); }
  Allocator* getCUDADeviceAllocator() const override { return &pretend::device_allocator(); }
  DeviceIndex deviceCount() const override { return guard().deviceCount(); }
  int getNumGPUs() const override { return guard().deviceCount(); }
  DeviceIndex current_device() const override { return guard().getDevice().index(); }
  DeviceIndex getCurrentDevice() const override { return guard().getDevice().index(); }
  void setCurrentDevice(DeviceIndex index) const override { guard().setDevice({c10::kCUDA, index}); }
  DeviceIndex exchangeDevice(DeviceIndex index) const override {
    return guard().exchangeDevice({c10::kCUDA, index}).index();
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override { return exchangeDevice(index); }
  void deviceSynchronize(DeviceIndex index) const override { guard().synchronizeDevice(index); }
  std::string showConfig() const override { return "a CUDA device of host memory\n"; }
};
REGISTER_CUDA_HOOKS(CUDAHooks)

}  // namespace at
