// SPDX-License-Identifier: MIT
// A small table read many times: plain, read-only, constant, texture and shared.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;
constexpr int kLookups = 32;       // a thread
constexpr int kMostWords = 12288;  // 48 KB: fits constant memory and a block's shared memory
constexpr int kOutputs = 1 << 20;

__constant__ uint32_t constant_table[kMostWords];

// Lookup k of thread i. kUniform: all lanes of a warp want the same word.
template <bool kUniform>
__host__ __device__ uint32_t wanted(uint32_t i, uint32_t k, uint32_t mask) {
  const uint32_t who = kUniform ? i / 32 : i;
  return (who * 2654435761u + k * 40503u + (who >> 7)) & mask;
}

struct Plain {
  const uint32_t* table;
  __device__ uint32_t operator()(uint32_t at) const { return table[at]; }
};
struct ReadOnly {
  const uint32_t* table;
  __device__ uint32_t operator()(uint32_t at) const { return __ldg(table + at); }
};
struct Constant {
  __device__ uint32_t operator()(uint32_t at) const { return constant_table[at]; }
};
struct Texture {
  cudaTextureObject_t texture;
  __device__ uint32_t operator()(uint32_t at) const {
    return tex1Dfetch<uint32_t>(texture, static_cast<int>(at));
  }
};

template <bool kUniform, class Table>
__device__ void sum_lookups(Table table, uint32_t* y, uint32_t mask) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  uint32_t sum = 0;
#pragma unroll 8
  for (uint32_t k = 0; k < kLookups; ++k) sum = sum * 3 + table(wanted<kUniform>(i, k, mask));
  y[i] = sum;
}

template <bool kUniform, class Table>
__global__ __launch_bounds__(kThreads) void look_up(Table table, uint32_t* y, uint32_t mask) {
  sum_lookups<kUniform>(table, y, mask);
}

template <bool kUniform>
__global__ __launch_bounds__(kThreads) void look_up_shared(
    const uint32_t* table, uint32_t* y, uint32_t mask) {
  extern __shared__ uint32_t copy[];
  for (uint32_t i = threadIdx.x; i <= mask; i += kThreads) copy[i] = table[i];
  __syncthreads();
  sum_lookups<kUniform>(Plain{copy}, y, mask);
}

template <bool kUniform>
struct LookupSum {
  const uint32_t* table;
  uint32_t mask;
  __device__ double operator()(int64_t i) const {
    uint32_t sum = 0;
    for (uint32_t k = 0; k < kLookups; ++k)
      sum = sum * 3 + table[wanted<kUniform>(static_cast<uint32_t>(i), k, mask)];
    return sum;
  }
};

cudaTextureObject_t make_texture(uint32_t* table, int64_t words) {
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = table;
  resource.res.linear.desc = cudaCreateChannelDesc<uint32_t>();
  resource.res.linear.sizeInBytes = static_cast<size_t>(words) * sizeof(uint32_t);
  cudaTextureDesc description{};
  description.readMode = cudaReadModeElementType;
  cudaTextureObject_t texture = 0;
  gpu::check(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
  return texture;
}

template <bool kUniform>
std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t words = setup.dim(0);  // a power of two
  const auto mask = static_cast<uint32_t>(words - 1);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto table = trial->input<uint32_t>(words);
  const auto y = trial->output<uint32_t>(kOutputs);
  trial->expect<LookupSum<kUniform>>(y, [=](const At& at) { return LookupSum<kUniform>{at[table], mask}; });
  trial->set_cost(
      {.bytes = 4.0 * kOutputs, .roof = Roof::kNone, .items = 1.0 * kOutputs * kLookups, .item = "lookup"});
  const auto texture = std::make_shared<cudaTextureObject_t>(0);
  trial->own(std::shared_ptr<void>(nullptr, [texture](void*) {
    if (*texture) cudaDestroyTextureObject(*texture);
  }));
  trial->after_fill([=](const At& at) {
    gpu::check(cudaMemcpyToSymbolAsync(constant_table, at[table],
        static_cast<size_t>(words) * sizeof(uint32_t), 0, cudaMemcpyDeviceToDevice, at.stream().handle()));
    if (!*texture) *texture = make_texture(at[table], words);
  });
  const gpu::LaunchConfig config{.kernel = "look_up", .grid = {kOutputs / kThreads}, .block = {kThreads}};
  trial->variant("plain", [=](const At& at) {
    gpu::launch(config, at.stream(), look_up<kUniform, Plain>, Plain{at[table]}, at[y], mask);
  });
  trial->variant("read-only", [=](const At& at) {
    gpu::launch(config, at.stream(), look_up<kUniform, ReadOnly>, ReadOnly{at[table]}, at[y], mask);
  });
  trial->variant("constant", [=](const At& at) {
    gpu::launch(config, at.stream(), look_up<kUniform, Constant>, Constant{}, at[y], mask);
  });
  trial->variant("texture", [=](const At& at) {
    gpu::launch(config, at.stream(), look_up<kUniform, Texture>, Texture{*texture}, at[y], mask);
  });
  trial->variant("shared", [=](const At& at) {
    gpu::launch({.kernel = "look_up_shared",
                    .grid = {kOutputs / kThreads},
                    .block = {kThreads},
                    .shared_bytes = words * static_cast<int64_t>(sizeof(uint32_t))},
        at.stream(), look_up_shared<kUniform>, at[table], at[y], mask);
  });
  return trial;
}

std::vector<Variant> variants() {
  return {{"plain", "an ordinary load; the output may alias the table"},
      {"read-only", "a load that promises no writes (__ldg)"},
      {"constant", "constant memory, made for one address a warp"}, {"texture", "a linear texture"},
      {"shared", "each block copies the table first"}};
}

const Registered kLookupScattered({
    .id = "ch07/lookup-scattered",
    .title = "Table lookups, every lane its own word",
    .question = "Does the read-only path beat plain loads for a small table, and which memory is best for "
                "scattered lookups?",
    .mechanism = "Since Volta plain loads are cached in L1 like read-only ones, so both should tie; shared "
                 "memory pays bank "
                 "conflicts instead of cache tags; constant memory serves one address at a time, so 32 "
                 "different ones take "
                 "32 turns.",
    .claim = {.text = "Declaring the table read-only takes load efficiency from 52 % to 97 % and the kernel "
                      "from 2.5 to 1.0 ms.",
        .variant = "read-only",
        .speedup = 2.5},
    .rotation = Rotation::kHot,
    .variants = variants(),
    .sizes = sizes_of({1024, 8192}),
    .make = make<false>,
});

const Registered kLookupUniform({
    .id = "ch07/lookup-uniform",
    .title = "Table lookups, one word per warp",
    .question = "When all lanes want the same word, is constant memory faster than the other caches?",
    .mechanism = "Constant memory broadcasts one word to 32 lanes, but through a cache of a few KB behind an "
                 "indexed load; "
                 "L1 and shared memory broadcast too, so they can be as good.",
    .claim = {.text = "A uniform constant read is a one-cycle broadcast; no figure is given.",
        .variant = "constant"},
    .rotation = Rotation::kHot,
    .variants = variants(),
    .sizes = sizes_of({256, 1024, 8192}),
    .make = make<true>,
});

}  // namespace
}  // namespace cheetah::lab
