// SPDX-License-Identifier: MIT
// A step of the chain against the same layers in plain loops, sums in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cuda/device_case.h"
#include "kernels/decode_chain/decode_chain.h"
#include "kernels/decode_chain/host_matrix.h"

namespace cheetah::gpu {
namespace {

struct Shape {
  int64_t hidden = 512, ffn = 1024, heads = 8, kv_heads = 2, head_dim = 64;
  std::vector<int64_t> contexts = {1};
  int64_t layers = 2, page_tokens = 16, window = 0;
  DType dtype = DType::kBF16, cache = DType::kBF16;
  bool bias = false, head_norms = false;
  int64_t vocab = 0;  // 0: no head
};

std::vector<float> to_floats(const std::vector<Bf16>& numbers) {
  std::vector<float> out;
  for (const Bf16 v : numbers) out.push_back(to_float(v));
  return out;
}

class ChainCase {
 public:
  explicit ChainCase(const Shape& shape) : s_(shape), rows_(std::ssize(shape.contexts)) {
    place_pages();
    for (int64_t i = 0; i < s_.layers; ++i) add_layer(static_cast<uint64_t>(i) * 100);
    for (int64_t i = 0; i < s_.head_dim / 2; ++i)
      inv_freq_.push_back(std::pow(10000.f, -2.f * static_cast<float>(i) / static_cast<float>(s_.head_dim)));
    x_ = normal_numbers(rows_ * s_.hidden, 5, 1.f);
    head_ = HostMatrix(s_.vocab, s_.hidden, s_.dtype, 77);
    final_norm_ = normal_numbers(s_.hidden, 78, 1.f);
    for (float& v : x_) v = bf16_to_f32(f32_to_bf16(v));
  }

  void check(int repeats) {
    DecodeChain chain(device_model(), device_.memory(), device_.stream());
    std::vector<PagedKv> caches;
    for (Layer& layer : layers_)
      caches.push_back({.dtype = s_.cache,
          .keys = device_.upload(layer.keys),
          .values = device_.upload(layer.values),
          .page_tokens = s_.page_tokens,
          .kv_heads = s_.kv_heads,
          .key_dim = s_.head_dim,
          .value_dim = s_.head_dim});
    chain.use_cache(caches);
    float* logits = s_.vocab > 0 ? device_.poisoned<float>(rows_ * s_.vocab) : nullptr;
    Rows expected(x_.begin(), x_.end());
    for (Layer& layer : layers_) run_layer(layer, expected);
    const auto numbers = numbers_as<Bf16>(x_);
    for (int i = 0; i < repeats; ++i) {  // the same step again: its keys and values are simply written anew
      copy_to_device(chain.x(), numbers.data(), std::ssize(numbers) * 2, device_.stream());
      chain.run(batch(), s_.page_tokens, logits);
      const std::vector<float> actual = to_floats(device_.download(chain.x(), rows_ * s_.hidden));
      for (size_t at = 0; at < actual.size(); ++at)
        ASSERT_NEAR(actual[at], expected[at], tolerance() * (1 + std::abs(expected[at])))
            << "repeat " << i << ", row " << at / static_cast<size_t>(s_.hidden) << ", number "
            << at % static_cast<size_t>(s_.hidden);
    }
    for (size_t i = 0; i < layers_.size(); ++i) check_cache(layers_[i], caches[i]);
    if (s_.vocab == 0) return;
    const Rows expected_logits = head_(normed(expected, final_norm_));
    const std::vector<float> actual = device_.take(logits, rows_ * s_.vocab);
    for (size_t at = 0; at < actual.size(); ++at)
      ASSERT_NEAR(actual[at], expected_logits[at], tolerance() * (1 + std::abs(expected_logits[at])))
          << "logit " << at;
  }

 private:
  struct Layer {
    HostMatrix qkv, o, gate_up, down;
    std::vector<float> attention_norm, mlp_norm, bias, q_norm, k_norm;
    // Rows of [pages, kv_heads, page_tokens]; NaN where nothing is.
    std::vector<std::byte> keys = {}, values = {};
  };

  void place_pages() {
    int32_t next = 3;
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t context = s_.contexts[static_cast<size_t>(row)];
      sequences_.push_back({.context_tokens = static_cast<int32_t>(context),
          .query_begin = static_cast<int32_t>(row),
          .query_count = 1,
          .first_page = static_cast<int32_t>(pages_.size())});
      positions_.push_back(static_cast<int32_t>(context) - 1);
      for (int64_t at = 0; at < context; at += s_.page_tokens) {
        pages_.push_back(next);
        next = (next * 7 + 5) % 1021;  // scattered, without repeats for as many as tests use
      }
    }
    num_pages_ = 1024;
  }
  int64_t cache_at(int64_t row, int64_t token, int64_t head) const {
    const auto& sequence = sequences_[static_cast<size_t>(row)];
    const int64_t page = pages_[static_cast<size_t>(sequence.first_page + token / s_.page_tokens)];
    return (page * s_.kv_heads + head) * s_.page_tokens + token % s_.page_tokens;
  }
  double tolerance() const { return has_fp8_cache() ? 0.05 : 0.03; }
  bool has_fp8_cache() const { return s_.cache == DType::kF8E4M3; }
  int64_t cache_row_bytes() const { return has_fp8_cache() ? s_.head_dim + 4 : s_.head_dim * 2; }
  void put_row(std::vector<std::byte>& cache, int64_t at, const Rows& numbers) const {
    std::byte* row = cache.data() + at * cache_row_bytes();
    if (!has_fp8_cache()) {
      for (size_t d = 0; d < numbers.size(); ++d) {
        const uint16_t bits = f32_to_bf16(static_cast<float>(numbers[d]));
        std::memcpy(row + d * 2, &bits, 2);
      }
      return;
    }
    double largest = 0;
    for (const double v : numbers) largest = std::max(largest, std::abs(v));
    const auto scale = static_cast<float>(largest / 448);
    for (size_t d = 0; d < numbers.size(); ++d)
      row[d] = static_cast<std::byte>(largest > 0 ? fp8_code(numbers[d] * 448 / largest) : 0);
    std::memcpy(row + numbers.size(), &scale, 4);
  }
  Rows take_row(const std::vector<std::byte>& cache, int64_t at) const {
    const std::byte* row = cache.data() + at * cache_row_bytes();
    Rows numbers(static_cast<size_t>(s_.head_dim));
    float scale = 1;
    if (has_fp8_cache()) std::memcpy(&scale, row + numbers.size(), 4);
    for (size_t d = 0; d < numbers.size(); ++d) {
      uint16_t bits = 0;
      if (!has_fp8_cache()) std::memcpy(&bits, row + d * 2, 2);
      numbers[d] = has_fp8_cache() ? fp8_value(static_cast<int>(row[d])) * scale : bf16_to_f32(bits);
    }
    return numbers;
  }

  void add_layer(uint64_t seed) {
    const int64_t width = s_.heads * s_.head_dim, qkv_rows = width + 2 * s_.kv_heads * s_.head_dim;
    const auto gains = [&](int64_t count, uint64_t which) {
      std::vector<float> v = normal_numbers(count, seed + which, 0.2f);
      for (float& g : v) g += 1.f;
      return v;
    };
    Layer layer{.qkv = {qkv_rows, s_.hidden, s_.dtype, seed + 1},
        .o = {s_.hidden, width, s_.dtype, seed + 2},
        .gate_up = {2 * s_.ffn, s_.hidden, s_.dtype, seed + 3},
        .down = {s_.hidden, s_.ffn, s_.dtype, seed + 4},
        .attention_norm = gains(s_.hidden, 5),
        .mlp_norm = gains(s_.hidden, 6),
        .bias = s_.bias ? normal_numbers(qkv_rows, seed + 7, 0.5f) : std::vector<float>{},
        .q_norm = s_.head_norms ? gains(s_.head_dim, 8) : std::vector<float>{},
        .k_norm = s_.head_norms ? gains(s_.head_dim, 9) : std::vector<float>{}};
    const auto bytes = static_cast<size_t>(num_pages_ * s_.kv_heads * s_.page_tokens * cache_row_bytes());
    layer.keys.assign(bytes, std::byte{0xFF});
    layer.values.assign(bytes, std::byte{0xFF});
    uint64_t draw = seed + 10;
    for (int64_t row = 0; row < rows_; ++row)
      for (int64_t token = 0; token + 1 < s_.contexts[static_cast<size_t>(row)]; ++token)
        for (int64_t head = 0; head < s_.kv_heads; ++head) {
          const auto numbers = normal_numbers(2 * s_.head_dim, ++draw, 1.f);
          const int64_t at = cache_at(row, token, head);
          put_row(layer.keys, at, Rows(numbers.begin(), numbers.begin() + s_.head_dim));
          put_row(layer.values, at, Rows(numbers.begin() + s_.head_dim, numbers.end()));
        }
    layers_.push_back(std::move(layer));
  }

  Rows normed(const Rows& x, const std::vector<float>& gain) const {
    const auto width = gain.size();
    Rows y(x.size());
    for (size_t row = 0; row < x.size() / width; ++row) {
      double squares = 0;
      for (size_t i = 0; i < width; ++i) squares += x[row * width + i] * x[row * width + i];
      const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + kEps);
      for (size_t i = 0; i < width; ++i) y[row * width + i] = x[row * width + i] * scale * gain[i];
    }
    return y;
  }
  Rows head_of(const Rows& qkv, int64_t row, int64_t head, const std::vector<float>& gain, bool turns) const {
    const int64_t width = (s_.heads + 2 * s_.kv_heads) * s_.head_dim, half = s_.head_dim / 2;
    const auto begin = qkv.begin() + row * width + head * s_.head_dim;
    Rows v(begin, begin + s_.head_dim);
    if (!gain.empty()) v = normed(v, gain);
    if (!turns) return v;
    Rows turned(v.size());
    for (int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<float>(positions_[static_cast<size_t>(row)]) * inv_freq_[static_cast<size_t>(i)];
      const double a = v[static_cast<size_t>(i)], b = v[static_cast<size_t>(i + half)];
      turned[static_cast<size_t>(i)] = bf16(a * std::cos(angle) - b * std::sin(angle));
      turned[static_cast<size_t>(i + half)] = bf16(b * std::cos(angle) + a * std::sin(angle));
    }
    return turned;
  }

  Rows attended(Layer& layer, const Rows& qkv) {
    const auto dim = static_cast<size_t>(s_.head_dim);
    Rows out(static_cast<size_t>(rows_ * s_.heads) * dim);
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t context = s_.contexts[static_cast<size_t>(row)];
      for (int64_t head = 0; head < s_.kv_heads; ++head) {
        const int64_t at = cache_at(row, context - 1, head);
        put_row(layer.keys, at, head_of(qkv, row, s_.heads + head, layer.k_norm, true));
        put_row(layer.values, at, head_of(qkv, row, s_.heads + s_.kv_heads + head, {}, false));
      }
      for (int64_t head = 0; head < s_.heads; ++head) attend_head(layer, qkv, row, head, out);
    }
    round_all(out);
    return out;
  }
  void attend_head(const Layer& layer, const Rows& qkv, int64_t row, int64_t head, Rows& out) const {
    const auto dim = static_cast<size_t>(s_.head_dim);
    const int64_t context = s_.contexts[static_cast<size_t>(row)];
    const int64_t first = s_.window > 0 ? std::max<int64_t>(0, context - s_.window) : 0;
    const Rows q = head_of(qkv, row, head, layer.q_norm, true);
    Rows sums(dim);
    double total = 0, top = -1e30;
    Rows scores;
    for (int64_t token = first; token < context; ++token) {
      const Rows key = take_row(layer.keys, cache_at(row, token, head / (s_.heads / s_.kv_heads)));
      double score = 0;
      for (size_t d = 0; d < dim; ++d) score += q[d] * key[d];
      scores.push_back(score / std::sqrt(static_cast<double>(dim)));
      top = std::max(top, scores.back());
    }
    for (int64_t token = first; token < context; ++token) {
      const Rows value = take_row(layer.values, cache_at(row, token, head / (s_.heads / s_.kv_heads)));
      const double weight = std::exp(scores[static_cast<size_t>(token - first)] - top);
      total += weight;
      for (size_t d = 0; d < dim; ++d) sums[d] += weight * value[d];
    }
    for (size_t d = 0; d < dim; ++d)
      out[static_cast<size_t>(row * s_.heads + head) * dim + d] = sums[d] / total;
  }

  void run_layer(Layer& layer, Rows& x) {
    Rows qkv = layer.qkv(normed(x, layer.attention_norm));
    for (size_t i = 0; i < qkv.size() && s_.bias; ++i) qkv[i] += layer.bias[i % layer.bias.size()];
    round_all(qkv);
    const auto add_rounded = [&](const Rows& branch) {
      for (size_t i = 0; i < x.size(); ++i) x[i] = bf16(x[i] + branch[i]);
    };
    add_rounded(layer.o(attended(layer, qkv)));
    const Rows both = layer.gate_up(normed(x, layer.mlp_norm));
    const auto ffn = static_cast<size_t>(s_.ffn);
    Rows act(static_cast<size_t>(rows_) * ffn);
    for (size_t i = 0; i < act.size(); ++i) {
      const double gate = both[i / ffn * 2 * ffn + i % ffn], up = both[(i / ffn * 2 + 1) * ffn + i % ffn];
      act[i] = bf16(gate / (1 + std::exp(-gate)) * up);
    }
    add_rounded(layer.down(act));
  }

  void check_cache(const Layer& layer, const PagedKv& kv) {
    // A number on the border between two codes may get either: FP8's are an eighth apart.
    const double step = has_fp8_cache() ? 0.13 : 0;
    const auto bytes = cache_row_bytes();
    const auto compare = [&](const std::vector<std::byte>& expected, const std::byte* actual) {
      const std::vector<std::byte> host = device_.download(actual, std::ssize(expected));
      for (int64_t row = 0; row < std::ssize(expected) / bytes; ++row) {
        const auto at = static_cast<size_t>(row * bytes);
        if (std::memcmp(host.data() + at, expected.data() + at, static_cast<size_t>(bytes)) == 0)
          continue;  // all that is not this step's must be untouched
        const Rows got = take_row(host, row), wanted = take_row(expected, row);
        for (size_t d = 0; d < got.size(); ++d)
          ASSERT_NEAR(got[d], wanted[d], 0.05 + step * std::abs(wanted[d])) << "row " << row << " at " << d;
      }
    };
    compare(layer.keys, kv.keys);
    compare(layer.values, kv.values);
  }

  ChainMatrix on_device(const HostMatrix& host) {
    return {
        .w = {.dtype = s_.dtype, .rows = host.rows, .cols = host.cols, .data = device_.upload(host.stored)},
        .row_scales = host.scales.empty() ? nullptr : device_.upload(host.scales)};
  }
  ChainModel device_model() {
    const auto optional = [&](const std::vector<float>& v) {
      return v.empty() ? nullptr : device_.upload(v);
    };
    ChainModel model{.hidden = s_.hidden,
        .ffn = s_.ffn,
        .heads = s_.heads,
        .kv_heads = s_.kv_heads,
        .head_dim = s_.head_dim,
        .norm_eps = static_cast<float>(kEps),
        .attention_scale = 1.f / std::sqrt(static_cast<float>(s_.head_dim)),
        .inv_freq = device_.upload(inv_freq_)};
    for (const Layer& layer : layers_)
      model.layers.push_back({.qkv = on_device(layer.qkv),
          .o = on_device(layer.o),
          .gate_up = on_device(layer.gate_up),
          .down = on_device(layer.down),
          .qkv_bias = optional(layer.bias),
          .attention_norm = device_.upload(layer.attention_norm),
          .mlp_norm = device_.upload(layer.mlp_norm),
          .q_norm = optional(layer.q_norm),
          .k_norm = optional(layer.k_norm),
          .window = s_.window});
    if (s_.vocab == 0) return model;
    model.final_norm = device_.upload(final_norm_);
    model.head = on_device(head_);
    return model;
  }
  AttentionBatch batch() {
    return {.sequences = device_.upload(sequences_),
        .pages = device_.upload(pages_),
        .positions = device_.upload(positions_),
        .num_sequences = rows_,
        .rows = rows_,
        .max_context = *std::max_element(s_.contexts.begin(), s_.contexts.end()),
        .max_queries = 1};
  }

  static constexpr double kEps = 1e-5;
  Shape s_;
  int64_t rows_, num_pages_ = 0;
  std::vector<SequenceEntry> sequences_;
  std::vector<int32_t> pages_, positions_;
  std::vector<Layer> layers_;
  std::vector<float> inv_freq_, x_, final_norm_;
  HostMatrix head_;
  DeviceCase device_;
};

class DecodeChainOnHopper : public testing::Test {
 protected:
  void SetUp() override {
    if (!query_device().is_hopper()) GTEST_SKIP() << "needs a Hopper GPU";
  }
};

TEST_F(DecodeChainOnHopper, OneRowEqualsThePlainLayers) { ChainCase({.contexts = {1}}).check(3); }
TEST_F(DecodeChainOnHopper, LongContextsAreSharedByManyBlocks) {
  ChainCase({.heads = 8, .kv_heads = 2, .head_dim = 128, .contexts = {1300, 17, 2049}}).check(3);
}
TEST_F(DecodeChainOnHopper, EightRowsOfRaggedContexts) {
  ChainCase({.hidden = 1024,
                .ffn = 2816,
                .heads = 8,
                .kv_heads = 8,
                .head_dim = 128,
                .contexts = {1, 2, 15, 16, 17, 33, 128, 200}})
      .check(2);
}
TEST_F(DecodeChainOnHopper, SevenRowsWithSmallPages) {
  ChainCase({.heads = 16, .kv_heads = 2, .contexts = {5, 6, 7, 8, 9, 16, 20}, .page_tokens = 8}).check(2);
}
TEST_F(DecodeChainOnHopper, TheHeadEndsAStep) {
  ChainCase({.contexts = {20}, .vocab = 20000}).check(2);
  ChainCase({.contexts = {20, 1, 77}, .vocab = 10008}).check(2);
}
TEST_F(DecodeChainOnHopper, AWindowHidesOldTokens) {
  ChainCase({.contexts = {100, 31, 400}, .window = 40}).check(2);
}
TEST_F(DecodeChainOnHopper, BiasesAndHeadNorms) {
  ChainCase({.head_dim = 128, .contexts = {40, 3}, .bias = true, .head_norms = true}).check(2);
}
TEST_F(DecodeChainOnHopper, Fp8Weights) {
  ChainCase({.contexts = {40, 300}, .dtype = DType::kF8E4M3, .vocab = 1000}).check(2);
  ChainCase(
      {.hidden = 1024, .head_dim = 128, .contexts = std::vector<int64_t>(7, 50), .dtype = DType::kF8E4M3})
      .check(2);
}

TEST_F(DecodeChainOnHopper, F16Weights) {
  const DType f16 = DType::kF16, fp8 = DType::kF8E4M3;
  ChainCase({.contexts = {40}, .dtype = f16, .vocab = 1000}).check(2);
  ChainCase({.hidden = 1024, .head_dim = 128, .contexts = std::vector<int64_t>(7, 50), .dtype = f16})
      .check(2);
  ChainCase({.head_dim = 128, .contexts = {40, 3}, .dtype = f16, .bias = true, .head_norms = true}).check(2);
  ChainCase({.contexts = {100, 31, 400}, .window = 40, .dtype = f16, .cache = fp8}).check(2);
}

TEST_F(DecodeChainOnHopper, ManyKeyHeadsTakeTurns) {  // 256 shares for 66 pairs of blocks
  ChainCase({.heads = 32, .kv_heads = 32, .head_dim = 64, .contexts = {300, 1, 16, 129, 77, 260, 400, 31}})
      .check(3);
}
TEST_F(DecodeChainOnHopper, EightHeadsShareAKey) {
  ChainCase({.heads = 16, .kv_heads = 2, .head_dim = 128, .contexts = {300, 3000}}).check(2);
}
TEST_F(DecodeChainOnHopper, AnFp8CacheIsReadAndWritten) {
  const DType fp8 = DType::kF8E4M3;
  ChainCase({.contexts = {1}, .cache = fp8}).check(3);
  ChainCase({.head_dim = 128, .contexts = {1300, 17, 2049}, .cache = fp8}).check(2);
  ChainCase({.heads = 16, .kv_heads = 2, .contexts = {5, 6, 7, 8, 9, 16, 20}, .page_tokens = 8, .cache = fp8})
      .check(2);
  ChainCase({.contexts = {100, 31, 400}, .window = 40, .dtype = fp8, .cache = fp8}).check(2);
  ChainCase({.head_dim = 128, .contexts = {40, 3}, .cache = fp8, .bias = true, .head_norms = true}).check(2);
}

}  // namespace
}  // namespace cheetah::gpu
