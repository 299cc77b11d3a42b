// SPDX-License-Identifier: MIT
// Attention of one tile over one span of keys, online softmax block by block.
// flops  2*rows*keys*(key_dim + value_dim)      bytes  each key and value once per tile
// bound  the multiply-adds for a prompt's tiles of 48 rows; memory for a decode step's few rows
// why    keys are transposed on the way in, so that a vector holds many keys and a score is one lane's chain
//        of multiply-adds: no horizontal sums, and the same order for one row as for many. seen  NOTES.md
#include "kernels/attention/tile.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/tile.cpp"
#include "hwy/foreach_target.h"
// after foreach_target.h
#include "hwy/highway.h"
#include "kernels/attention/direct-inl.h"
#include "kernels/attention/panels-inl.h"
#include "kernels/attention/products-inl.h"
#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah::attention_tile {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using cheetah::HWY_NAMESPACE::exp_of_nonpositive;
using cheetah::HWY_NAMESPACE::tanh_any;

constexpr int kRowVectors = static_cast<int>(kBlock / kLanes);
constexpr float kLowest = -std::numeric_limits<float>::max();  // a peak below every score, and finite: no NaN

float exp_of_difference(float lower, float upper) {
  const Tag tag;
  return lower == upper ? 1.f : hn::GetLane(exp_of_nonpositive(tag, hn::Set(tag, lower - upper)));
}

void load_queries(const AttentionArgs& args, const Tile& tile, const Workspace& work) {
  const int64_t group = group_of(args), key_dim = args.kv.key_dim;
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t token = (tile.first_row + r) / group,
                  head = tile.kv_head * group + (tile.first_row + r) % group;
    const float* q = args.q + (tile.sequence->query_begin + token) * args.q_stride + head * key_dim;
    for (int64_t i = 0; i < key_dim; ++i) work.q[r * key_dim + i] = q[i] * args.scale;
  }
}

// The positions each row sees, [begin, end); found once a span, for it divides by the group.
struct Horizon {
  int64_t begin[kRows];
  int64_t end[kRows];
};

void find_horizons(const AttentionArgs& args, const Tile& tile, Horizon& horizon) {
  const int64_t group = group_of(args);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t position = position_of(*tile.sequence, (tile.first_row + r) / group);
    horizon.begin[r] = first_visible(args, position);
    horizon.end[r] = position + 1;
  }
}

// The keys of a block that one row sees, as [begin, end) within the block; begin >= end when none.
struct Visible {
  int64_t begin = 0;
  int64_t end = 0;
};

HWY_INLINE Visible visible(const Horizon& horizon, int64_t row, int64_t base) {
  return {std::max<int64_t>(0, horizon.begin[row] - base), std::min(kBlock, horizon.end[row] - base)};
}

HWY_INLINE void cap_scores(Vector* s, float cap) {
  const Tag tag;
  for (int c = 0; c < kRowVectors; ++c)
    s[c] = hn::Mul(hn::Set(tag, cap), tanh_any(tag, hn::Mul(s[c], hn::Set(tag, 1.f / cap))));
}

HWY_INLINE void hide(Vector* s, Visible seen) {
  const Tag tag;
  const Vector hidden = hn::Set(tag, -std::numeric_limits<float>::infinity());
  for (int c = 0; c < kRowVectors; ++c) {
    const Vector k = hn::Iota(tag, static_cast<float>(c * kLanes));
    const auto inside = hn::And(hn::Ge(k, hn::Set(tag, static_cast<float>(seen.begin))),
        hn::Lt(k, hn::Set(tag, static_cast<float>(seen.end))));
    s[c] = hn::IfThenElse(inside, s[c], hidden);
  }
}

// Turns a row's scores into weights relative to its peak, and updates peak, sums and decay.
void soften_row(
    const AttentionArgs& args, Visible seen, int64_t row, const Workspace& work, const State& state) {
  const Tag tag;
  float* scores = work.scores + row * kBlock;
  Vector s[kRowVectors];
#pragma GCC unroll 8
  for (int c = 0; c < kRowVectors; ++c) s[c] = hn::LoadU(tag, scores + c * kLanes);
  if (args.soft_cap > 0) cap_scores(s, args.soft_cap);
  if (seen.begin > 0 || seen.end < kBlock) hide(s, seen);
  Vector largest = s[0];
#pragma GCC unroll 8
  for (int c = 1; c < kRowVectors; ++c) largest = hn::Max(largest, s[c]);
  const float older = state.peak[row], peak = std::max(older, hn::GetLane(hn::MaxOfLanes(tag, largest)));
  Vector sum = hn::Zero(tag);
#pragma GCC unroll 8
  for (int c = 0; c < kRowVectors; ++c) {
    s[c] = exp_of_nonpositive(tag, hn::Sub(s[c], hn::Set(tag, peak)));
    sum = hn::Add(sum, s[c]);
    hn::StoreU(s[c], tag, scores + c * kLanes);
  }
  work.decay[row] = exp_of_difference(older, peak);
  state.peak[row] = peak;
  float* sums = work.sums + row * kMaxLanes;
  hn::StoreU(hn::MulAdd(hn::LoadU(tag, sums), hn::Set(tag, work.decay[row]), sum), tag, sums);
}

// Rows [first, first + rows) of a tile, at most kGroupRows, and a block that begins at `base`.
struct Group {
  int64_t first;
  int64_t rows;
  int64_t base;
};

// The group's rows against a block: `score` fills its scores, `add_values` adds the weighted values.
template <class Score, class AddValues>
HWY_INLINE void attend_group(const AttentionArgs& args, const Horizon& horizon, const Group& group,
    const Workspace& work, const State& state, const Score& score, const AddValues& add_values) {
  const int64_t first = group.first, rows = group.rows;
  Visible all{kBlock, 0}, seen[kGroupRows];
  for (int64_t r = 0; r < rows; ++r) {
    seen[r] = visible(horizon, first + r, group.base);
    if (seen[r].begin >= seen[r].end) continue;
    all = {std::min(all.begin, seen[r].begin), std::max(all.end, seen[r].end)};
  }
  if (all.begin >= all.end) return;  // no row of the group sees the block: its state stays as it is
  const int64_t stride = value_stride(args.kv);
  score(work.q + first * args.kv.key_dim, work.scores + first * kBlock);
  for (int64_t r = 0; r < rows; ++r) soften_row(args, seen[r], first + r, work, state);
  const ValueProduct product{.weights = work.scores + first * kBlock,
      .decay = work.decay + first,
      .values = work.values,
      .out = state.out + first * stride,
      .stride = stride,
      .key_begin = all.begin,
      .key_end = all.end};
  add_values(product);
}

// … in the panels.
void attend_panels(const AttentionArgs& args, const Horizon& horizon, const Group& group,
    const Workspace& work, const State& state) {
  attend_group(
      args, horizon, group, work, state,
      [&](const float* q, float* scores) HWY_ATTR {
        with_rows(group.rows,
            [&]<int kRowsNow>() HWY_ATTR { score_group<kRowsNow>(q, work.keys, args.kv.key_dim, scores); });
      },
      [&](const ValueProduct& product) HWY_ATTR {
        with_rows(group.rows, [&]<int kRowsNow>() HWY_ATTR { add_values_group<kRowsNow>(product); });
      });
}

// … in the cache. The tile is one group.
template <class Element>
void attend_direct(const AttentionArgs& args, const Horizon& horizon, const Tile& tile,
    const BlockRange& block, const Workspace& work, const State& state) {
  BlockPlaces<Element> now, next;
  find_places(args.kv, tile, block, now);
  const NextBlock after = block_after(tile, block);
  if (after.range.begin < after.range.end)
    find_places(args.kv, *after.tile, after.range, next);
  else
    next = now;
  for (int64_t k = 0; k < kBlock; ++k)  // a key of this block asks for one of the next, if there is one
    if (k < after.range.begin || k >= after.range.end) next.values[k] = now.values[block.begin];
  attend_group(
      args, horizon, {0, tile.rows, block.base}, work, state,
      [&](const float* q, float* scores) HWY_ATTR {
        with_rows(tile.rows,
            [&]<int kRowsNow>() HWY_ATTR { score_direct<kRowsNow>(q, args.kv, now, next, scores); });
      },
      [&](const ValueProduct& product) HWY_ATTR {
        with_rows(
            tile.rows, [&]<int kRowsNow>() HWY_ATTR { add_values_direct<kRowsNow>(product, now, next); });
      });
}

void attend_direct_any(const AttentionArgs& args, const Horizon& horizon, const Tile& tile,
    const BlockRange& block, const Workspace& work, const State& state) {
  if (args.kv.dtype == DType::kF32) return attend_direct<float>(args, horizon, tile, block, work, state);
  if (args.kv.dtype == DType::kF16)
    return attend_direct<hwy::float16_t>(args, horizon, tile, block, work, state);
  attend_direct<hwy::bfloat16_t>(args, horizon, tile, block, work, state);
}

void fill_panels_any(const PagedKv& kv, const Tile& tile, const BlockRange& block, const Workspace& work) {
  if (kv.dtype == DType::kF32) return fill_panels<float>(kv, tile, block, work);
  if (kv.dtype == DType::kF16) return fill_panels<hwy::float16_t>(kv, tile, block, work);
  if (kv.dtype == DType::kBF16) return fill_panels<hwy::bfloat16_t>(kv, tile, block, work);
  fill_panels_scaled(kv, tile, block, work);
}

void attend_span(
    const AttentionArgs& args, const Tile& tile, int64_t span, const Workspace& work, const State& state) {
  const Tag tag;
  Horizon horizon;
  find_horizons(args, tile, horizon);
  load_queries(args, tile, work);
  std::fill_n(state.peak, tile.rows, kLowest);
  std::fill_n(state.out, tile.rows * value_stride(args.kv), 0.f);
  std::fill_n(work.sums, tile.rows * kMaxLanes, 0.f);
  const int64_t begin = std::max(span * kSpan, tile.key_begin),
                end = std::min((span + 1) * kSpan, tile.key_end);
  const bool direct = fits_direct(args.kv, tile);
  for (int64_t base = begin / kBlock * kBlock; base < end; base += kBlock) {
    const BlockRange block{base, std::max<int64_t>(0, begin - base), std::min(kBlock, end - base)};
    if (direct) {
      attend_direct_any(args, horizon, tile, block, work, state);
      continue;
    }
    fill_panels_any(args.kv, tile, block, work);
    for (int64_t first = 0; first < tile.rows; first += kGroupRows)
      attend_panels(
          args, horizon, {first, std::min<int64_t>(kGroupRows, tile.rows - first), base}, work, state);
  }
  for (int64_t r = 0; r < tile.rows; ++r)
    state.sum[r] = hn::GetLane(hn::SumOfLanes(tag, hn::LoadU(tag, work.sums + r * kMaxLanes)));
}

void merge(const Tile& tile, int64_t stride, const State& span, const State& total) {
  const Tag tag;
  for (int64_t r = 0; r < tile.rows; ++r) {
    if (span.peak[r] == kLowest) continue;  // the row saw nothing of this span
    const float peak = std::max(total.peak[r], span.peak[r]);
    const float keep = exp_of_difference(total.peak[r], peak), join = exp_of_difference(span.peak[r], peak);
    total.peak[r] = peak;
    total.sum[r] = total.sum[r] * keep + span.sum[r] * join;
    float* out = total.out + r * stride;
    for (int64_t i = 0; i < stride; i += kLanes) {
      const Vector joined = hn::Mul(hn::LoadU(tag, span.out + r * stride + i), hn::Set(tag, join));
      hn::StoreU(hn::MulAdd(hn::LoadU(tag, out + i), hn::Set(tag, keep), joined), tag, out + i);
    }
  }
}

void finish(const AttentionArgs& args, const Tile& tile, const State& total) {
  const int64_t group = group_of(args), stride = value_stride(args.kv);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t token = (tile.first_row + r) / group,
                  head = tile.kv_head * group + (tile.first_row + r) % group;
    float* out = args.out + (tile.sequence->query_begin + token) * args.out_stride + head * args.kv.value_dim;
    const float share = 1.f / total.sum[r];
    for (int64_t i = 0; i < args.kv.value_dim; ++i) out[i] = total.out[r * stride + i] * share;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cheetah::attention_tile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cheetah::attention_tile {
namespace {

HWY_EXPORT(attend_span);
HWY_EXPORT(merge);
HWY_EXPORT(finish);

}  // namespace

void attend_span(
    const AttentionArgs& args, const Tile& tile, int64_t span, const Workspace& work, const State& state) {
  HWY_DYNAMIC_DISPATCH(attend_span)(args, tile, span, work, state);
}
void merge(const Tile& tile, int64_t stride, const State& span, const State& total) {
  HWY_DYNAMIC_DISPATCH(merge)(tile, stride, span, total);
}
void finish(const AttentionArgs& args, const Tile& tile, const State& total) {
  HWY_DYNAMIC_DISPATCH(finish)(args, tile, total);
}

}  // namespace cheetah::attention_tile
#endif  // HWY_ONCE
