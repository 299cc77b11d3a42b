// SPDX-License-Identifier: MIT
// Tiles that several blocks need: each fetches its own copy, one fetches for all (multicast), or one keeps it
// and the others read it over the SM-to-SM network (distributed shared memory). And what launching in
// clusters costs by itself.
#include <algorithm>

#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/cuda/reduce.cuh"
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

// Eight readers want every tile: y[reader, tile, warp] = dot of the reader's weights and the warp's part of
// the tile.
constexpr int kReaders = 8, kTileFloats = 4096, kTileBytes = kTileFloats * 4, kStages = 4;
constexpr int kWarps = 8, kMathThreads = kWarps * 32, kPerThread = kTileFloats / kMathThreads;

struct Reading {
  const float* tiles;
  float* y;
  int num_tiles;
};

// Each thread keeps the weights of its part of the tile in registers: they are simple numbers of reader and
// place.
__device__ inline float weight_at(int reader, int i) {
  return static_cast<float>((i * 7 + reader * 13) % 17 - 8);
}

__device__ inline void load_weights(float (&weights)[kPerThread], int reader) {
#pragma unroll
  for (int i = 0; i < kPerThread; ++i)
    weights[i] = weight_at(reader, (i / 4 * kMathThreads + threadIdx.x) * 4 + i % 4);
}
template <class Load>
__device__ inline void finish_tile(
    const float (&weights)[kPerThread], const Reading& r, int reader, int tile, Load&& load) {
  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < kPerThread / 4; ++i) {
    const float4 v = load(i * kMathThreads + threadIdx.x);
    sum +=
        v.x * weights[i * 4] + v.y * weights[i * 4 + 1] + v.z * weights[i * 4 + 2] + v.w * weights[i * 4 + 3];
  }
  sum = gpu::warp_sum(sum);
  if (threadIdx.x % 32 == 0) r.y[(int64_t{reader} * r.num_tiles + tile) * kWarps + threadIdx.x / 32] = sum;
}

// Eight math warps and one copying. Blocks of a cluster each fetch a slice of the tile for all of them; a
// stage is free when the math warps of all have released it.
template <int kCluster>
__global__ __launch_bounds__(kMathThreads + 32) void read_multicast(const Reading r) {
  extern __shared__ __align__(128) unsigned char ring[];
  __shared__ uint64_t full[kStages], empty[kStages];
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      ptx::barrier_init(&full[i], 1);
      ptx::barrier_init(&empty[i], kCluster * kWarps);
    }
    ptx::fence_barrier_init();
  }
  ptx::cluster_arrive();
  ptx::cluster_wait();
  const int reader = blockIdx.x % kReaders, first = blockIdx.x / kReaders, stride = gridDim.x / kReaders;
  if (threadIdx.x >= kMathThreads) {
    const int rank = static_cast<int>(ptx::cluster_rank());
    constexpr int kSlice = kTileBytes / kCluster;
    for (int tile = first, it = 0; threadIdx.x == kMathThreads && tile < r.num_tiles; tile += stride, ++it) {
      const int stage = it % kStages;
      ptx::barrier_wait(&empty[stage], ((it / kStages) & 1) ^ 1);
      ptx::barrier_expect_bytes(&full[stage], kTileBytes);
      const auto* from =
          reinterpret_cast<const unsigned char*>(r.tiles) + int64_t{tile} * kTileBytes + rank * kSlice;
      unsigned char* to = ring + stage * kTileBytes + rank * kSlice;
      if constexpr (kCluster == 1)
        ptx::copy_bytes(to, from, kSlice, &full[stage]);
      else
        ptx::copy_bytes_to_cluster(to, from, kSlice, &full[stage], (1 << kCluster) - 1);
    }
  } else {
    float weights[kPerThread];
    load_weights(weights, reader);
    for (int tile = first, it = 0; tile < r.num_tiles; tile += stride, ++it) {
      const int stage = it % kStages, lane = threadIdx.x % 32;
      ptx::barrier_wait(&full[stage], (it / kStages) & 1);
      const auto* at = reinterpret_cast<const float4*>(ring + stage * kTileBytes);
      finish_tile(weights, r, reader, tile, [&](int i) { return at[i]; });
      __syncwarp();
      if (lane < kCluster) ptx::barrier_arrive_at(ptx::remote_address(&empty[stage], lane));
    }
  }
  ptx::cluster_arrive();  // copies and arrivals of the others may still be on their way here
  ptx::cluster_wait();
}

// Block 0 of the cluster holds the tile; the others read it there. One cluster barrier a tile publishes it
// and tells that the one before has been read.
template <int kCluster>
__global__ __launch_bounds__(kMathThreads) void read_remote(const Reading r) {
  extern __shared__ __align__(128) unsigned char ring[];
  __shared__ uint64_t full[2];
  const int rank = static_cast<int>(ptx::cluster_rank());
  if (threadIdx.x == 0) {
    for (uint64_t& barrier : full) ptx::barrier_init(&barrier, 1);
    ptx::fence_barrier_init();
  }
  __syncthreads();
  const int reader = blockIdx.x % kReaders, first = blockIdx.x / kReaders, stride = gridDim.x / kReaders;
  const auto fetch = [&](int tile, int it) {
    if (rank != 0 || threadIdx.x != 0 || tile >= r.num_tiles) return;
    ptx::barrier_expect_bytes(&full[it % 2], kTileBytes);
    ptx::copy_bytes(
        ring + it % 2 * kTileBytes, r.tiles + int64_t{tile} * kTileFloats, kTileBytes, &full[it % 2]);
  };
  float weights[kPerThread];
  load_weights(weights, reader);
  fetch(first, 0);
  for (int tile = first, it = 0; tile < r.num_tiles; tile += stride, ++it) {
    if (rank == 0) ptx::barrier_wait(&full[it % 2], (it / 2) & 1);
    ptx::cluster_arrive();
    ptx::cluster_wait();
    fetch(tile + stride, it + 1);
    const uint32_t at = ptx::remote_address(ring + it % 2 * kTileBytes, 0);
    finish_tile(weights, r, reader, tile, [&](int i) { return ptx::load_remote_float4(at + i * 16); });
  }
  ptx::cluster_arrive();
  ptx::cluster_wait();
}

std::unique_ptr<Trial> make_shared_tiles(const Setup& setup) {
  const int64_t tiles = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("tiles", tiles * kTileFloats);
  const auto y = trial->output<float>("y", kReaders * tiles * kWarps);
  trial->set_cost({.flops = 2.0 * kReaders * tiles * kTileFloats,
      .bytes = 1.0 * tiles * kTileBytes,
      .roof = Roof::kDramRead});
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < host[x].size(); ++i) {
      const size_t tile = i / kTileFloats, in = i % kTileFloats, warp = in / 4 % kMathThreads / 32;
      for (int reader = 0; reader < kReaders; ++reader)
        host[y][(static_cast<size_t>(reader) * static_cast<size_t>(tiles) + tile) * kWarps + warp] +=
            host[x][i] * static_cast<float>((static_cast<int>(in) * 7 + reader * 13) % 17 - 8);
    }
  });
  const auto add = [&](const char* name, auto kernel, int cluster, int threads, int stages) {
    trial->variant(name, [=](const Launch& at) {
      gpu::launch({.kernel = name,
                      .grid = {at.stream().device().num_sms / kReaders * kReaders},
                      .block = {threads},
                      .shared_bytes = stages * kTileBytes,
                      .cluster = {cluster}},
          at.stream(), kernel, Reading{at[x], at[y], static_cast<int>(tiles)});
    });
  };
  add("each-its-own", read_multicast<1>, 1, kMathThreads + 32, kStages);
  add("multicast-2", read_multicast<2>, 2, kMathThreads + 32, kStages);
  add("multicast-4", read_multicast<4>, 4, kMathThreads + 32, kStages);
  add("multicast-8", read_multicast<8>, 8, kMathThreads + 32, kStages);
  add("remote-4", read_remote<4>, 4, kMathThreads, 2);
  return trial;
}

const Registered kSharedTiles({
    .id = "ch10/cluster-multicast",
    .title = "Eight blocks that need the same tile",
    .question = "How much is saved when a cluster fetches a shared tile once?",
    .mechanism = "Separate fetches come out of L2 eight times for each time out of memory; a multicast of c "
                 "blocks divides that "
                 "by c. Reading a neighbour's shared memory avoids the fetch too, but every byte crosses the "
                 "SM-to-SM network "
                 "and every tile costs a cluster barrier.",
    .claim = {.text =
                  "A pair of blocks that shares a tile loads it once instead of twice: time 1.0 becomes 0.6.",
        .variant = "multicast-2",
        .speedup = 1.67},
    .min_compute = 90,
    .variants = {{.name = "each-its-own", .idea = "no cluster: every block copies every tile"},
        {.name = "multicast-2", .idea = "pairs: each block copies half a tile to both"},
        {.name = "multicast-4", .idea = "fours: a quarter to all four"},
        {.name = "multicast-8", .idea = "eights: an eighth to all eight"},
        {.name = "remote-4", .idea = "one of four copies; the others load from its shared memory"}},
    .sizes = {{.label = "512 tiles", .dims = {512}}, {.label = "8192 tiles", .dims = {8192}}},
    .quick = {{.label = "512 tiles", .dims = {512}}},
    .tolerance = {.relative = 1e-4, .absolute = 2e-3},
    .make = make_shared_tiles,
});

// The launch itself: the same copy kernel in clusters of growing size.
__global__ __launch_bounds__(256) void copy_in_clusters(const float4* x, float4* y, int64_t n4) {
  const int64_t i = int64_t{blockIdx.x} * 256 + threadIdx.x;
  if (i < n4) y[i] = x[i];
}

std::unique_ptr<Trial> make_cluster_size(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n);
  const auto y = trial->output<float>("y", n);
  trial->set_cost({.bytes = 8.0 * n});
  trial->reference(
      [=](const HostArrays& host) { std::copy(host[x].begin(), host[x].end(), host[y].begin()); });
  gpu::check(cudaFuncSetAttribute(copy_in_clusters, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  const auto add = [&](const char* name, int cluster) {
    trial->variant(name, [=](const Launch& at) {
      gpu::launch({.kernel = name, .grid = {n / 4 / 256}, .block = {256}, .cluster = {cluster}}, at.stream(),
          copy_in_clusters, reinterpret_cast<const float4*>(at[x]), reinterpret_cast<float4*>(at[y]), n / 4);
    });
  };
  add("cluster-1", 1);
  add("cluster-2", 2);
  add("cluster-4", 4);
  add("cluster-8", 8);
  add("cluster-16", 16);
  return trial;
}

const Registered kClusterSize({
    .id = "ch10/cluster-size",
    .title = "The price of launching in clusters",
    .question = "Does asking for clusters slow a kernel that does not use them?",
    .mechanism = "A cluster starts when all its blocks fit on one GPC at once, so large clusters wait longer "
                 "for room and leave "
                 "SMs idle where a GPC's count is not a multiple.",
    .claim = {.text = "Start with clusters of 2 or 4; 16 is not portable and may lower occupancy."},
    .min_compute = 90,
    .variants = {{.name = "cluster-1", .idea = "no clusters"}, {.name = "cluster-2", .idea = "pairs"},
        {.name = "cluster-4", .idea = "fours"}, {.name = "cluster-8", .idea = "eights, the portable limit"},
        {.name = "cluster-16", .idea = "sixteens, with the non-portable attribute"}},
    .sizes = sizes_of({1 << 18, 1 << 22, 1 << 26}),
    .quick = sizes_of({1 << 18}),
    .make = make_cluster_size,
});

}  // namespace
}  // namespace cheetah::lab
