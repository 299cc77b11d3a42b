#include "kernels/decode_chain/decode_chain.h"

#include <algorithm>

#include "base/format.h"
#include "kernels/decode_chain/cuda/chain_ops.h"

namespace cheetah::gpu {

// The tallest pile of rows any block gets decides; of equal ones the one with fewer, larger tiles.
ChainTiling tile_product(int64_t outputs, bool gated, int num_multiprocessors) {
  const int64_t step = gated ? 8 : 16, per_box = gated ? 2 : 1;  // boxes of outputs a tile
  ChainTiling best;
  int64_t best_rows = 0;
  for (int64_t rows = step; rows <= (gated ? 56 : 64); rows += step) {  // four boxes fit a stage
    const int64_t tiles = (outputs + rows * per_box - 1) / (rows * per_box);
    const int64_t highest = (tiles + num_multiprocessors - 1) / num_multiprocessors * rows;
    if (best_rows != 0 && highest > best_rows) continue;
    best_rows = highest;
    best.box_rows = static_cast<int>(rows);
    best.tiles = tiles;
  }
  best.boxes_per_tile = gated ? 4 : 1;
  best.boxes_per_stage =
      gated ? 1 : std::min(chain::kMaxWBoxes, chain::kStageWeightBytes / (best.box_rows * 128));
  constexpr int kWarps = chain::kConsumerWarps, kMaxWays = 4;
  const int groups = best.box_rows / 16;
  best.k_ways = gated || groups == 0 ? 1 : kWarps / groups < kMaxWays ? kWarps / groups : kMaxWays;
  return best;
}

namespace {

std::string matrix_problem(const char* name, const ChainMatrix& matrix, int64_t rows, int64_t cols,
                           DType dtype) {
  const WeightMatrix& w = matrix.w;
  if (w.data == nullptr) return format("{} is not one matrix", name);
  if (w.dtype != dtype) return format("{} is stored in another type than qkv", name);
  if (w.rows != rows || w.cols != cols) return format("{} has another shape", name);
  const int64_t box = dtype == DType::kBF16 ? 64 : 128;
  if (w.cols % box != 0 || w.rows % 8 != 0) return format("{} is not whole boxes", name);
  return "";
}

std::string layer_problem(const ChainModel& model, const ChainLayer& layer) {
  const int64_t width = model.heads * model.head_dim, kv = model.kv_heads * model.head_dim;
  const DType dtype = model.layers.front().qkv.w.dtype;
  if (layer.attention_norm == nullptr || layer.mlp_norm == nullptr) return "a norm is missing";
  for (const std::string& problem :
       {matrix_problem("qkv", layer.qkv, width + 2 * kv, model.hidden, dtype),
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
  if (dtype != DType::kBF16 && dtype != DType::kF8E4M3) return "the weights are neither BF16 nor FP8";
  if (model.head.w.data) {
    const std::string problem =
        matrix_problem("the head", model.head, model.head.w.rows, model.hidden, dtype);
    if (!problem.empty()) return problem;
  }
  for (const ChainLayer& layer : model.layers) {
    const std::string problem = layer_problem(model, layer);
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace cheetah::gpu
