// SPDX-License-Identifier: MIT
#include "engine/speculate/draft_lookup.h"

#include <algorithm>
#include <bit>

namespace cheetah {
namespace {

constexpr int64_t kWindow = 32768;
constexpr int64_t kLeastSize = 256;
// Older places are less likely to read on as the text does, and a long chain is a frequent pair.
constexpr int kMostTried = 16;

int64_t match_length(std::span<const int32_t> text, int64_t end) {
  const auto last = std::ssize(text) - 1;
  int64_t length = 0;
  while (length < DraftLookup::kLongestMatch && length <= end &&
         text[static_cast<size_t>(end - length)] == text[static_cast<size_t>(last - length)])
    ++length;
  return length;
}

}  // namespace

size_t DraftLookup::bucket_of(std::span<const int32_t> text, int64_t end) const {
  const auto first = static_cast<uint32_t>(text[static_cast<size_t>(end - 1)]);
  const auto second = static_cast<uint32_t>(text[static_cast<size_t>(end)]);
  const uint64_t mixed = ((static_cast<uint64_t>(first) << 32) | second) * 0x9E3779B97F4A7C15u;
  return static_cast<size_t>(mixed >> 32) & (newest_.size() - 1);
}

void DraftLookup::add(std::span<const int32_t> text, int64_t end) {
  int64_t& newest = newest_[bucket_of(text, end)];
  before_[static_cast<size_t>(end) & (before_.size() - 1)] = newest;
  newest = end;
}

// The tables follow the text's length, so that a short text costs little.
void DraftLookup::grow(std::span<const int32_t> text) {
  const auto wanted =
      static_cast<size_t>(std::clamp(static_cast<int64_t>(std::bit_ceil(text.size())), kLeastSize, kWindow));
  if (wanted <= newest_.size()) return;
  newest_.assign(wanted, -1);
  before_.assign(wanted, -1);
  num_indexed_ = std::max<int64_t>(1, std::ssize(text) - static_cast<int64_t>(wanted));
}

void DraftLookup::index(std::span<const int32_t> text) {
  grow(text);
  for (; num_indexed_ < std::ssize(text) - 1; ++num_indexed_) add(text, num_indexed_);
}

int64_t DraftLookup::propose(std::span<const int32_t> text, int64_t count, std::vector<int32_t>& draft) {
  const auto size = std::ssize(text);
  if (size <= kLeastMatch || count <= 0) return 0;
  index(text);
  int64_t best_end = -1, best = kLeastMatch - 1;
  const int64_t oldest = size - std::ssize(before_);
  int64_t end = newest_[bucket_of(text, size - 1)];
  for (int tried = 0; end >= std::max<int64_t>(1, oldest) && tried < kMostTried; ++tried) {
    if (const int64_t length = match_length(text, end); length > best) {
      best = length;
      best_end = end;
    }
    if (best >= kLongestMatch) break;
    end = before_[static_cast<size_t>(end) & (before_.size() - 1)];
  }
  if (best_end < 0) return 0;
  const int64_t from = std::ssize(draft) - size;  // a text that repeats itself reads on in its own draft
  for (int64_t at = best_end + 1; count-- > 0; ++at)
    draft.push_back(at < size ? text[static_cast<size_t>(at)] : draft[static_cast<size_t>(from + at)]);
  return best;
}

}  // namespace cheetah
