// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "kernels/context.h"

namespace cheetah {

// Rows of `row_numbers` cheap steps each for a worker to take at once: an even share, unless the share is
// done in less time than handing it over takes (then all), or so long that the others would wait at the end.
inline int64_t rows_at_once(const CpuContext& context, int64_t rows, int64_t row_numbers) {
  constexpr int64_t kWorthSharing = 2048, kMost = 16384;
  const int64_t threads = context.pool.num_threads(), share = (rows + threads - 1) / threads;
  if (share * row_numbers < kWorthSharing) return rows > 0 ? rows : 1;
  const int64_t most = row_numbers < kMost ? kMost / row_numbers : 1;
  return share < most ? share : most;
}

}  // namespace cheetah
