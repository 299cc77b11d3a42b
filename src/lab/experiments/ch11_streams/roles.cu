// SPDX-License-Identifier: MIT
// Streams inside a kernel: warps that load, add and store, one queue or two between them; and results that
// many blocks add to the same place, by atomics or by the copy engine.
#include <algorithm>

#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

// c = a + b in tiles of 2048 numbers.
constexpr int kTile = 2048, kTileBytes = kTile * 4, kStages = 3, kAdders = 128;

// The barriers are static and count as well: with them two buffers pass the 48 KiB that need no asking for.
constexpr int kBarrierBytes = 4 * kStages * 8;

struct Adding {
  const float *a, *b;
  float* c;
  int tiles;
};

__global__ __launch_bounds__(256) void add_plain(const float4* a, const float4* b, float4* c, int64_t n4) {
  const int64_t i = int64_t{blockIdx.x} * 256 + threadIdx.x;
  if (i >= n4) return;
  const float4 x = a[i], y = b[i];
  c[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}

__device__ inline float4 sum_at(const unsigned char* stage, int i) {
  const float4 x = reinterpret_cast<const float4*>(stage)[i];
  const float4 y = reinterpret_cast<const float4*>(stage + kTileBytes)[i];
  return make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}

// One warp loads; four add and either store themselves or pass the tile on to a warp that stores. Every
// hand-over is a ring of full and empty barriers counted for exactly the threads that arrive.
template <bool kStorer>
__global__ __launch_bounds__(kAdders + 64) void add_by_roles(const Adding p) {
  extern __shared__ __align__(128) unsigned char smem[];
  unsigned char* sums = smem + kStages * 2 * kTileBytes;
  __shared__ uint64_t full[kStages], empty[kStages], summed[kStages], stored[kStages];
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      ptx::barrier_init(&full[i], 1);
      ptx::barrier_init(&empty[i], kAdders);
      ptx::barrier_init(&summed[i], kAdders);
      ptx::barrier_init(&stored[i], 1);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  const int role = threadIdx.x < kAdders         ? 0
                   : threadIdx.x == kAdders      ? 1
                   : threadIdx.x == kAdders + 32 ? 2
                                                 : 3;
  for (int tile = blockIdx.x, it = 0; tile < p.tiles; tile += gridDim.x, ++it) {
    const int stage = it % kStages;
    const uint32_t phase = (it / kStages) & 1;
    unsigned char *operands = smem + stage * 2 * kTileBytes, *result = sums + stage * kTileBytes;
    const int64_t at = int64_t{tile} * kTile;
    if (role == 1) {
      ptx::barrier_wait(&empty[stage], phase ^ 1);
      ptx::barrier_expect_bytes(&full[stage], 2 * kTileBytes);
      ptx::copy_bytes(operands, p.a + at, kTileBytes, &full[stage]);
      ptx::copy_bytes(operands + kTileBytes, p.b + at, kTileBytes, &full[stage]);
    } else if (role == 0) {
      ptx::barrier_wait(&full[stage], phase);
      if constexpr (kStorer) ptx::barrier_wait(&stored[stage], phase ^ 1);
#pragma unroll
      for (int i = 0; i < kTile / 4 / kAdders; ++i) {
        const int in = i * kAdders + threadIdx.x;
        const float4 v = sum_at(operands, in);
        if constexpr (kStorer)
          reinterpret_cast<float4*>(result)[in] = v;
        else
          reinterpret_cast<float4*>(p.c + at)[in] = v;
      }
      ptx::barrier_arrive(&empty[stage]);
      if constexpr (kStorer) {
        ptx::fence_async_shared();
        ptx::barrier_arrive(&summed[stage]);
      }
    } else if (role == 2 && kStorer) {
      ptx::barrier_wait(&summed[stage], phase);
      ptx::store_bytes(p.c + at, result, kTileBytes);
      ptx::commit_stores();
      ptx::wait_stores_read();
      ptx::barrier_arrive(&stored[stage]);
    }
  }
  if (role == 2) ptx::wait_stores();
}

std::unique_ptr<Trial> make_roles(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto a = trial->input<float>("a", n);
  const auto b = trial->input<float>("b", n);
  const auto c = trial->output<float>("c", n);
  trial->set_cost({.flops = 1.0 * n, .bytes = 12.0 * n});
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < host[c].size(); ++i) host[c][i] = host[a][i] + host[b][i];
  });
  trial->variant("plain", [=](const Launch& at) {
    gpu::launch({.kernel = "add_plain", .grid = {(n / 4 + 255) / 256}, .block = {256}}, at.stream(),
        add_plain, reinterpret_cast<const float4*>(at[a]), reinterpret_cast<const float4*>(at[b]),
        reinterpret_cast<float4*>(at[c]), n / 4);
  });
  const auto add = [&](const char* name, auto kernel, int buffers) {
    trial->variant(name, [=](const Launch& at) {
      gpu::launch({.kernel = name,
                      .grid = {std::min<int64_t>(n / kTile, int64_t{at.stream().device().num_sms} * 3)},
                      .block = {kAdders + 64},
                      .shared_bytes = kStages * buffers * kTileBytes + kBarrierBytes},
          at.stream(), kernel, Adding{at[a], at[b], at[c], static_cast<int>(n / kTile)});
    });
  };
  add("loader-adders", add_by_roles<false>, 2);
  add("loader-adders-storer", add_by_roles<true>, 3);
  return trial;
}

const Registered kRoles({
    .id = "ch11/two-pipelines",
    .title = "Loader, adders and storer",
    .question = "Do warps with roles and two queues between them beat a plain vectorised sum?",
    .mechanism = "The sum is bound by memory. A plain kernel with full occupancy keeps as many bytes in "
                 "flight as three stages of bulk "
                 "copies; roles pay where arithmetic would otherwise hold loads up, which is not so here.",
    .claim = {.text = "Two pipelines let load, compute and store of different tiles overlap; where memory is "
                      "saturated it brings a few "
                      "percent."},
    .min_compute = 90,
    .variants = {{.name = "plain", .idea = "16-byte loads and stores, a thread four numbers"},
        {.name = "loader-adders", .idea = "one warp loads by bulk copies, four add and store"},
        {.name = "loader-adders-storer", .idea = "and another warp stores by bulk copies"}},
    .sizes = sizes_of({1 << 20, 1 << 24, 1 << 26}),
    .quick = sizes_of({1 << 20}),
    .make = make_roles,
});

// Every block adds a vector of 4096 numbers to one of kRows rows: y[row] = sum over the blocks of that row.
constexpr int kVector = 4096, kRows = 64, kThreads = 256;

enum class Way { kScalar, kVector4, kBulk };

template <Way kWay>
__global__ __launch_bounds__(kThreads) void accumulate(const float* x, float* y) {
  const float* from = x + int64_t{blockIdx.x} * kVector;
  float* to = y + blockIdx.x % kRows * kVector;
  if constexpr (kWay == Way::kBulk) {
    __shared__ __align__(128) float staged[kVector];
    for (int i = threadIdx.x * 4; i < kVector; i += kThreads * 4)
      *reinterpret_cast<float4*>(staged + i) = *reinterpret_cast<const float4*>(from + i);
    ptx::fence_async_shared();
    __syncthreads();
    if (threadIdx.x != 0) return;
    ptx::add_floats(to, staged, kVector * 4);
    ptx::commit_stores();
    ptx::wait_stores();
  } else if constexpr (kWay == Way::kVector4) {
    for (int i = threadIdx.x * 4; i < kVector; i += kThreads * 4)
      atomicAdd(reinterpret_cast<float4*>(to + i), *reinterpret_cast<const float4*>(from + i));
  } else {
    for (int i = threadIdx.x; i < kVector; i += kThreads) atomicAdd(to + i, from[i]);
  }
}

std::unique_ptr<Trial> make_accumulate(const Setup& setup) {
  const int64_t blocks = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input_from<float>("x", blocks * kVector, [](std::span<float> to, uint64_t seed) {
    for (size_t i = 0; i < to.size(); ++i)
      to[i] = static_cast<float>(static_cast<int>(uniform_at(seed, i) * 17) - 8);
  });
  const auto y = trial->output<float>("y", int64_t{kRows} * kVector);
  trial->set_cost(
      {.flops = 1.0 * blocks * kVector, .bytes = 4.0 * blocks * kVector, .roof = Roof::kDramRead});
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < host[x].size(); ++i)
      host[y][i / kVector % kRows * kVector + i % kVector] +=
          host[x][i];  // whole numbers: exact in any order
  });
  const auto add = [&](const char* name, auto kernel) {
    trial->variant(name, [=](const Launch& at) {
      gpu::fill_bytes(at[y], 0, int64_t{kRows} * kVector * 4, at.stream());
      gpu::launch({.kernel = name, .grid = {blocks}, .block = {kThreads}}, at.stream(), kernel, at[x], at[y]);
    });
  };
  add("atomics", accumulate<Way::kScalar>);
  add("vector-atomics", accumulate<Way::kVector4>);
  add("bulk-reduce", accumulate<Way::kBulk>);
  return trial;
}

const Registered kAccumulate({
    .id = "ch11/bulk-reduce",
    .title = "Many blocks add vectors to the same rows",
    .question = "Does the copy engine's reduction beat atomics?",
    .mechanism = "All of them add in L2; what differs is how many requests carry the numbers there: one a "
                 "number, one for four, or one "
                 "bulk operation per block that needs no registers.",
    .claim = {.text = "Bulk copies that reduce fuse small reductions and lower register pressure; no number "
                      "is given."},
    .min_compute = 90,
    .variants = {{.name = "atomics", .idea = "atomicAdd a number"},
        {.name = "vector-atomics", .idea = "atomicAdd of float4"},
        {.name = "bulk-reduce", .idea = "cp.reduce.async.bulk of 16 KiB from shared memory"}},
    .sizes = {{.label = "256 blocks", .dims = {256}}, {.label = "8192 blocks", .dims = {8192}}},
    .quick = {{.label = "256 blocks", .dims = {256}}},
    .make = make_accumulate,
});

}  // namespace
}  // namespace cheetah::lab
