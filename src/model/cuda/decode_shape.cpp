// SPDX-License-Identifier: MIT
#include "model/cuda/decode_shape.h"

#include <algorithm>
#include <array>
#include <bit>

namespace cheetah {
namespace {

constexpr std::array<int64_t, 17> kRows = {
    1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256, 384, 512};
constexpr uint64_t kLeastContext = 1024;

}  // namespace

std::optional<DecodeShape> decode_shape(const ForwardBatch& batch) {
  const auto rows = std::ssize(batch.tokens);
  if (rows == 0 || rows > kRows.back() || std::ssize(batch.sequences) != rows ||
      std::ssize(batch.logit_rows) != rows || !batch.hidden_rows.empty())
    return std::nullopt;
  int64_t longest = 0;
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    if (batch.sequences[i].query_count != 1 || batch.logit_rows[i] != static_cast<int64_t>(i))
      return std::nullopt;
    longest = std::max(longest, batch.sequences[i].context_tokens);
  }
  return DecodeShape{.rows = *std::ranges::lower_bound(kRows, rows),
      .context =
          static_cast<int64_t>(std::bit_ceil(std::max(kLeastContext, static_cast<uint64_t>(longest))))};
}

}  // namespace cheetah
