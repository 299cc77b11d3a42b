// SPDX-License-Identifier: MIT
// gpt_oss stores all experts in one tensor, gate and up taking turns: plain [experts, in, out], or MXFP4 as
// 16-byte blocks [experts, out, in / 32, 16] beside one exponent each [experts, out, in / 32].
#include "model/bind_weights.h"

namespace cheetah {
namespace {

struct Turns {
  int64_t rows;   // rows of the result
  int64_t first;  // the result's row r is stored as row first + r * step
  int64_t step;
};

WeightMatrix expert_of(const TensorView& all, int64_t expert, const Turns& turns, WeightLoader& loader) {
  const int64_t in = all.shape[1], out = all.shape[2];
  const TensorView one{.dtype = all.dtype, .shape = {in, out}, .data = all.row(expert * in)};
  return loader.transpose(one, turns.rows, turns.first, turns.step);
}

// The checkpoint pairs neighbours in a byte (element 2i low, 2i + 1 high); a block of DType::kMXFP4 pairs
// element i with i + 16 and stands behind its exponent. The values are the same.
void repack_block(const uint8_t* pairs, uint8_t exponent, uint8_t* block) {
  block[0] = exponent;
  const auto nibble = [&](int index) -> uint8_t { return (pairs[index / 2] >> (index % 2 * 4)) & 0xF; };
  for (int i = 0; i < 16; ++i)
    block[1 + i] = static_cast<uint8_t>(nibble(i) | static_cast<uint8_t>(nibble(i + 16) << 4));
}

struct Mxfp4 {
  const TensorView* blocks;  // [experts, out, in / 32, 16] u8
  const TensorView* scales;  // [experts, out, in / 32] u8
};

WeightMatrix repack_expert(const Mxfp4& stored, int64_t expert, const Turns& turns, WeightLoader& loader) {
  const int64_t out = stored.scales->shape[1], per_row = stored.scales->shape[2];
  const int64_t cols = per_row * 32, stride = row_bytes(DType::kMXFP4, cols);
  std::byte* data = loader.own(turns.rows * stride);
  loader.pool().parallel_for(turns.rows, 32, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t first_block = (expert * out + turns.first + r * turns.step) * per_row;
      const auto* pairs = reinterpret_cast<const uint8_t*>(stored.blocks->data) + first_block * 16;
      const auto* exponents = reinterpret_cast<const uint8_t*>(stored.scales->data) + first_block;
      auto* row = reinterpret_cast<uint8_t*>(data + r * stride);
      for (int64_t b = 0; b < per_row; ++b) repack_block(pairs + b * 16, exponents[b], row + b * 17);
    }
  });
  return loader.prepare({.dtype = DType::kMXFP4, .shape = {turns.rows, cols}, .data = data}, false);
}

struct Projection {
  std::string name;
  int64_t in;
  int64_t out;
};

// One matrix per expert and set of turns.
std::vector<std::vector<WeightMatrix>> bind_projection(
    WeightLoader& loader, const Projection& projection, int64_t experts, const std::vector<Turns>& parts) {
  std::vector<std::vector<WeightMatrix>> result(parts.size());
  const auto for_each = [&](auto&& make) {
    for (size_t p = 0; p < parts.size(); ++p)
      for (int64_t e = 0; e < experts; ++e) result[p].push_back(make(e, parts[p]));
  };
  const int64_t in = projection.in, out = projection.out;
  if (loader.has(projection.name + "_blocks")) {
    const Mxfp4 stored{.blocks = loader.take(projection.name + "_blocks", {experts, out, in / 32, 16}),
        .scales = loader.take(projection.name + "_scales", {experts, out, in / 32})};
    if (!stored.blocks || !stored.scales) return result;
    for_each([&](int64_t e, const Turns& turns) { return repack_expert(stored, e, turns, loader); });
  } else if (const TensorView* all = loader.take(projection.name, {experts, in, out})) {
    for_each([&](int64_t e, const Turns& turns) { return expert_of(*all, e, turns, loader); });
  }
  return result;
}

}  // namespace

void bind_gpt_oss_experts(
    WeightLoader& loader, const ModelTraits& traits, const std::string& root, MoeWeights& into) {
  const int64_t experts = traits.moe.experts, inner = traits.moe.expert_hidden, hidden = traits.hidden;
  const std::string gate_up = root + "experts.gate_up_proj", down = root + "experts.down_proj";
  auto both = bind_projection(loader, {gate_up, hidden, 2 * inner}, experts, {{inner, 0, 2}, {inner, 1, 2}});
  into.gate = std::move(both[0]);
  into.up = std::move(both[1]);
  into.down = std::move(bind_projection(loader, {down, inner, hidden}, experts, {{hidden, 0, 1}})[0]);

  const float* gate_up_bias = loader.vector(gate_up + "_bias", {experts, 2 * inner});
  const float* down_bias = loader.vector(down + "_bias", {experts, hidden});
  if (!gate_up_bias || !down_bias) return;
  auto* apart = reinterpret_cast<float*>(loader.own(experts * 2 * inner * 4));
  for (int64_t e = 0; e < experts; ++e) {
    float* gate = apart + e * 2 * inner;
    for (int64_t i = 0; i < inner; ++i) {
      gate[i] = gate_up_bias[e * 2 * inner + 2 * i];
      gate[inner + i] = gate_up_bias[e * 2 * inner + 2 * i + 1];
    }
    into.gate_bias.push_back(gate);
    into.up_bias.push_back(gate + inner);
    into.down_bias.push_back(down_bias + e * hidden);
  }
}

}  // namespace cheetah
