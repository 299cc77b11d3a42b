// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace cheetah {

constexpr uint32_t kLastCodepoint = 0x10FFFF;

// A set of Unicode scalar values (no surrogates) as sorted, disjoint, non-adjacent ranges.
class CodepointSet {
 public:
  struct Range {
    uint32_t first, last;
    bool operator==(const Range&) const = default;
  };

  CodepointSet() = default;
  explicit CodepointSet(std::vector<Range> ranges);  // in any order, overlaps allowed
  static CodepointSet all() { return CodepointSet({{0, kLastCodepoint}}); }

  const std::vector<Range>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  bool contains(uint32_t codepoint) const;
  bool contains(const CodepointSet& other) const;
  CodepointSet complement() const;
  CodepointSet united(const CodepointSet& other) const;
  CodepointSet intersected(const CodepointSet& other) const;
  bool operator==(const CodepointSet&) const = default;

 private:
  std::vector<Range> ranges_;
};

// The characters that stand for themselves inside a JSON string.
const CodepointSet& plain_json_characters();

// A sequence of byte ranges, 1 to 4 long: one path through UTF-8.
struct ByteRanges {
  struct Range {
    uint8_t low, high;
  };
  Range bytes[4];
  int length = 0;
};

// The paths that together match exactly the UTF-8 forms of first to last (both of the same encoded length or
// not).
std::vector<ByteRanges> utf8_ranges(uint32_t first, uint32_t last);

// \p{name}: a general category ("L", "Lu", "Nd" …) or "Any". Throws Error for a name that is not known.
CodepointSet unicode_class(std::string_view name);

}  // namespace cheetah
