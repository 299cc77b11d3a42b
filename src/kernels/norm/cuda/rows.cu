// SPDX-License-Identifier: MIT
// y = (x - mean) * rsqrt(var + eps) * (w + offset) + bias, and without the mean for RMSNorm. A block keeps a
// row in registers, 16 bytes a thread and load, and fetches its next row while it sums up this one; the
// weights stay in registers from row to row.
// bytes  each row read and written once    bound  memory
#include <algorithm>

#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/norm/cuda/rows.h"

namespace cheetah::gpu {
namespace {

// w + offset of this thread's columns; ones without a weight.
template <class Tile>
__device__ void load_weights(const float* weight, float offset, int cols, Row<Tile>& to) {
#pragma unroll
  for (int p = 0; p < Tile::kPieces; ++p) {
    float* numbers = to.numbers + p * Tile::kEach;
    if (weight && column<Tile>(p) < cols) {
      load_floats(weight + column<Tile>(p), numbers, Tile::kEach);
#pragma unroll
      for (int i = 0; i < Tile::kEach; ++i) numbers[i] += offset;
    } else {
#pragma unroll
      for (int i = 0; i < Tile::kEach; ++i) numbers[i] = 1.f;
    }
  }
}

// Turns the row into (x - mean) / deviation.
template <class Tile>
__device__ void standardize(Row<Tile>& row, int cols, bool centered, float eps, float* scratch) {
  float mean = 0.f, sum = 0.f;
  if (centered) {
#pragma unroll
    for (const float number : row.numbers) sum += number;  // columns that are not there are zero
    mean = block_sum<Tile::kThreads>(sum, scratch) / static_cast<float>(cols);
    sum = 0.f;
  }
#pragma unroll
  for (int p = 0; p < Tile::kPieces; ++p) {
    if (column<Tile>(p) >= cols) continue;
#pragma unroll
    for (int i = 0; i < Tile::kEach; ++i) {
      float& number = row.numbers[p * Tile::kEach + i];
      number -= mean;
      sum += number * number;
    }
  }
  const float inverse = 1.f / sqrtf(block_sum<Tile::kThreads>(sum, scratch) / static_cast<float>(cols) + eps);
#pragma unroll
  for (float& number : row.numbers) number *= inverse;
}

template <class Tile>
__device__ void apply(Row<Tile>& row, const Row<Tile>& weights, const float* bias, int cols) {
#pragma unroll
  for (int p = 0; p < Tile::kPieces; ++p)
#pragma unroll
    for (int i = 0; i < Tile::kEach; ++i) {
      float& number = row.numbers[p * Tile::kEach + i];
      number *= weights.numbers[p * Tile::kEach + i];
      if (bias && column<Tile>(p) < cols) number += bias[column<Tile>(p) + i];
    }
}

template <class Tile, bool kCentered>
__global__ __launch_bounds__(Tile::kThreads, Tile::kBlocksPerMultiprocessor) void norm_kept_rows(
    const NormArgs<typename Tile::Number> args) {
  __shared__ float scratch[Tile::kThreads / kWarpSize];
  ptx::launch_dependents();
  const auto cols = static_cast<int>(args.cols);
  Row<Tile> weights;
  load_weights<Tile>(args.weight, args.weight_offset, cols, weights);
  ptx::wait_for_dependencies();
  const int64_t items = args.rows * args.parts;
  const auto part_of = [&](int64_t item) { return item % args.parts * args.part_stride; };
  const auto x_of = [&](int64_t item) { return args.x + item / args.parts * args.x_stride + part_of(item); };
  uint4 raw[Tile::kPieces];
  fetch<Tile>(x_of(blockIdx.x), cols, raw);
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    Row<Tile> row;
    widen_row<Tile>(raw, row);
    if (item + gridDim.x < items) fetch<Tile>(x_of(item + gridDim.x), cols, raw);
    standardize<Tile>(row, cols, kCentered, args.eps, scratch);
    apply<Tile>(row, weights, args.bias, cols);
    store<Tile>(row, args.y + item / args.parts * args.y_stride + part_of(item), cols);
  }
}

template <class Tile>
__global__ __launch_bounds__(Tile::kThreads) void add_and_norm_kept_rows(
    const AddAndNormArgs<typename Tile::Number> args) {
  __shared__ float scratch[Tile::kThreads / kWarpSize];
  ptx::launch_dependents();
  const auto cols = static_cast<int>(args.cols);
  Row<Tile> branch, x, weights;
  ptx::wait_for_dependencies();
  uint4 raw_branch[Tile::kPieces], raw_x[Tile::kPieces];
  fetch<Tile>(args.branch + blockIdx.x * args.cols, cols, raw_branch);
  fetch<Tile>(args.x + blockIdx.x * args.cols, cols, raw_x);
  widen_row<Tile>(raw_branch, branch);
  if (args.post_norm) {
    load_weights<Tile>(args.branch_weight, args.weight_offset, cols, weights);
    standardize<Tile>(branch, cols, args.centered, args.eps, scratch);
    apply<Tile>(branch, weights, args.branch_bias, cols);
  }
  widen_row<Tile>(raw_x, x);
#pragma unroll
  for (int i = 0; i < Tile::kPieces * Tile::kEach; ++i)  // rounded: what is normalized is what is kept
    x.numbers[i] = widen(narrow<typename Tile::Number>(x.numbers[i] + args.scale * branch.numbers[i]));
  store<Tile>(x, args.x + blockIdx.x * args.cols, cols);
  if (!args.y) return;
  load_weights<Tile>(args.weight, args.weight_offset, cols, weights);
  standardize<Tile>(x, cols, args.centered, args.eps, scratch);
  apply<Tile>(x, weights, args.bias, cols);
  store<Tile>(x, args.y + blockIdx.x * args.cols, cols);
}

bool whole_floats(const float* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

template <class Tile, bool kCentered>
void launch_norm(const NormArgs<typename Tile::Number>& args, Stream& stream) {
  const int64_t items = args.rows * args.parts;
  launch({.kernel = kCentered ? "layer_norm" : "rms_norm",
             .grid = {std::min(items, resident_blocks<Tile>(stream.device()))},
             .block = {Tile::kThreads},
             .overlaps_previous = true,
             .numbers = {args.rows, args.parts, args.cols}},
      stream, norm_kept_rows<Tile, kCentered>, args);
}

}  // namespace

template <class T>
bool norm_rows_fits(const NormArgs<T>& args) {
  return args.cols > 0 && args.cols <= kMaxRowCols<T> && args.cols % kPieceNumbers<T> == 0 &&
         in_pieces(args.x, args.x_stride) && in_pieces(args.y, args.y_stride) &&
         args.part_stride % kPieceNumbers<T> == 0 && whole_floats(args.weight);
}

template <class T>
void norm_rows(const NormArgs<T>& args, bool centered, Stream& stream) {
  with_tile<T>(args.cols, [&](auto tile) {
    if (centered)
      launch_norm<decltype(tile), true>(args, stream);
    else
      launch_norm<decltype(tile), false>(args, stream);
  });
}

template <class T>
bool add_and_norm_rows_fits(const AddAndNormArgs<T>& args) {
  return args.cols > 0 && args.cols <= kMaxRowCols<T> && in_pieces(args.branch, args.cols) &&
         in_pieces(args.x, args.cols) && in_pieces(args.y, args.cols) && whole_floats(args.weight) &&
         whole_floats(args.branch_weight);
}

template <class T>
void add_and_norm_rows(const AddAndNormArgs<T>& args, Stream& stream) {
  with_tile<T>(args.cols, [&](auto tile) {
    using Tile = decltype(tile);
    launch({.kernel = "add_and_norm",
               .grid = {args.rows},
               .block = {Tile::kThreads},
               .overlaps_previous = true,
               .numbers = {args.rows, args.cols, args.post_norm}},
        stream, add_and_norm_kept_rows<Tile>, args);
  });
}

#define CHEETAH_INSTANTIATE(T)                                    \
  template bool norm_rows_fits(const NormArgs<T>&);               \
  template void norm_rows(const NormArgs<T>&, bool, Stream&);     \
  template bool add_and_norm_rows_fits(const AddAndNormArgs<T>&); \
  template void add_and_norm_rows(const AddAndNormArgs<T>&, Stream&)
CHEETAH_INSTANTIATE(float);
CHEETAH_INSTANTIATE(Bf16);
#undef CHEETAH_INSTANTIATE

}  // namespace cheetah::gpu
