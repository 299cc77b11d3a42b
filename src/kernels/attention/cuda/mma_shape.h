// SPDX-License-Identifier: MIT
#pragma once
// Sizes of the tiles, known to the host's plan and to the kernels.
#include <cstdint>

namespace cheetah::gpu::mma {

// kKeys, kValues: the longest rows it takes. The warps of a block share a tile's rows kRowParts ways, each
// taking kTilesAWarp times 16, and its keys, then the value columns, kColumnParts ways.
template <int kKeys, int kValues, bool kIsLatent, int kRowParts, int kColumnParts, int kTilesAWarp,
    int kTokensATile>
struct Shape {
  static constexpr int kKeyDim = kKeys, kValueDim = kValues;
  static constexpr bool kLatent = kIsLatent;
  static constexpr int kRowWarps = kRowParts, kColumnWarps = kColumnParts, kRowTiles = kTilesAWarp;
  static constexpr int kTokens = kTokensATile;
  static constexpr int kWarps = kRowWarps * kColumnWarps, kThreads = kWarps * 32;
  static constexpr int kRows = kRowWarps * kRowTiles * 16;
  static constexpr int kQueryBytes = kRows * kKeyDim * 2;
  static constexpr int kKeyBytes = kTokens * kKeyDim * 2;
  static constexpr int kStageBytes = kKeyBytes + (kLatent ? 0 : kTokens * kValueDim * 2);
  static constexpr int kWeightStride = kTokens * 2 + 16;  // of a row in bytes: no two rows meet in a bank
  static constexpr int kWeightBytes = kRows * kWeightStride;
  static constexpr int kStatisticBytes = kColumnWarps * kRows * 4;
  static constexpr int64_t kSharedBytes = kQueryBytes + 2 * kStageBytes + kWeightBytes + kStatisticBytes;
  // Of a Hopper's 228 KiB, less one a block for the system.
  static constexpr int kBlocksAMultiprocessor = kSharedBytes + 1024 <= (228 << 10) / 2 ? 2 : 1;
};

using LatentFew = Shape<576, 512, true, 1, 4, 1, 32>;
using LatentMany = Shape<576, 512, true, 2, 4, 2, 64>;
using LatentManyLow = Shape<576, 512, true, 2, 4, 2, 32>;
using ShortFew = Shape<128, 128, false, 1, 4, 1, 64>;
using ShortMany = Shape<128, 128, false, 4, 2, 2, 32>;
using LongFew = Shape<256, 256, false, 1, 4, 1, 32>;
using LongMany = Shape<256, 256, false, 4, 2, 2, 64>;
using LongManyLow = Shape<256, 256, false, 4, 2, 2, 32>;

}  // namespace cheetah::gpu::mma
