// Dropout on the CPU. The safe wrapper is src/device/native/dropout.rs.
//
// libtorch draws one number at a time, on one thread, and stores four bytes per number. This code computes the next
// state of libtorch's own generator many words at a time, takes two draws from a word, and stores one byte per draw.

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/TensorIterator.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstring>
#include <mutex>

#include "native.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define CLOZE_VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define CLOZE_VECTORS
#endif

using cloze::guarded;

namespace {

constexpr int WORDS = at::MERSENNE_STATE_N;
constexpr int APART = at::MERSENNE_STATE_M;

inline uint32_t twisted(uint32_t far, uint32_t own, uint32_t next) {
  return far ^ (((own & 0x80000000u) | (next & 0x7fffffffu)) >> 1) ^ (next & 1 ? 0x9908b0dfu : 0u);
}

// Computes the next state of a Mersenne twister (Matsumoto & Nishimura 1998). A word depends on words at a distance of
// 227 or more, and on its neighbour, which is read before it is written.
CLOZE_VECTORS void next_state(uint32_t* state) {
  for (int i = 0; i < WORDS - APART; ++i) state[i] = twisted(state[i + APART], state[i], state[i + 1]);
#pragma GCC ivdep
  for (int i = WORDS - APART; i < WORDS - 1; ++i) state[i] = twisted(state[i + APART - WORDS], state[i], state[i + 1]);
  state[WORDS - 1] = twisted(state[APART - 1], state[WORDS - 1], state[0]);
}

CLOZE_VECTORS void temper(const uint32_t* state, uint32_t* words, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t word = state[i];
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680u;
    word ^= (word << 15) & 0xefc60000u;
    words[i] = word ^ (word >> 18);
  }
}

// Draws the next words of a generator, equal to those of single draws.
void draw(at::mt19937_data_pod& generator, uint32_t* words, size_t count) {
  while (count > 0) {
    // `left_` is 1 before the first word of a new state.
    if (generator.left_ == 1) {
      next_state(generator.state_.data());
      generator.left_ = WORDS + 1;
      generator.next_ = 0;
    }
    const size_t taken = std::min<size_t>(count, generator.left_ - 1);
    temper(generator.state_.data() + generator.next_, words, taken);
    generator.left_ -= static_cast<int>(taken);
    generator.next_ += static_cast<uint32_t>(taken);
    words += taken;
    count -= taken;
  }
}

// A 64-bit number consists of two words, the first is the upper one. Of its four 16-bit lanes the lowest comes first.
CLOZE_VECTORS void compare(const uint32_t* words, uint8_t* kept, size_t numbers, int32_t least) {
  for (size_t i = 0; i < numbers; ++i) {
    const uint32_t low = words[2 * i + 1], high = words[2 * i];
    kept[4 * i] = static_cast<int16_t>(low) >= least;
    kept[4 * i + 1] = static_cast<int16_t>(low >> 16) >= least;
    kept[4 * i + 2] = static_cast<int16_t>(high) >= least;
    kept[4 * i + 3] = static_cast<int16_t>(high >> 16) >= least;
  }
}

// 1 for each worker from `least` on, as many as `count`, with the numbers of 64 bits that the CPU's generator draws
// next.
void draw_kept(uint8_t* kept, size_t count, int32_t least) {
  // 32 KiB: words stay in the first cache.
  constexpr size_t NUMBERS = 4096;
  uint32_t words[2 * NUMBERS];
  auto* generator = at::check_generator<at::CPUGeneratorImpl>(at::globalContext().defaultGenerator(at::kCPU));
  const std::lock_guard<std::mutex> lock(generator->mutex_);
  at::mt19937 engine = generator->engine();
  at::mt19937_data_pod state = engine.data();
  while (count > 0) {
    const size_t numbers = std::min((count + 3) / 4, NUMBERS);
    draw(state, words, 2 * numbers);
    const size_t whole = std::min(numbers, count / 4);
    compare(words, kept, whole, least);
    if (whole < numbers) {
      uint8_t last[4];
      compare(words + 2 * whole, last, 1, least);
      std::memcpy(kept + 4 * whole, last, count - 4 * whole);
    }
    kept += std::min(count, 4 * numbers);
    count -= std::min(count, 4 * numbers);
  }
  engine.set_data(state);
  generator->set_engine(engine);
}

// bfloat16 by its bits, so that loops over it are vectors.
struct Half {
  uint16_t bits;
};

inline float wide(float x) { return x; }
inline double wide(double x) { return x; }
inline float wide(Half x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float it;
  std::memcpy(&it, &bits, sizeof it);
  return it;
}

inline void put(float& to, float x) { to = x; }
inline void put(double& to, double x) { to = x; }
inline void put(Half& to, float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
  to.bits = static_cast<uint16_t>(x != x ? 0x7fc0u : rounded);
}

// `x · (kept ? factor : 0)`: infinities that are dropped are not numbers.
template <typename To, typename From>
inline __attribute__((always_inline)) void scale_row(To* to, const From* from, const uint8_t* kept, float factor,
                                                     int64_t count) {
  for (int64_t i = 0; i < count; ++i) put(to[i], wide(from[i]) * (static_cast<float>(kept[i]) * factor));
}

#define CLOZE_SCALED(name, To, From)                                                                          \
  CLOZE_VECTORS void name(To* to, const From* from, const uint8_t* kept, float factor, int64_t count) {        \
    scale_row(to, from, kept, factor, count);                                                                  \
  }
CLOZE_SCALED(floats, float, float)
CLOZE_SCALED(doubles, double, double)
CLOZE_SCALED(halves, Half, Half)
CLOZE_SCALED(halved, Half, float)
CLOZE_SCALED(widened, float, Half)

template <typename To, typename From>
void each(at::TensorIterator& it, void (*row)(To*, const From*, const uint8_t*, float, int64_t), float factor) {
  it.for_each([&](char** data, const int64_t* strides, int64_t count) {
    auto [to, from, kept] = std::tuple(data[0], data[1], data[2]);
    if (strides[0] == sizeof(To) && strides[1] == sizeof(From) && strides[2] == 1) {
      row(reinterpret_cast<To*>(to), reinterpret_cast<From*>(from), reinterpret_cast<uint8_t*>(kept), factor, count);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      row(reinterpret_cast<To*>(to), reinterpret_cast<From*>(from), reinterpret_cast<uint8_t*>(kept), factor, 1);
      to += strides[0], from += strides[1], kept += strides[2];
    }
  });
}

// Computes `factor * x` where `kept` is set, and 0 elsewhere, of type `kind`, on all of libtorch's threads.
at::Tensor scaled(const at::Tensor& x, const at::Tensor& kept, float factor, at::ScalarType kind) {
  at::Tensor to = at::empty_like(x, x.options().dtype(kind));
  auto it = at::TensorIteratorConfig()
                .add_output(to)
                .add_const_input(x)
                .add_const_input(kept)
                .check_all_same_dtype(false)
                .resize_outputs(false)
                .build();
  const at::ScalarType from = x.scalar_type();
  if (from == at::kFloat && kind == at::kFloat) each(it, floats, factor);
  else if (from == at::kDouble && kind == at::kDouble) each(it, doubles, factor);
  else if (from == at::kBFloat16 && kind == at::kBFloat16) each(it, halves, factor);
  else if (from == at::kFloat && kind == at::kBFloat16) each(it, halved, factor);
  else if (from == at::kBFloat16 && kind == at::kFloat) each(it, widened, factor);
  else TORCH_CHECK(false, "dropout from ", from, " to ", kind, " is not supported");
  return to;
}

struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& kept,
                            double factor, at::ScalarType kind) {
    context->save_for_backward({kept});
    context->saved_data["factor"] = factor;
    context->saved_data["kind"] = static_cast<int64_t>(x.scalar_type());
    return scaled(x, kept, static_cast<float>(factor), kind);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& slopes) {
    const auto factor = static_cast<float>(context->saved_data["factor"].toDouble());
    const auto kind = static_cast<at::ScalarType>(context->saved_data["kind"].toInt());
    return {scaled(slopes[0], context->get_saved_variables()[0], factor, kind), {}, {}, {}};
  }
};

}  // namespace

extern "C" {

// Applies dropout to `x`, a CPU tensor. If a draw, uniform over −2¹⁵ .. 2¹⁵, is below `least`, the result is 0,
// otherwise `factor` times the number. The result is of type `kind`. Gradients are propagated.
int cloze_dropout(const at::Tensor* x, int least, double factor, int kind, at::Tensor** made) {
  return guarded([&] {
    TORCH_CHECK(x->device().is_cpu(), "this dropout takes CPU tensors only");
    at::Tensor kept = at::empty(x->sizes(), at::TensorOptions(at::kByte));
    draw_kept(kept.mutable_data_ptr<uint8_t>(), static_cast<size_t>(kept.numel()), least);
    *made = new at::Tensor(Dropout::apply(*x, kept, factor, static_cast<at::ScalarType>(kind)));
  });
}
}
