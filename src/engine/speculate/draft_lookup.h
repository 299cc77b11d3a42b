// SPDX-License-Identifier: MIT
#pragma once
// Drafts without a model: what followed the last time the text read as it does at its end.
#include <cstdint>
#include <span>
#include <vector>

namespace cheetah {

// The index of one text, kept up as the text grows: chains of the places where two tokens stood, as in a compressor
// that looks for matches. Bounded: places further back than the window are not found.
class DraftLookup {
 public:
  static constexpr int64_t kLeastMatch = 2, kLongestMatch = 32;

  // Appends up to `count` tokens that may follow `text`, which begins with the text of the call before. Returns how
  // many tokens at the text's end stood before what was appended; 0: nothing was found.
  int64_t propose(std::span<const int32_t> text, int64_t count, std::vector<int32_t>& draft);

 private:
  void index(std::span<const int32_t> text);
  void grow(std::span<const int32_t> text);
  size_t bucket_of(std::span<const int32_t> text, int64_t end) const;
  void add(std::span<const int32_t> text, int64_t end);

  std::vector<int64_t> newest_;  // by bucket: where the newest pair ends; -1: none
  std::vector<int64_t> before_;  // by place, modulo its size: the place before it in the same bucket
  int64_t num_indexed_ = 0;      // pairs end before it
};

}  // namespace cheetah
