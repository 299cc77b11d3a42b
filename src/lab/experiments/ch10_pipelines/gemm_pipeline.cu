// SPDX-License-Identifier: MIT
// The chapter's ladder on tensor cores: one buffer, two, four, warps with roles, and blocks that share a
// tile.
#include "lab/experiments/ch10_pipelines/bf16_product.cuh"

namespace cheetah::lab {
namespace {

using namespace bf16_product;

// Everyone multiplies; thread 0 also asks for the tile kStages steps ahead once everyone has used the buffer.
template <int kStages>
__global__ __launch_bounds__(256) void uniform(const __grid_constant__ gpu::TensorMap a_map,
    const __grid_constant__ gpu::TensorMap b_map, __nv_bfloat16* c, const Shape s) {
  extern __shared__ unsigned char raw[];
  unsigned char* smem = ptx::align_shared(raw, 1024);
  __shared__ uint64_t full[kStages];
  if (threadIdx.x == 0) {
    for (uint64_t& barrier : full) ptx::barrier_init(&barrier, 1);
    ptx::fence_barrier_init();
  }
  __syncthreads();
  const int row = blockIdx.y * kTile, column = blockIdx.x * kTile, steps = s.k / kStep;
  const auto fetch = [&](int step) {
    uint64_t* barrier = &full[step % kStages];
    unsigned char* to = smem + step % kStages * kStageBytes;
    ptx::barrier_expect_bytes(barrier, kStageBytes);
    ptx::copy_box_2d(to, &a_map, step * kStep, row, barrier, ptx::kEvictLast);
    ptx::copy_box_2d(to + kOperandBytes, &b_map, step * kStep, column, barrier, ptx::kEvictLast);
  };
  if (threadIdx.x == 0)
    for (int step = 0; step < kStages && step < steps; ++step) fetch(step);
  const int group = threadIdx.x / 128;
  float sums[64];
  for (int step = 0; step < steps; ++step) {
    ptx::barrier_wait(&full[step % kStages], (step / kStages) & 1);
    wgmma::fence();
    multiply_step(sums, smem + step % kStages * kStageBytes, group * 64, step);
    wgmma::commit();
    wgmma::wait<0>();
    __syncthreads();
    if (threadIdx.x == 0 && step + kStages < steps) fetch(step + kStages);
  }
  store_sums(sums, c, s.n, row + group * 64, column);
}

// A warpgroup of which one thread copies, two that multiply. With kCluster 2, the two blocks of a cluster
// compute the same columns: each fetches half of B's tile for both.
constexpr int kRoleStages = 4;

template <int kCluster>
__global__ __launch_bounds__(384, 1) void roles(const __grid_constant__ gpu::TensorMap a_map,
    const __grid_constant__ gpu::TensorMap b_map, __nv_bfloat16* c, const Shape s) {
  extern __shared__ unsigned char raw[];
  unsigned char* smem = ptx::align_shared(raw, 1024);
  __shared__ uint64_t full[kRoleStages], empty[kRoleStages];
  const int rank = kCluster > 1 ? static_cast<int>(ptx::cluster_rank()) : 0;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kRoleStages; ++i) {
      ptx::barrier_init(&full[i], 1);
      ptx::barrier_init(&empty[i], 2 * kCluster);
    }
    ptx::fence_barrier_init();
  }
  if constexpr (kCluster > 1) {
    ptx::cluster_arrive();
    ptx::cluster_wait();
  } else {
    __syncthreads();
  }
  const int row = blockIdx.y * kTile, column = blockIdx.x * kTile, steps = s.k / kStep;
  if (threadIdx.x < 128) {
    ptx::give_registers<40>();
    for (int step = 0; threadIdx.x == 0 && step < steps; ++step) {
      const int stage = step % kRoleStages;
      unsigned char* to = smem + stage * kStageBytes;
      ptx::barrier_wait(&empty[stage], ((step / kRoleStages) & 1) ^ 1);
      ptx::barrier_expect_bytes(&full[stage], kStageBytes);
      ptx::copy_box_2d(to, &a_map, step * kStep, row, &full[stage], ptx::kEvictLast);
      if constexpr (kCluster == 1)
        ptx::copy_box_2d(to + kOperandBytes, &b_map, step * kStep, column, &full[stage], ptx::kEvictLast);
      else
        ptx::copy_box_2d_to_cluster(to + kOperandBytes + rank * (kOperandBytes / 2), &b_map, step * kStep,
            column + rank * (kTile / 2), &full[stage], 3);
    }
  } else {
    ptx::take_registers<232>();
    const int group = threadIdx.x / 128 - 1, in_group = threadIdx.x % 128;
    const auto release = [&](int step) {
      if (in_group >= kCluster) return;
      if constexpr (kCluster == 1)
        ptx::barrier_arrive(&empty[step % kRoleStages]);
      else
        ptx::barrier_arrive_at(ptx::remote_address(&empty[step % kRoleStages], in_group));
    };
    float sums[64];
    for (int step = 0; step < steps; ++step) {
      ptx::barrier_wait(&full[step % kRoleStages], (step / kRoleStages) & 1);
      wgmma::fence();
      multiply_step(sums, smem + step % kRoleStages * kStageBytes, group * 64, step);
      wgmma::commit();
      wgmma::wait<1>();  // the products before these are done: their buffer is free
      if (step > 0) release(step - 1);
    }
    wgmma::wait<0>();
    release(steps - 1);
    store_sums(sums, c, s.n, row + group * 64, column);
  }
  if constexpr (kCluster > 1) {  // the partner may still write here
    ptx::cluster_arrive();
    ptx::cluster_wait();
  }
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int n = static_cast<int>(setup.dim(0));
  const Shape s{n, n, n};
  auto trial = std::make_unique<ArrayTrial>(setup);
  const Arrays arrays = declare(*trial, s);
  const auto add = [&](const char* name, auto kernel, int stages, int threads, int cluster) {
    trial->variant(name, [=](const Launch& at) {
      gpu::launch({.kernel = name,
                      .grid = {n / kTile, n / kTile},
                      .block = {threads},
                      .shared_bytes = stages * kStageBytes + 1024,
                      .cluster = {1, cluster}},
          at.stream(), kernel, map_of(at[arrays.a], n, n, kTile), map_of(at[arrays.b], n, n, kTile / cluster),
          at[arrays.c], s);
    });
  };
  add("one-buffer", uniform<1>, 1, 256, 1);
  add("two-stages", uniform<2>, 2, 256, 1);
  add("four-stages", uniform<4>, 4, 256, 1);
  add("warp-roles", roles<1>, kRoleStages, 384, 1);
  add("roles-cluster", roles<2>, kRoleStages, 384, 2);
  return trial;
}

const Registered kPipeline({
    .id = "ch10/gemm-pipeline",
    .title = "A tiled product: buffers, warp roles, clusters",
    .question =
        "What does each step from a single buffer to a warp-specialised cluster bring on tensor cores?",
    .mechanism = "One buffer leaves the tensor cores idle for a memory round trip a step (other blocks of "
                 "the SM fill in some); "
                 "more stages hide it; roles remove the block-wide barrier and keep the next products "
                 "queued; a cluster of two "
                 "fetches B once for both.",
    .claim = {.text = "41.3 ms naive, 20.5 ms double-buffered, 18.4 ms warp-specialised, 17.2 ms with "
                      "clusters; sizes and GPU "
                      "are not stated.",
        .variant = "two-stages",
        .speedup = 2.01},
    .min_compute = 90,
    .variants = {{.name = "one-buffer", .idea = "copy, wait, multiply, wait"},
        {.name = "two-stages", .idea = "the next tile is copied during this one's products"},
        {.name = "four-stages", .idea = "three tiles in flight"},
        {.name = "warp-roles", .idea = "a copying warp and two multiplying warpgroups, four stages"},
        {.name = "roles-cluster", .idea = "and pairs of blocks fetch B's tile once, by multicast"}},
    .sizes = sizes_of({1024, 4096}),
    .quick = sizes_of({1024}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
