// SPDX-License-Identifier: MIT
// One kernel against the three it stands for: norm, rotation, cache.
#include "kernels/rope/finish_qkv_cuda.h"

#include <gtest/gtest.h>

#include "kernels/attention/scaled_row.h"
#include "kernels/cuda/device_case.h"
#include "kernels/norm/norm_cuda.h"

namespace cheetah::gpu {
namespace {

template <class T>
class FinishQkvCuda : public testing::Test {};
using Numbers = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(FinishQkvCuda, Numbers);

struct Problem {
  int64_t rows = 5, heads = 6, kv_heads = 2, dim = 128, half = 64;
  RopeLayout layout = RopeLayout::kHalves;
  DType cache = DType::kBF16;
  bool norms = false, has_long = false, fills_up = false;
};

// Queries, keys and values side by side, one sequence over pages in reverse.
template <class T>
class Case {
 public:
  explicit Case(const Problem& problem) : p_(problem) {
    numbers_ = numbers_as<T>(normal_numbers(p_.rows * stride(), 31));
    std::vector<int32_t> positions, pages, sequence_of(static_cast<size_t>(p_.rows), 0), uses_long;
    for (int64_t i = 0; i < p_.rows; ++i) {
      const bool only_fills_up = p_.fills_up && i == p_.rows - 1;
      positions.push_back(only_fills_up ? -1 : static_cast<int32_t>(3 + i));
      uses_long.push_back(static_cast<int32_t>(i % 2));
    }
    for (int64_t i = 0; i < num_pages(); ++i) pages.push_back(static_cast<int32_t>(num_pages() - 1 - i));
    batch_ = {.sequences = device_.upload(std::vector<SequenceEntry>{{}}),
        .pages = device_.upload(pages),
        .row_sequence = device_.upload(sequence_of),
        .positions = device_.upload(positions),
        .num_sequences = 1,
        .rows = p_.rows};
    std::vector<float> inv_freq, long_inv_freq;
    for (int64_t i = 0; i < p_.half; ++i) {
      inv_freq.push_back(std::pow(10000.f, -static_cast<float>(i) / static_cast<float>(p_.half)));
      long_inv_freq.push_back(0.25f * inv_freq.back());
    }
    angles_ = {.inv_freq = device_.upload(inv_freq),
        .long_inv_freq = p_.has_long ? device_.upload(long_inv_freq) : nullptr,
        .uses_long = p_.has_long ? device_.upload(uses_long) : nullptr,
        .half = p_.half,
        .magnitude = 1.f,
        .long_magnitude = 1.2f,
        .layout = p_.layout};
    q_norm_ = device_.upload(normal_numbers(p_.dim, 32));
    k_norm_ = device_.upload(normal_numbers(p_.dim, 33));
  }

  struct Result {
    std::vector<T> q;  // [rows, heads, dim]
    std::vector<std::byte> cache;
  };

  Result in_one() {
    T* data = device_.upload(numbers_);
    const FinishQkvArgs<T> args{.q = data,
        .q_stride = stride(),
        .heads = p_.heads,
        .write = write(data),
        .q_norm = p_.norms ? q_norm_ : nullptr,
        .k_norm = p_.norms ? k_norm_ : nullptr,
        .angles = angles_};
    EXPECT_TRUE(finish_qkv_fits(args));
    finish_qkv(args, device_.stream());
    return result(data, args.write.kv);
  }

  Result step_by_step() {
    T* data = device_.upload(numbers_);
    T* keys = data + p_.heads * p_.dim;
    if (p_.norms) {
      normalize(data, p_.heads, q_norm_);
      normalize(keys, p_.kv_heads, k_norm_);
    }
    rotate(data, p_.heads);
    rotate(keys, p_.kv_heads);
    const KvWriteArgs<T> args = write(data);
    write_kv(args, device_.stream());
    return result(data, args.kv);
  }

 private:
  int64_t stride() const { return (p_.heads + 2 * p_.kv_heads) * p_.dim; }
  int64_t num_pages() const { return (p_.rows + 3) / 4 + 1; }
  int64_t key_bytes() const { return num_pages() * 4 * p_.kv_heads * cache_row_bytes(p_.cache, p_.dim); }

  KvWriteArgs<T> write(T* data) {
    std::byte* cache = device_.upload(std::vector<std::byte>(static_cast<size_t>(2 * key_bytes())));
    return {.keys = data + p_.heads * p_.dim,
        .key_stride = stride(),
        .values = data + (p_.heads + p_.kv_heads) * p_.dim,
        .value_stride = stride(),
        .kv = {.dtype = p_.cache,
            .keys = cache,
            .values = cache + key_bytes(),
            .page_tokens = 4,
            .kv_heads = p_.kv_heads,
            .key_dim = p_.dim,
            .value_dim = p_.dim},
        .batch = batch_};
  }
  void normalize(T* x, int64_t heads, const float* weight) {
    rms_norm<T>({.x = x,
                    .x_stride = stride(),
                    .y = x,
                    .y_stride = stride(),
                    .rows = p_.rows,
                    .cols = p_.dim,
                    .parts = heads,
                    .part_stride = p_.dim,
                    .weight = weight},
        device_.stream());
  }
  void rotate(T* x, int64_t heads) {
    rope<T>({.x = x,
                .token_stride = stride(),
                .head_stride = p_.dim,
                .tokens = p_.rows,
                .heads = heads,
                .positions = batch_.positions,
                .angles = angles_},
        device_.stream());
  }
  Result result(const T* data, const PagedKv& kv) {
    Result result{.q = {}, .cache = device_.download(kv.keys, 2 * key_bytes())};
    const std::vector<T> all = device_.download(data, p_.rows * stride());
    const int64_t rows = p_.rows - p_.fills_up;
    for (int64_t row = 0; row < rows; ++row)
      result.q.insert(
          result.q.end(), all.begin() + row * stride(), all.begin() + row * stride() + p_.heads * p_.dim);
    return result;
  }

  Problem p_;
  DeviceCase device_;
  std::vector<T> numbers_;
  AttentionBatch batch_;
  RopeAngles angles_;
  const float *q_norm_ = nullptr, *k_norm_ = nullptr;
};

template <class T>
void expect_same(const Problem& problem) {
  SCOPED_TRACE(testing::Message() << name_of(problem.cache) << " rows " << problem.rows << " dim "
                                  << problem.dim << " half " << problem.half
                                  << (problem.norms ? " normed" : ""));
  Case<T> c(problem);
  const auto expected = c.step_by_step(), actual = c.in_one();
  ASSERT_EQ(actual.q.size(), expected.q.size());
  // Norms add up in another order, and between two steps a BF16 number is rounded once more.
  const double slack = problem.norms ? (std::is_same_v<T, float> ? 1e-5 : 0.03) : 0.0;
  for (size_t i = 0; i < actual.q.size(); ++i)
    ASSERT_NEAR(
        to_float(actual.q[i]), to_float(expected.q[i]), slack * (1 + std::abs(to_float(expected.q[i]))))
        << i;
  if (problem.norms) return;
  EXPECT_EQ(actual.cache, expected.cache);
}

TYPED_TEST(FinishQkvCuda, EqualsNormRotationAndCacheOneByOne) {
  for (const DType cache : {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kF8E4M3})
    expect_same<TypeParam>({.cache = cache});
  for (const RopeLayout layout : {RopeLayout::kHalves, RopeLayout::kInterleaved})
    for (const auto& [dim, half] :
        {std::pair<int64_t, int64_t>{64, 32}, {64, 16}, {80, 40}, {96, 24}, {128, 0}, {256, 128}, {6, 1}})
      for (const bool has_long : {false, true})
        expect_same<TypeParam>({.dim = dim, .half = half, .layout = layout, .has_long = has_long});
  expect_same<TypeParam>({.norms = true});
  expect_same<TypeParam>({.rows = 700, .heads = 32, .kv_heads = 8});
  expect_same<TypeParam>({.fills_up = true});
}

}  // namespace
}  // namespace cheetah::gpu
