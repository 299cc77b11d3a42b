// SPDX-License-Identifier: MIT
#pragma once
// How the parts of an attended head come together: those of a block's warps in shared memory, those of a pair
// of blocks in the first one's, and those of several pairs in global memory, where the block that writes the
// last one makes the output of all. A part is what was seen of some tokens: numbers, not yet divided, and two
// statistics, the highest score and the sum of exponentials.
#include "gpu/ptx_remote.cuh"
#include "kernels/attention/cuda/hopper_math.cuh"
#include "kernels/decode_chain/cuda/chain_product.cuh"

namespace cheetah::gpu::chain {

// A share of one sequence's tokens for one key head. The two blocks of a cluster take neighbouring ones.
struct Share {
  int row, head, pair;
  int context, first_token;
  int begin, end;        // units
  int num_pairs;         // with something in them
  bool has_both_blocks;  // the pair's second block has something too
  const int32_t* pages;
};
inline constexpr int kTablePages = 128;
// A share and where its first tokens lie, in shared memory: mostly a block's share is the same in every
// layer.
struct ShareTable {
  Share share;
  int item, window;
  int first_page;
  int32_t pages[kTablePages];
};

// A thread's two neighbouring numbers of a head.
struct Part {
  float2 numbers;
  float2 statistics;
};

template <int kCount, class Numbers, class Statistics>
__device__ Part merge_parts(const Numbers& numbers, const Statistics& statistics) {
  float top = -INFINITY;
#pragma unroll
  for (int i = 0; i < kCount; ++i) top = fmaxf(top, statistics(i).x);
  const float base = top == -INFINITY ? 0.f : top;
  Part merged = {make_float2(0.f, 0.f), make_float2(top, 0.f)};
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float2 part = statistics(i), v = numbers(i);
    const float factor = hopper::exp2_fast(part.x - base);
    merged.statistics.y += factor * part.y;
    merged.numbers.x += factor * v.x;
    merged.numbers.y += factor * v.y;
  }
  return merged;
}

inline constexpr int kMeetingHeads = 4;  // that blocks of a pair exchange at a time

// In the shared memory of both blocks of a pair: what the second leaves with the first, and when.
template <int kDim>
struct Meeting {
  float2 numbers[kMeetingHeads * kDim / 2];
  float2 statistics[kMeetingHeads];
  uint64_t arrived;  // the first block's: all of the second's numbers
  uint64_t taken;    // the second block's: they may be overwritten

  __device__ void init() {
    ptx::barrier_init(&arrived, 1);
    ptx::barrier_init(&taken, kConsumerWarps);
  }
  // Second block: before the first part of a meeting; `meetings` came before.
  __device__ void wait_taken(int meetings) {
    if (meetings > 0) ptx::barrier_wait(&taken, (meetings - 1) & 1);
  }
  __device__ void leave(const Part& part, int number) {
    const uint32_t barrier = ptx::remote_address(&arrived, 0);
    ptx::store_remote(ptx::remote_address(numbers + number / 2, 0), part.numbers, barrier);
    if (number % kDim == 0)
      ptx::store_remote(ptx::remote_address(statistics + number / kDim, 0), part.statistics, barrier);
  }
  // First block, all its computing threads.
  __device__ void wait_arrived(int heads, int meetings) {
    if (threadIdx.x == 0) ptx::barrier_expect_bytes(&arrived, heads * (kDim * 4 + 8));
    ptx::barrier_wait(&arrived, meetings & 1);
  }
  __device__ Part merged(const Part& mine, int number) const {
    const Part both[2] = {mine, {numbers[number / 2], statistics[number / kDim]}};
    return merge_parts<2>([&](int i) { return both[i].numbers; }, [&](int i) { return both[i].statistics; });
  }
  __device__ void give_back() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::barrier_arrive_at(ptx::remote_address(&taken, 1));
  }
};

template <int kDim, Weights kWeights, int kHeads>  // kHeads come together at a time
struct Merger {
  static constexpr int kNumbers = kHeads * kDim;  // of a warp's part
  static constexpr int kLine = kDim / 8;          // numbers of a line of lanes

  const Params& p;
  float* shared;  // [kConsumerWarps][kNumbers] numbers, then statistics
  Meeting<kDim>& meeting;
  int& meetings;

  __device__ int group() const { return p.heads / p.kv_heads; }
  __device__ float2* statistics(int warp) const {
    return reinterpret_cast<float2*>(shared + kConsumerWarps * kNumbers) + warp * kHeads;
  }
  // Where number d of a head lies: pieces of four turned so that no bank is asked twice.
  __device__ static int place_of(int d) {
    const int line = d / kLine, turn = line * kLine / 32 % (kLine / 4);
    return line * kLine + ((d % kLine / 4) ^ turn) * 4 + d % 4;
  }
  // The warp's part of heads [first, first + kHeads) of those that share the key.
  template <class A>
  __device__ void put(const A& seen, int first) const {
    const int warp = threadIdx.x / 32, line = threadIdx.x % 32 / 4, quarter = threadIdx.x % 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int head = 2 * quarter + h - first;
      if (head < 0 || head >= kHeads) continue;
      if (line == 0) statistics(warp)[head] = make_float2(seen.top[h], seen.sum[h]);
      float* to = shared + warp * kNumbers + head * kDim;
#pragma unroll
      for (int t = 0; t < kDim / 16; t += 2)
        *reinterpret_cast<float4*>(to + place_of(line * kLine + t * 2)) =
            make_float4(seen.out[t][h], seen.out[t][h + 2], seen.out[t + 1][h], seen.out[t + 1][h + 2]);
    }
  }

  __device__ void store_output(const Share& share, int number, const Part& part) const {
    const int64_t head = static_cast<int64_t>(share.row) * p.heads + share.head * group();
    const float scale = 1.f / part.statistics.y;
    *reinterpret_cast<uint32_t*>(p.attended + head * kDim + number) =
        narrow_pair<kWeights>(part.numbers.x * scale, part.numbers.y * scale);
  }
  // The first of a pair's heads among all parts in global memory.
  __device__ int64_t place_of(const Share& share, int pair) const {
    return ((static_cast<int64_t>(share.row) * p.kv_heads + share.head) * p.pairs + pair) * group();
  }
  __device__ float2* numbers_at(int64_t head, int number) const {
    return reinterpret_cast<float2*>(p.partial + head * kDim + number);
  }
  __device__ float2* statistics_at(int64_t head, int number) const {
    return reinterpret_cast<float2*>(p.statistics) + head + number / kDim;
  }

  // Heads [first, first + kHeads) of what the block's warps have seen: two numbers per thread.
  template <class A>
  __device__ Part merge_warps(const A& seen, int first) const {
    put(seen, first);
    sync_consumers();
    const int number = own_number() % kNumbers;
    const float* from = shared + number / kDim * kDim + place_of(number % kDim);
    const Part part = merge_parts<kConsumerWarps>(
        [&](int w) { return *reinterpret_cast<const float2*>(from + w * kNumbers); },
        [&](int w) { return statistics(w)[number / kDim]; });
    sync_consumers();  // the next heads go to the same place
    return part;
  }
  __device__ static int own_number() { return static_cast<int>(threadIdx.x) * 2; }

  template <class A>
  __device__ void finish(const Share& share, const A& seen) const {
    for (int first = 0; first < group(); first += kMeetingHeads)
      finish_heads(share, seen, first, min(kMeetingHeads, group() - first));
    if (share.num_pairs > 1 && blockIdx.x % 2 == 0) merge_pairs(share);
  }
  template <class A>
  __device__ void finish_heads(const Share& share, const A& seen, int first, int heads) const {
    constexpr int kRounds = kMeetingHeads / kHeads;
    const bool second = blockIdx.x % 2 == 1;
    if (second) meeting.wait_taken(meetings);
    Part parts[kRounds];
    const auto merges = [&](int round) {
      return own_number() < kNumbers && round * kNumbers + own_number() < heads * kDim;
    };
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      if (round * kHeads >= heads) break;
      parts[round] = merge_warps(seen, first + round * kHeads);
      if (second && merges(round)) meeting.leave(parts[round], round * kNumbers + own_number());
    }
    if (second) {
      ++meetings;
      return;
    }
    if (share.has_both_blocks) meeting.wait_arrived(heads, meetings);
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const int number = round * kNumbers + own_number();
      if (!merges(round)) continue;
      const Part part = share.has_both_blocks ? meeting.merged(parts[round], number) : parts[round];
      store(share, first * kDim + number, part);
    }
    if (share.has_both_blocks) {
      meeting.give_back();
      ++meetings;
    }
  }
  __device__ void store(const Share& share, int number, const Part& part) const {
    if (share.num_pairs == 1) return store_output(share, number, part);
    const int64_t head = place_of(share, share.pair);
    __stcg(numbers_at(head, number), part.numbers);
    if (number % kDim == 0) __stcg(statistics_at(head, number), part.statistics);
  }

  __device__ void merge_pairs(const Share& share) const {
    auto* before = reinterpret_cast<unsigned*>(shared);
    unsigned* done = p.shares_done + static_cast<int64_t>(share.row) * p.kv_heads + share.head;
    sync_consumers();
    if (threadIdx.x == 0) *before = add_acquire_release(done);
    sync_consumers();
    if (*before + 1 != static_cast<unsigned>(share.num_pairs)) return;
    const int64_t head = place_of(share, 0);
    for (int number = own_number(); number < group() * kDim; number += kConsumerWarps * 64) {
      Part part = {make_float2(0.f, 0.f), make_float2(-INFINITY, 0.f)};
      for (int i = 0; i < share.num_pairs; ++i) {
        const Part both[2] = {part, {__ldcg(numbers_at(head + i * group(), number)),
                                        __ldcg(statistics_at(head + i * group(), number))}};
        part =
            merge_parts<2>([&](int j) { return both[j].numbers; }, [&](int j) { return both[j].statistics; });
      }
      store_output(share, number, part);
    }
    if (threadIdx.x == 0) *done = 0;
  }
};

}  // namespace cheetah::gpu::chain
