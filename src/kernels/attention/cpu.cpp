// SPDX-License-Identifier: MIT
// Cuts a batch into tiles and shares them among the workers. Where there are few tiles and a long context (a
// decode step), workers share the spans of each tile instead; the merge is the same either way, so bits are.
#include <hwy/aligned_allocator.h>

#include <limits>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/tile.h"

namespace cheetah {
namespace {

using namespace attention_tile;

// Aligned floats that only grow: after the first calls nothing is allocated.
class Arena {
 public:
  float* take(int64_t count) {
    const auto wanted = static_cast<size_t>(count);
    if (wanted > capacity_) {
      floats_ = hwy::AllocateAligned<float>(wanted);
      capacity_ = wanted;
    }
    return floats_.get();
  }

 private:
  hwy::AlignedFreeUniquePtr<float[]> floats_;
  size_t capacity_ = 0;
};

// Carves consecutive arrays out of one allocation, each on a cache line.
class Carver {
 public:
  explicit Carver(float* at) : at_(at) {}
  float* next(int64_t count) {
    float* begin = at_;
    at_ += padded(count);
    return begin;
  }
  static int64_t padded(int64_t count) { return (count + kMaxLanes - 1) / kMaxLanes * kMaxLanes; }

 private:
  float* at_;
};

int64_t state_floats(const PagedKv& kv, int64_t rows) {
  return 2 * Carver::padded(rows) + rows * value_stride(kv);
}

State carve_state(Carver& carver, const PagedKv& kv, int64_t rows) {
  State state;
  state.peak = carver.next(rows);
  state.sum = carver.next(rows);
  state.out = carver.next(rows * value_stride(kv));
  return state;
}

int64_t workspace_floats(const PagedKv& kv) {
  return kRows * (Carver::padded(kv.key_dim) + kBlock + 1 + kMaxLanes) +
         kBlock * (kv.key_dim + value_stride(kv)) + Carver::padded(kv.key_dim) +
         Carver::padded(kMaxLanes * kv.key_dim);
}

Workspace carve_workspace(Carver& carver, const PagedKv& kv) {
  Workspace work;
  work.q = carver.next(kRows * kv.key_dim);
  work.keys = carver.next(kBlock * kv.key_dim);
  work.values = carver.next(kBlock * value_stride(kv));
  work.scores = carver.next(kRows * kBlock);
  work.decay = carver.next(kRows);
  work.sums = carver.next(kRows * kMaxLanes);
  work.zeros = carver.next(kv.key_dim);
  work.widened = carver.next(kMaxLanes * kv.key_dim);
  // Columns of keys out of range are computed with, then hidden: what an earlier tile left there does no
  // harm.
  std::fill_n(work.keys, kBlock * kv.key_dim, 0.f);
  std::fill_n(work.zeros, kv.key_dim, 0.f);
  return work;
}

// A worker's scratch, for tile after tile.
struct Worker {
  Workspace work;
  State span, total;
};

Worker carve_worker(const PagedKv& kv) {
  thread_local Arena arena;
  Carver carver(arena.take(workspace_floats(kv) + 2 * state_floats(kv, kRows)));
  Worker worker;
  worker.work = carve_workspace(carver, kv);
  worker.span = carve_state(carver, kv, kRows);
  worker.total = carve_state(carver, kv, kRows);
  return worker;
}

// Neighbouring tiles go to the same worker, which then knows what to fetch next; but not so many that the
// others end up waiting.
constexpr int64_t kPieces = 8;  // a worker
constexpr int64_t kMostTogether = 16;

// Longest first: a prompt's last tokens see the most keys.
void cut_tiles(const AttentionArgs& args, std::vector<Tile>& tiles) {
  tiles.clear();
  const int64_t group = group_of(args);
  for (const AttentionSequence& sequence : args.sequences) {
    const int64_t rows = sequence.query_count * group;
    for (int64_t first = (rows - 1) / kRows * kRows; rows > 0 && first >= 0; first -= kRows)
      for (int64_t head = 0; head < args.kv.kv_heads; ++head) {
        Tile tile{&sequence, head, first, std::min(kRows, rows - first), 0, 0};
        tile.key_begin = first_visible(args, position_of(sequence, first / group));
        tile.key_end = position_of(sequence, (first + tile.rows - 1) / group) + 1;
        tiles.push_back(tile);
      }
  }
  for (size_t i = 0; i + 1 < tiles.size(); ++i) tiles[i].after = &tiles[i + 1];
}

int64_t first_span(const Tile& tile) { return tile.key_begin / kSpan; }
int64_t num_spans(const Tile& tile) { return (tile.key_end + kSpan - 1) / kSpan - first_span(tile); }

// Before any key: the sink, if there is one, has weight one relative to itself.
void begin_total(const AttentionArgs& args, const Tile& tile, const State& total) {
  const int64_t group = group_of(args);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t head = tile.kv_head * group + (tile.first_row + r) % group;
    total.peak[r] = args.sinks ? args.sinks[head] : -std::numeric_limits<float>::max();
    total.sum[r] = args.sinks ? 1.f : 0.f;
  }
  std::fill_n(total.out, tile.rows * value_stride(args.kv), 0.f);
}

void attend_tile(const AttentionArgs& args, const Tile& tile, const Worker& worker) {
  begin_total(args, tile, worker.total);
  for (int64_t i = 0; i < num_spans(tile); ++i) {
    attend_span(args, tile, first_span(tile) + i, worker.work, worker.span);
    merge(tile, value_stride(args.kv), worker.span, worker.total);
  }
  finish(args, tile, worker.total);
}

// One span of one tile, with where its result is kept until the merge.
struct Unit {
  const Tile* tile;
  int64_t span;
  State state;
};

// Units of all tiles, tile after tile; nothing where the states would take more memory than sharing is worth.
void cut_units(
    const AttentionArgs& args, const std::vector<Tile>& tiles, Arena& arena, std::vector<Unit>& units) {
  constexpr int64_t kMostFloats = int64_t{1} << 22;  // 16 MiB
  units.clear();
  int64_t floats = 0;
  for (const Tile& tile : tiles) floats += num_spans(tile) * (state_floats(args.kv, tile.rows) + kMaxLanes);
  if (floats > kMostFloats) return;
  Carver carver(arena.take(floats));
  for (const Tile& tile : tiles)
    for (int64_t i = 0; i < num_spans(tile); ++i)
      units.push_back({&tile, first_span(tile) + i, carve_state(carver, args.kv, tile.rows)});
}

void merge_units(const AttentionArgs& args, const std::vector<Unit>& units) {
  const Worker worker = carve_worker(args.kv);
  for (size_t i = 0; i < units.size(); ++i) {
    const Tile& tile = *units[i].tile;
    if (i == 0 || units[i - 1].tile != &tile) begin_total(args, tile, worker.total);
    merge(tile, value_stride(args.kv), units[i].state, worker.total);
    if (i + 1 == units.size() || units[i + 1].tile != &tile) finish(args, tile, worker.total);
  }
}

}  // namespace

void attention(const AttentionArgs& args, const CpuContext& context) {
  thread_local std::vector<Tile> tiles;
  thread_local std::vector<Unit> units;
  thread_local Arena arena;
  cut_tiles(args, tiles);
  units.clear();
  const int threads = context.pool.num_threads();
  if (threads > 1 && static_cast<int64_t>(tiles.size()) < 4 * threads) cut_units(args, tiles, arena, units);
  if (units.size() <= tiles.size()) {
    const std::vector<Tile>& list = tiles;  // thread_local names mean another object on a worker
    const auto count = static_cast<int64_t>(list.size());
    const int64_t grain = std::clamp<int64_t>(count / (kPieces * threads), 1, kMostTogether);
    context.pool.parallel_for(count, grain, [&](int64_t begin, int64_t end, int) {
      const Worker worker = carve_worker(args.kv);
      for (int64_t i = begin; i < end; ++i) attend_tile(args, list[static_cast<size_t>(i)], worker);
    });
    return;
  }
  const std::vector<Unit>& list = units;
  context.pool.parallel_for(static_cast<int64_t>(list.size()), 1, [&](int64_t begin, int64_t end, int) {
    const Worker worker = carve_worker(args.kv);
    for (int64_t i = begin; i < end; ++i) {
      const Unit& unit = list[static_cast<size_t>(i)];
      attend_span(args, *unit.tile, unit.span, worker.work, unit.state);
    }
  });
  merge_units(args, list);
}

}  // namespace cheetah
