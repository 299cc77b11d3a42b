// SPDX-License-Identifier: MIT
#pragma once
// Tiles of products on the tensor cores: 128 rows of x and 256 of W, 128 bytes of each at a time through a
// ring of shared memory, by two warpgroups of 64 rows. The kernels decide which tiles, and where they go.
#include "gpu/ptx.cuh"
#include "gpu/wgmma_fp8.cuh"
#include "kernels/cuda/pairs.cuh"
#include "kernels/gemm/cuda/hopper.h"
#include "kernels/gemm/cuda/hopper_epilogue.cuh"

namespace cheetah::gpu::tile {

inline constexpr int kTileM = 128, kThreads = 384;
inline constexpr int kXBytes = kTileM * 128;
inline constexpr int kOutBytes = 16384;  // 64 rows x 128 columns, one a warpgroup

template <wgmma::Input kIn, bool kIsGated, bool kHasBlockScales = false>
struct Tile {
  static constexpr wgmma::Input kInput = kIn;
  static constexpr int kCluster = 2;  // blocks that fetch W for each other
  static constexpr bool kIsFp8 = kIn == wgmma::Input::kE4m3, kGated = kIsGated,
                        kBlockScales = kHasBlockScales;
  static constexpr bool kScalesX = kIn != wgmma::Input::kBf16;
  static constexpr int kN = kBlockScales ? 128 : 256;              // rows of W
  static constexpr int kK = kIsFp8 ? 128 : 64;                     // 128 bytes of each
  static constexpr int kColumns = kGated ? kN / 2 : kN;            // outputs
  static constexpr int kStored = kColumns < 128 ? kColumns : 128;  // columns that leave at once
  static constexpr int kStages = kBlockScales ? 6 : 4;
  static constexpr int kWBytes = kN * 128, kStageBytes = kXBytes + kWBytes;
  static constexpr int kSmemBytes = kStages * kStageBytes + 2 * kOutBytes + 1024;
};

// What happens to the sums.
struct Ending {
  const float* bias = nullptr;
  const void* residual = nullptr;
  int64_t residual_stride = 0;
  int64_t m = 0, outputs = 0;       // rows and columns of y
  const float* x_scales = nullptr;  // FP8: [m]; F16: or none
  const float* w_scales = nullptr;  // FP8: [n], or [n / 128, k / 128] rounded up
};

inline Ending ending_of(const HopperGemmArgs& args) {
  return {.bias = args.bias,
      .residual = args.residual,
      .residual_stride = args.residual_stride,
      .m = args.m,
      .outputs = args.outputs(),
      .x_scales = args.x_scales,
      .w_scales = args.w_scales};
}

__device__ inline float2 times(float2 a, float2 b) { return make_float2(a.x * b.x, a.y * b.y); }
__device__ inline float2 plus(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }

// A number for each of the tile's rows of W, spread over every warp: a lane asks the memory for eight of them
// before the products, and the others for theirs when the sums are there.
template <class T>
struct PerOutput {
  static constexpr int kPairs = T::kN / 64;  // of neighbours, a lane
  float2 pairs[kPairs];

  // Columns 8 g and so on of the sums are rows of W from here on; gated, the second half's follow the
  // outputs.
  __device__ void fetch(const float* from, int64_t first_column, int64_t outputs, float other) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int group = i * 8 + lane / 4, in_half = T::kGated ? group % (T::kN / 16) : group;
      const int64_t column = first_column + in_half * 8 + lane % 4 * 2;
      const bool is_there = from && column < outputs;
      const int64_t row = T::kGated && group >= T::kN / 16 ? outputs + column : column;
      pairs[i] = is_there ? *reinterpret_cast<const float2*>(from + row) : make_float2(other, other);
    }
  }
  // For columns 8 group + 2 (lane % 4) and the next; by all lanes of a warp.
  __device__ float2 at(int group) const {
    const int from = group % 8 * 4 + static_cast<int>(threadIdx.x) % 4;
    return make_float2(
        __shfl_sync(~0u, pairs[group / 8].x, from), __shfl_sync(~0u, pairs[group / 8].y, from));
  }
};

// What the last arithmetic needs from memory, asked for before the products.
template <class T>
struct Early {
  PerOutput<T> w_scales, bias;
  float x_scales[2];
  bool has_bias;

  __device__ void fetch(const Ending& p, int64_t first_row, int64_t first_column) {
    has_bias = p.bias != nullptr;
    bias.fetch(p.bias, first_column, p.outputs, 0.f);
    if constexpr (T::kIsFp8 && !T::kBlockScales) w_scales.fetch(p.w_scales, first_column, p.outputs, 1.f);
    if constexpr (T::kScalesX) {
      const int64_t row = first_row + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
      for (int i = 0; i < 2; ++i)
        x_scales[i] = p.x_scales && row + i * 8 < p.m ? p.x_scales[row + i * 8] : 1.f;
    }
  }
  // Two neighbouring sums of a column group, of both of the thread's rows.
  __device__ void finish(float2 (&v)[2], int group) const {
    if constexpr (T::kScalesX) {
#pragma unroll
      for (int row = 0; row < 2; ++row) v[row] = times(v[row], make_float2(x_scales[row], x_scales[row]));
    }
    if constexpr (T::kIsFp8 && !T::kBlockScales) {
      const float2 scale = w_scales.at(group);
#pragma unroll
      for (int row = 0; row < 2; ++row) v[row] = times(v[row], scale);
    }
    if (!has_bias) return;
    const float2 added = bias.at(group);
#pragma unroll
    for (int row = 0; row < 2; ++row) v[row] = plus(v[row], added);
  }
};

// Eight columns of a fragment from value j on: two neighbouring ones of both of the thread's rows.
template <class T>
__device__ void finish(const float (&sums)[T::kN / 2], int j, const Early<T>& early, float2 (&v)[2]) {
#pragma unroll
  for (int row = 0; row < 2; ++row) v[row] = make_float2(sums[j + row * 2], sums[j + row * 2 + 1]);
  early.finish(v, j / 4);
  if constexpr (T::kGated) {
    constexpr int kUp = T::kN / 4;
    float2 up[2];
#pragma unroll
    for (int row = 0; row < 2; ++row)
      up[row] = make_float2(sums[j + kUp + row * 2], sums[j + kUp + row * 2 + 1]);
    early.finish(up, (j + kUp) / 4);
#pragma unroll
    for (int row = 0; row < 2; ++row)
      v[row] = make_float2(hopper::gated_silu(v[row].x, up[row].x), hopper::gated_silu(v[row].y, up[row].y));
  }
}

__device__ inline void group_sync(int group) {
  if (group == 0)
    asm volatile("bar.sync 1, 128;" ::: "memory");
  else
    asm volatile("bar.sync 2, 128;" ::: "memory");
}

template <class T>
struct Pipe {
  uint64_t full[T::kStages], empty[T::kStages];
};

// One warpgroup's way through the stages.
template <class T>
struct Multiplier {
  unsigned char* smem;
  Pipe<T>& pipe;
  int group;
  int it = 0;

  // All blocks' copies of a stage must be free before any is filled again.
  __device__ void release(int stage_index) const {
    const int in_group = threadIdx.x % 128;
    uint64_t* empty = &pipe.empty[stage_index % T::kStages];
    if (in_group >= T::kCluster) return;
    if constexpr (T::kCluster > 1)
      ptx::barrier_arrive_at(ptx::remote_address(empty, in_group));
    else
      ptx::barrier_arrive(empty);
  }
  __device__ uint64_t x_at() const {
    return wgmma::descriptor(ptx::shared_address(smem + it % T::kStages * T::kStageBytes + group * 64 * 128));
  }
  __device__ uint64_t w_at() const {
    return wgmma::descriptor(ptx::shared_address(smem + it % T::kStages * T::kStageBytes + kXBytes));
  }
  __device__ void wait() const { ptx::barrier_wait(&pipe.full[it % T::kStages], (it / T::kStages) & 1); }

  __device__ void add_up(float (&sums)[T::kN / 2], int k_blocks) {
    for (int k = 0; k < k_blocks; ++k, ++it) {
      wait();
      wgmma::fence();
      const uint64_t x = x_at(), w = w_at();
#pragma unroll
      for (int i = 0; i < 4; ++i) wgmma::Product<T::kInput, T::kN>::add(sums, x + i * 2, w + i * 2, k | i);
      wgmma::commit();
      wgmma::wait<1>();
      if (k > 0) release(it - 1);
    }
    wgmma::wait<0>();
    release(it - 1);
  }

  // first and second: the scales of the two halves of W's rows, along K.
  __device__ void add_up_scaled(
      float (&totals)[T::kN / 2], int k_blocks, const float* first, const float* second) {
    float sums[T::kN / 2];
#pragma unroll
    for (int i = 0; i < T::kN / 2; ++i) totals[i] = 0.f;
    for (int k = 0; k < k_blocks; ++k, ++it) {
      const float scale = __ldg(first + k), other = __ldg(second + k);
      wait();
      wgmma::fence();
      const uint64_t x = x_at(), w = w_at();
#pragma unroll
      for (int i = 0; i < 4; ++i) wgmma::Product<T::kInput, T::kN>::add(sums, x + i * 2, w + i * 2, i);
      wgmma::commit();
      wgmma::wait<0>();
      release(it);
#pragma unroll
      for (int i = 0; i < T::kN / 2; ++i) totals[i] += sums[i] * (i < T::kN / 4 ? scale : other);
    }
  }
};

// What a thread's outputs of a part are added to: asked for at once, for one wait.
template <class T>
__device__ void fetch_residual(
    const Ending& p, int64_t row, int64_t column, uint32_t (&to)[T::kStored / 16][4]) {
  const auto* from = static_cast<const uint16_t*>(p.residual) + row * p.residual_stride + column;
#pragma unroll
  for (int j = 0; j < T::kStored / 16; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int down = i % 2 * 8, right = j * 16 + i / 2 * 8;
      const bool is_there = row + down < p.m && column + right < p.outputs;
      to[j][i] = is_there ? *reinterpret_cast<const uint32_t*>(from + down * p.residual_stride + right) : 0u;
    }
}

// 16 x kStored outputs of each warp, from column first_column of y on, as 16-bit numbers in shared memory:
// boxes of 64 columns, swizzled.
template <class T, bool kAdds>
__device__ void stage_part(const Ending& p, const Early<T>& early, const float (&sums)[T::kN / 2], int part,
    int64_t first_row, int64_t first_column, unsigned char* staging) {
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  uint32_t residual[T::kStored / 16][4];
  if constexpr (kAdds)
    fetch_residual<T>(p, first_row + warp * 16 + lane / 4, first_column + lane % 4 * 2, residual);
#pragma unroll
  for (int j = 0; j < T::kStored / 16; ++j) {  // 16 columns at a time
    uint32_t packed[4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float2 v[2];
      finish<T>(sums, part * (T::kStored / 2) + j * 8 + half * 4, early, v);
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const int i = half * 2 + row;
        if constexpr (kAdds) v[row] = plus(v[row], unpack_pair<wgmma::Input::kBf16>(residual[j][i]));
        packed[i] = pack_pair<wgmma::Input::kBf16>(v[row].x, v[row].y);
      }
    }
    const int in_rows = warp * 16 + lane % 16, chunk = j * 2 + lane / 16;
    ptx::store_matrices(ptx::shared_address(staging) + (chunk / 8) * 8192 + in_rows * 128 +
                            (((chunk % 8) ^ (in_rows % 8)) << 4),
        packed[0], packed[1], packed[2], packed[3]);
  }
}
template <class T>
__device__ void stage_outputs(const Ending& p, const Early<T>& early, const float (&sums)[T::kN / 2],
    int part, int64_t first_row, int64_t first_column, unsigned char* staging) {
  if (p.residual)
    stage_part<T, true>(p, early, sums, part, first_row, first_column, staging);
  else
    stage_part<T, false>(p, early, sums, part, first_row, first_column, staging);
}

// What lies staged to its rows of y before p.m, 16 bytes per thread.
template <class T>
__device__ void store_staged(const Ending& p, uint16_t* y, int64_t y_stride, const unsigned char* staging,
    int64_t first_row, int64_t first_column) {
  constexpr int kChunks = T::kStored / 8;
  for (int i = threadIdx.x % 128; i < 64 * kChunks; i += 128) {
    const int row = i / kChunks, chunk = i % kChunks;
    const int64_t to_row = first_row + row, column = first_column + chunk * 8;
    if (to_row >= p.m || column >= p.outputs) continue;
    *reinterpret_cast<uint4*>(y + to_row * y_stride + column) = *reinterpret_cast<const uint4*>(
        staging + chunk / 8 * 8192 + row * 128 + (((chunk % 8) ^ (row % 8)) << 4));
  }
}

}  // namespace cheetah::gpu::tile
