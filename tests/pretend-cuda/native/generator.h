// Random numbers of the device: a CPU generator with separate state.
#pragma once

#include <ATen/core/Generator.h>

namespace pretend {

struct Generator final : c10::GeneratorImpl {
  explicit Generator(c10::Device device);
  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;
  void set_offset(uint64_t) override {}
  uint64_t get_offset() const override { return 0; }
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  Generator* clone_impl() const override;

  at::Generator host;

 private:
  uint64_t seed_ = c10::default_rng_seed_val;
};

const at::Generator& default_generator();

// Scope in which draws from the CPU's generator use the device's generator.
class Draws {
 public:
  explicit Draws(bool wanted);
  ~Draws();
  Draws(const Draws&) = delete;
  Draws& operator=(const Draws&) = delete;

 private:
  static void swap();
  bool wanted_;
};

}  // namespace pretend
