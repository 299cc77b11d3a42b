// SPDX-License-Identifier: MIT
#include "kernels/decode_chain/decode_chain.h"

#include <algorithm>
#include <tuple>

#include "base/format.h"
#include "kernels/decode_chain/cuda/chain_ops.h"

namespace cheetah::gpu {

namespace {

constexpr int kWarps = chain::kConsumerWarps;

// Warps that share a row's inner dimension.
int ways_of(int64_t rows, bool gated) {
  constexpr int kMaxWays = 4;
  const auto groups = static_cast<int>(rows / 16);
  return gated || groups == 0 ? 1 : std::min(kMaxWays, kWarps / groups);
}

// How many of the warps have something to multiply.
int busy_warps(int64_t rows, bool gated) {
  return gated ? kWarps : static_cast<int>(rows / 16) * ways_of(rows, gated);
}

}  // namespace

// The tallest pile of rows any block gets decides. Of piles within a twentieth of the lowest, those that keep
// most warps busy: a wide head in tiles of 16 rows would leave half of them idle. Then the lowest, in few
// large tiles.
ChainTiling tile_product(int64_t outputs, bool gated, int num_multiprocessors) {
  const int64_t step = gated ? 8 : 16, most = gated ? 56 : 64,
                per_box = gated ? 2 : 1;  // boxes of outputs a tile
  const auto tiles_of = [&](int64_t rows) { return (outputs + rows * per_box - 1) / (rows * per_box); };
  const auto pile_of = [&](int64_t rows) {
    return (tiles_of(rows) + num_multiprocessors - 1) / num_multiprocessors * rows;
  };
  int64_t lowest = pile_of(step), best = step;
  for (int64_t rows = step; rows <= most; rows += step) lowest = std::min(lowest, pile_of(rows));
  const auto worth = [&](int64_t rows) {
    return std::tuple(pile_of(rows) * 20 <= lowest * 21, busy_warps(rows, gated), -pile_of(rows), rows);
  };
  for (int64_t rows = step; rows <= most; rows += step)  // four boxes of a gated tile fit a stage
    if (worth(rows) > worth(best)) best = rows;
  return {.box_rows = static_cast<int>(best),
      .boxes_per_tile = gated ? 4 : 1,
      .boxes_per_stage =
          gated ? 1 : std::min(chain::kMaxWBoxes, chain::kStageWeightBytes / (static_cast<int>(best) * 128)),
      .k_ways = ways_of(best, gated),
      .tiles = tiles_of(best)};
}

namespace {

std::string matrix_problem(
    const char* name, const ChainMatrix& matrix, int64_t rows, int64_t cols, DType dtype) {
  const WeightMatrix& w = matrix.w;
  if (w.data == nullptr) return format("{} is not one matrix", name);
  if (w.dtype != dtype) return format("{} is stored in another type than qkv", name);
  if (w.rows != rows || w.cols != cols) return format("{} has another shape", name);
  const int64_t box = dtype == DType::kF8E4M3 ? 128 : 64;
  if (w.cols % box != 0 || w.rows % 8 != 0) return format("{} is not whole boxes", name);
  return "";
}

std::string layer_problem(const ChainModel& model, const ChainLayer& layer) {
  const int64_t width = model.heads * model.head_dim, kv = model.kv_heads * model.head_dim;
  const DType dtype = model.layers.front().qkv.w.dtype;
  if (layer.attention_norm == nullptr || layer.mlp_norm == nullptr) return "a norm is missing";
  for (const std::string& problem : {matrix_problem("qkv", layer.qkv, width + 2 * kv, model.hidden, dtype),
           matrix_problem("o", layer.o, model.hidden, width, dtype),
           matrix_problem("gate_up", layer.gate_up, 2 * model.ffn, model.hidden, dtype),
           matrix_problem("down", layer.down, model.hidden, model.ffn, dtype)})
    if (!problem.empty()) return problem;
  return "";
}

}  // namespace

std::string why_no_chain(const ChainModel& model, const DeviceInfo& device) {
  if (!device.is_hopper()) return "the device is not a Hopper";
  if (model.layers.empty()) return "there are no layers";
  if (model.head_dim != 64 && model.head_dim != 128) return "heads are neither 64 nor 128 wide";
  if (model.kv_heads == 0 || model.heads % model.kv_heads != 0 || model.heads / model.kv_heads > 8)
    return "more than 8 heads share a key";
  const DType dtype = model.layers.front().qkv.w.dtype;
  if (dtype != DType::kBF16 && dtype != DType::kF16 && dtype != DType::kF8E4M3)
    return "the weights are neither BF16, F16 nor FP8";
  if (model.head.w.data) {
    std::string problem = matrix_problem("the head", model.head, model.head.w.rows, model.hidden, dtype);
    if (!problem.empty()) return problem;
  }
  for (const ChainLayer& layer : model.layers) {
    std::string problem = layer_problem(model, layer);
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace cheetah::gpu
