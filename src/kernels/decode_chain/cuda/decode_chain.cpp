// SPDX-License-Identifier: MIT
// The list of operations of a model's decode step, and the buffers between them.
#include "kernels/decode_chain/decode_chain.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "kernels/decode_chain/cuda/chain.h"

namespace cheetah::gpu {

namespace {

constexpr int64_t kRows = DecodeChain::kMaxRows;
using chain::kRowBoxes;

// As [columns / 64, rows, 64]: a copy moves `blocks` of 64 columns, one behind the other.
TensorMap row_map(const Bf16* rows, int64_t width, int box_rows, int blocks) {
  return make_tensor_map(rows, {.element = TensorElement::kBF16,
                                   .rank = 3,
                                   .dims = {64, kRows, width / 64},
                                   .strides = {width * 2, 128},
                                   .box = {64, box_rows, blocks}});
}

// … and 128 bytes of `box_rows` rows of W.
TensorMap weight_map(const WeightMatrix& w, int box_rows, int blocks) {
  const bool fp8 = w.dtype == DType::kF8E4M3;
  const int64_t columns = fp8 ? 128 : 64;
  return make_tensor_map(w.data, {.element = fp8 ? TensorElement::kU8 : TensorElement::kBF16,
                                     .rank = 3,
                                     .dims = {columns, w.rows, w.cols / columns},
                                     .strides = {w.cols * (fp8 ? 1 : 2), 128},
                                     .box = {static_cast<int>(columns), box_rows, blocks}});
}

// F16 has less room than BF16 at both ends; rows in F16 are kept in the middle of it.
constexpr float kGainedScale = 1.f / 64, kActScale = 1.f / 16;

uint16_t* bits(Bf16* pointer) { return reinterpret_cast<uint16_t*>(pointer); }

}  // namespace

struct DecodeChain::State {
  ChainModel model;
  DeviceMemory& memory;
  Stream& stream;
  std::vector<DeviceBuffer> buffers;
  Bf16 *x, *gained, *act, *attended, *qkv;
  float *square_sums, *partial, *statistics;
  unsigned *shares_done, *arrivals;
  TensorMap* maps = nullptr;  // on the device: the layers' weights, then rows of each width and shape
  std::array<chain::Op*, kRowBoxes.size()> device_ops{};
  std::array<std::vector<chain::Op>, kRowBoxes.size()> ops;
  std::vector<const std::byte*> cache;
  DType cache_type = DType::kBF16;

  State(const ChainModel& m, DeviceMemory& device_memory, Stream& s)
      : model(m), memory(device_memory), stream(s) {}

  template <class T>
  T* allocate(int64_t count) {
    buffers.push_back(
        memory.allocate(ArenaKind::kWorkspace, count * static_cast<int64_t>(sizeof(T)), stream));
    fill_bytes(buffers.back().data(), 0, buffers.back().size(), stream);
    return buffers.back().as<T>();
  }
  void allocate_rows();
  void make_maps();
  void make_ops(size_t shape);
  chain::Op product(const ChainMatrix& matrix, bool gated, int64_t map, int64_t rows_map, size_t shape) const;
  ChainTiling tiling_of(const WeightMatrix& w, bool gated) const {
    return tile_product(gated ? w.rows / 2 : w.rows, gated, stream.device().num_sms);
  }
  int pairs_of(int64_t rows) const;
  bool has_head() const { return model.head.w.data != nullptr; }
  int64_t first_row_map() const { return std::ssize(model.layers) * 4 + 1; }
  DType weights() const { return model.layers.front().qkv.w.dtype; }
  bool is_fp8() const { return weights() == DType::kF8E4M3; }
  bool has_f16_rows() const { return weights() != DType::kBF16; }
  // Without a head nobody reads what the last product prepares.
  const float* final_gain() const {
    return has_head() ? model.final_norm : model.layers.back().attention_norm;
  }
  float gained_scale() const { return has_f16_rows() ? kGainedScale : 1.f; }
  float act_scale() const { return has_f16_rows() ? kActScale : 1.f; }
};

void DecodeChain::State::allocate_rows() {
  const int64_t width = model.heads * model.head_dim, shares = kRows * model.kv_heads * chain::kMaxPairs;
  x = allocate<Bf16>(kRows * model.hidden);
  gained = allocate<Bf16>(kRows * model.hidden);
  act = allocate<Bf16>(kRows * model.ffn);
  attended = allocate<Bf16>(kRows * width);
  qkv = allocate<Bf16>(kRows * (width + 2 * model.kv_heads * model.head_dim));
  fill_bytes(qkv, 0xFF, buffers.back().size(), stream);  // chain::kUnwritten
  square_sums = allocate<float>(kRows * chain::kSumPitch);
  partial = allocate<float>(shares * model.heads / model.kv_heads * model.head_dim);
  statistics = allocate<float>(shares * model.heads / model.kv_heads * 2);
  shares_done = allocate<unsigned>(kRows * model.kv_heads);
  arrivals = allocate<unsigned>(64);
}

// Order: qkv, o, gate_up, down of every layer and the head, or anything; then for each shape the rows they
// take.
void DecodeChain::State::make_maps() {
  const auto weights = [&](const WeightMatrix& w, bool gated) {
    const ChainTiling tiling = tiling_of(w, gated);
    return weight_map(w, gated ? 2 * tiling.box_rows : tiling.box_rows, tiling.boxes_per_stage);
  };
  std::vector<TensorMap> host;
  for (const ChainLayer& layer : model.layers) {
    host.push_back(weights(layer.qkv.w, false));
    host.push_back(weights(layer.o.w, false));
    host.push_back(weights(layer.gate_up.w, true));
    host.push_back(weights(layer.down.w, false));
  }
  host.push_back(has_head() ? weights(model.head.w, false) : host.back());
  const ChainLayer& layer = model.layers.front();
  const int64_t width = model.heads * model.head_dim;
  for (const int box_rows : kRowBoxes) {
    const auto rows = [&](const Bf16* from, int64_t columns, const WeightMatrix& w, bool gated) {
      return row_map(from, columns, box_rows, tiling_of(w, gated).boxes_per_stage * (is_fp8() ? 2 : 1));
    };
    host.push_back(rows(gained, model.hidden, layer.qkv.w, false));
    host.push_back(rows(attended, width, layer.o.w, false));
    host.push_back(rows(gained, model.hidden, layer.gate_up.w, true));
    host.push_back(rows(act, model.ffn, layer.down.w, false));
    host.push_back(has_head() ? rows(gained, model.hidden, model.head.w, false) : host.back());
  }
  maps = allocate<TensorMap>(std::ssize(host));
  copy_to_device(maps, host.data(), std::ssize(host) * static_cast<int64_t>(sizeof(TensorMap)), stream);
  stream.wait();  // `host` goes away
}

chain::Op DecodeChain::State::product(
    const ChainMatrix& matrix, bool gated, int64_t map, int64_t rows_map, size_t shape) const {
  const int64_t outputs = gated ? matrix.w.rows / 2 : matrix.w.rows;
  const ChainTiling tiling = tiling_of(matrix.w, gated);
  chain::Op op;
  op.kind = chain::Kind::kProduct;
  op.w = maps + map;
  op.x = maps + first_row_map() + static_cast<int64_t>(shape) * 5 + rows_map;
  op.tiles = static_cast<int>(tiling.tiles);
  op.k_boxes = static_cast<int>(matrix.w.cols / (matrix.w.dtype == DType::kF8E4M3 ? 128 : 64));
  op.outputs = static_cast<int>(outputs);
  op.up_row = gated ? static_cast<int>(outputs) : 0;
  op.box_rows = tiling.box_rows;
  op.boxes_per_stage = tiling.boxes_per_stage;
  op.k_ways = tiling.k_ways;
  op.row_scales = matrix.row_scales;
  return op;
}

void DecodeChain::State::make_ops(size_t shape) {
  std::vector<chain::Op>& list = ops[shape];
  chain::Op first;
  first.kind = chain::Kind::kPrepare;
  first.y_scale = gained_scale();
  first.gain = model.layers.front().attention_norm;
  first.gained = bits(gained);
  first.square_sums_out = square_sums;
  list.push_back(first);
  int num_sums = 1;
  // What ends in the residual stream, and prepares the norm after it.
  const auto into_x = [&](chain::Op op, const float* next_gain) {
    op.y_scale = gained_scale();
    op.residual = bits(x);
    op.y = bits(x);
    op.gain = next_gain;
    op.gained = bits(gained);
    op.square_sums_out = square_sums;
    num_sums = op.tiles;
    list.push_back(op);
  };
  const auto from_norm = [&](chain::Op op, Bf16* y) {
    op.x_scale = 1 / gained_scale();
    op.square_sums = square_sums;
    op.num_square_sums = num_sums;
    op.y = bits(y);
    list.push_back(op);
  };
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const ChainLayer& layer = model.layers[i];
    const auto map = static_cast<int64_t>(i) * 4;
    chain::Op qkv_op = product(layer.qkv, false, map, 0, shape);
    qkv_op.bias = layer.qkv_bias;
    qkv_op.window = static_cast<int>(layer.window);
    from_norm(qkv_op, qkv);
    chain::Op attend;
    attend.kind = chain::Kind::kAttend;
    attend.q_norm = layer.q_norm;
    attend.k_norm = layer.k_norm;
    attend.window = static_cast<int>(layer.window);
    list.push_back(attend);
    chain::Op o = product(layer.o, false, map + 1, 1, shape);
    o.follows_attention = true;
    into_x(o, layer.mlp_norm);
    chain::Op gate_up = product(layer.gate_up, true, map + 2, 2, shape);
    gate_up.y_scale = act_scale();
    gate_up.qkv_tiles = qkv_op.tiles;
    gate_up.qkv_rows = qkv_op.box_rows;
    from_norm(gate_up, act);
    const bool last = i + 1 == model.layers.size();
    chain::Op down = product(layer.down, false, map + 3, 3, shape);
    down.x_scale = 1 / act_scale();
    into_x(down, last ? final_gain() : model.layers[i + 1].attention_norm);
  }
  if (has_head()) {
    chain::Op head = product(model.head, false, std::ssize(model.layers) * 4, 4, shape);
    head.makes_logits = true;
    from_norm(head, nullptr);
  }
  device_ops[shape] = allocate<chain::Op>(std::ssize(list));
}

// Enough to keep every block busy.
int DecodeChain::State::pairs_of(int64_t rows) const {
  return static_cast<int>(
      std::clamp<int64_t>(stream.device().num_sms / 2 / (rows * model.kv_heads), 1, chain::kMaxPairs));
}

DecodeChain::DecodeChain(const ChainModel& model, DeviceMemory& memory, Stream& stream)
    : state_(std::make_unique<State>(model, memory, stream)) {
  const std::string problem = why_no_chain(model, stream.device());
  CHEETAH_ASSERT(problem.empty(), "a model the chain takes");
  state_->allocate_rows();
  state_->make_maps();
  for (size_t shape = 0; shape < kRowBoxes.size(); ++shape) state_->make_ops(shape);
}
DecodeChain::~DecodeChain() = default;

void DecodeChain::use_cache(std::span<const PagedKv> layers) {
  CHEETAH_ASSERT(layers.size() == state_->model.layers.size(), "a cache a layer");
  std::vector<const std::byte*> pointers;
  for (const PagedKv& kv : layers) {
    CHEETAH_ASSERT(
        chain_takes_cache(kv.dtype) && kv.dtype == layers.front().dtype, "a cache the chain takes");
    pointers.push_back(kv.keys);
    pointers.push_back(kv.values);
  }
  if (pointers == state_->cache && state_->cache_type == layers.front().dtype) return;
  state_->cache = pointers;
  state_->cache_type = layers.front().dtype;
  for (size_t shape = 0; shape < kRowBoxes.size(); ++shape) {
    size_t layer = 0;
    std::vector<chain::Op>& ops = state_->ops[shape];
    for (size_t i = 1; i < ops.size(); ++i) {
      if (ops[i].kind != chain::Kind::kAttend) continue;
      ops[i - 1].keys = ops[i].keys = layers[layer].keys;
      ops[i - 1].values = ops[i].values = layers[layer++].values;
    }
    copy_to_device(state_->device_ops[shape], state_->ops[shape].data(),
        std::ssize(state_->ops[shape]) * static_cast<int64_t>(sizeof(chain::Op)), state_->stream);
  }
}

Bf16* DecodeChain::x() const { return state_->x; }

void DecodeChain::run(const AttentionBatch& batch, int64_t page_tokens, float* logits) {
  State& s = *state_;
  CHEETAH_ASSERT(batch.rows > 0 && batch.rows <= kMaxRows && !s.cache.empty(), "a step the chain takes");
  CHEETAH_ASSERT(logits != nullptr || !s.has_head(), "room for the logits");
  const auto shape = static_cast<size_t>(std::ranges::lower_bound(kRowBoxes, batch.rows) - kRowBoxes.begin());
  chain::launch_chain({.ops = s.device_ops[shape],
                          .num_ops = static_cast<int>(s.ops[shape].size()),
                          .rows = static_cast<int>(batch.rows),
                          .hidden = static_cast<int>(s.model.hidden),
                          .norm_eps = s.model.norm_eps,
                          .heads = static_cast<int>(s.model.heads),
                          .kv_heads = static_cast<int>(s.model.kv_heads),
                          .head_dim = static_cast<int>(s.model.head_dim),
                          .pairs = s.pairs_of(batch.rows),
                          .attention_scale = s.model.attention_scale,
                          .sequences = batch.sequences,
                          .pages = batch.pages,
                          .positions = batch.positions,
                          .page_tokens = static_cast<int>(page_tokens),
                          .inv_freq = s.model.inv_freq,
                          .rope_magnitude = s.model.rope_magnitude,
                          .x = bits(s.x),
                          .qkv = bits(s.qkv),
                          .attended = bits(s.attended),
                          .logits = logits,
                          .partial = s.partial,
                          .statistics = s.statistics,
                          .shares_done = s.shares_done,
                          .arrivals = s.arrivals,
                          .arrivals_before = s.arrivals + 32},
      {.weights = s.weights(), .cache = s.cache_type, .head_dim = static_cast<int>(s.model.head_dim)},
      s.stream);
}

}  // namespace cheetah::gpu
