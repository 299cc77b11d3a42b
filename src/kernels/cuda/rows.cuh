// SPDX-License-Identifier: MIT
#pragma once
// A row in the registers of a block, 16 bytes a thread and load.
#include "gpu/device.h"
#include "kernels/cuda/pieces.cuh"

namespace cheetah::gpu {

template <class T, int kThreadsInBlock, int kPiecesAThread>
struct Tile {
  using Number = T;
  static constexpr int kThreads = kThreadsInBlock, kPieces = kPiecesAThread, kEach = kPieceNumbers<T>;
  static constexpr int kMaxCols = kThreads * kPieces * kEach;
  // Blocks a multiprocessor that their registers allow: enough loads on their way to fill the memory's queue.
  static constexpr int kBlocksPerMultiprocessor = kPieces > 2 ? 1 : 1024 / kThreads;
};

template <class Tile>
struct Row {
  float numbers[Tile::kPieces * Tile::kEach];
};

template <class Tile>
__device__ int column(int piece) {
  return (piece * Tile::kThreads + static_cast<int>(threadIdx.x)) * Tile::kEach;
}

template <class Tile>
__device__ void fetch(const typename Tile::Number* row, int cols, uint4 (&raw)[Tile::kPieces]) {
#pragma unroll
  for (int p = 0; p < Tile::kPieces; ++p)
    raw[p] = column<Tile>(p) < cols ? *reinterpret_cast<const uint4*>(row + column<Tile>(p)) : uint4{};
}

template <class Tile>
__device__ void widen_row(const uint4 (&raw)[Tile::kPieces], Row<Tile>& row) {
#pragma unroll
  for (int p = 0; p < Tile::kPieces; ++p)
    widen_piece<typename Tile::Number>(raw[p], row.numbers + p * Tile::kEach);
}

template <class Tile>
__device__ void store(const Row<Tile>& row, typename Tile::Number* to, int cols) {
#pragma unroll
  for (int p = 0; p < Tile::kPieces; ++p)
    if (column<Tile>(p) < cols)
      *reinterpret_cast<uint4*>(to + column<Tile>(p)) =
          narrow_piece<typename Tile::Number>(row.numbers + p * Tile::kEach);
}

// Calls run with the smallest tile that holds a row.
template <class T, class Run>
void with_tile(int64_t cols, const Run& run) {
  if (cols <= Tile<T, 32, 1>::kMaxCols) return run(Tile<T, 32, 1>{});
  if (cols <= Tile<T, 128, 1>::kMaxCols) return run(Tile<T, 128, 1>{});
  if (cols <= Tile<T, 256, 2>::kMaxCols) return run(Tile<T, 256, 2>{});
  if (cols <= Tile<T, 512, 2>::kMaxCols) return run(Tile<T, 512, 2>{});
  run(Tile<T, 512, 4>{});
}
template <class T>
inline constexpr int64_t kMaxRowCols = Tile<T, 512, 4>::kMaxCols;

// Blocks that fill the card when each works on one row after another.
template <class Tile>
int64_t resident_blocks(const DeviceInfo& device) {
  return int64_t{device.num_sms} * Tile::kBlocksPerMultiprocessor;
}

}  // namespace cheetah::gpu
