// SPDX-License-Identifier: MIT
// A sum in one, two, four and eight chains, and in vectors of them: additions that wait for each other, and additions
// that do not.
#include <utility>

#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

// A value that stays a scalar in a register: without this, compilers join chains into vectors, some better than others,
// and what is measured is the compiler.
void keep_scalar([[maybe_unused]] float& value) {
#if defined(__x86_64__)
  asm("" : "+x"(value));
#elif defined(__aarch64__)
  asm("" : "+w"(value));
#endif
}

template <int... kChain>
float sum_in_scalars(const float* x, int64_t n, std::integer_sequence<int, kChain...>) {
  float chains[sizeof...(kChain)] = {};
  for (int64_t i = 0; i < n; i += sizeof...(kChain))
    ((chains[kChain] += x[i + kChain], keep_scalar(chains[kChain])), ...);
  return (chains[kChain] + ...);
}
template <int kChains>
float sum_in_chains(const float* x, int64_t n) {
  return sum_in_scalars(x, n, std::make_integer_sequence<int, kChains>());
}

// The language fixes the order of float additions: the compiler must keep these chains, and may put them in vectors.
float sum_in_vectors(const float* x, int64_t n) {
  constexpr int kChains = 32;
  float chains[kChains] = {};
  for (int64_t i = 0; i < n; i += kChains)
#pragma GCC unroll 32  // so that the chains live in registers
    for (int c = 0; c < kChains; ++c) chains[c] += x[i + c];
  float sum = 0;
  for (const float chain : chains) sum += chain;
  return sum;
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);  // a multiple of 32
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n, 0, 1);
  const auto sum = trial->output<float>("sum", 1);
  const auto count = static_cast<double>(n);
  trial->set_cost({.flops = count, .bytes = 4 * count, .roof = Roof::kL1});
  trial->reference([=](const HostArrays& host) {
    double total = 0;
    for (const float value : host[x]) total += value;
    host[sum][0] = static_cast<float>(total);
  });
  trial->variant("1 chain", [=](const Launch& at) { *at[sum] = sum_in_chains<1>(at[x], n); });
  trial->variant("2 chains", [=](const Launch& at) { *at[sum] = sum_in_chains<2>(at[x], n); });
  trial->variant("4 chains", [=](const Launch& at) { *at[sum] = sum_in_chains<4>(at[x], n); });
  trial->variant("8 chains", [=](const Launch& at) { *at[sum] = sum_in_chains<8>(at[x], n); });
  trial->variant("32 in vectors", [=](const Launch& at) { *at[sum] = sum_in_vectors(at[x], n); });
  return trial;
}

const Registered kAccumulators({
    .id = "cpu/accumulators",
    .title = "Independent accumulators",
    .question = "How many independent chains hide the latency of an addition?",
    .mechanism = "An addition takes three or four cycles before the next of its chain can start, while two "
                 "could start "
                 "every cycle. More chains fill the pipe; many chains also fill vectors. Instruction-level "
                 "parallelism, as on a GPU with few warps.",
    .claim = {.text = "More independent operations per thread hide latency without more threads."},
    .domain = Domain::kCpu,
    .rotation = Rotation::kHot,
    .variants = {{"1 chain", "each addition waits for the last"}, {"2 chains", "odd and even elements"},
        {"4 chains", "every fourth"}, {"8 chains", "as many as two units with four cycles take"},
        {"32 in vectors", "several vectors of chains"}},
    .sizes = sizes_of({1 << 12}),
    .tolerance = {.relative = 1e-4},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
