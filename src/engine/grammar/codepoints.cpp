// SPDX-License-Identifier: MIT
#include "engine/grammar/codepoints.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "base/format.h"
#include "engine/grammar/utf8.h"

namespace cheetah {
namespace {

constexpr uint32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

// In utf8proc's order of categories.
constexpr std::array<std::string_view, 30> kCategories = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc",
    "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl",
    "Zp", "Cc", "Cf", "Cs", "Co"};

// Splits where the lower bits of first and last would make one product of byte ranges match too much.
void split_paths(uint32_t first, uint32_t last, std::vector<ByteRanges>& out) {
  constexpr uint32_t kLastOfLength[] = {0x7F, 0x7FF, 0xFFFF};
  for (const uint32_t edge : kLastOfLength)
    if (first <= edge && edge < last) {
      split_paths(first, edge, out);
      return split_paths(edge + 1, last, out);
    }
  if (last > 0x7F) {
    for (int i = 1; i < 4; ++i) {
      const uint32_t low_bits = (1u << (6 * i)) - 1;
      if ((first & ~low_bits) == (last & ~low_bits)) continue;
      if ((first & low_bits) != 0) {
        split_paths(first, first | low_bits, out);
        return split_paths((first | low_bits) + 1, last, out);
      }
      if ((last & low_bits) != low_bits) {
        split_paths(first, (last & ~low_bits) - 1, out);
        return split_paths(last & ~low_bits, last, out);
      }
    }
  }
  std::string low, high;
  append_utf8(low, first);
  append_utf8(high, last);
  ByteRanges path;
  path.length = static_cast<int>(low.size());
  for (size_t i = 0; i < low.size(); ++i)
    path.bytes[i] = {static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i])};
  out.push_back(path);
}

}  // namespace

CodepointSet::CodepointSet(std::vector<Range> ranges) {
  std::vector<Range> parts;
  for (const Range& range : ranges) {
    if (range.first < kFirstSurrogate)
      parts.push_back({range.first, std::min(range.last, kFirstSurrogate - 1)});
    if (range.last > kLastSurrogate) parts.push_back({std::max(range.first, kLastSurrogate + 1), range.last});
  }
  std::sort(parts.begin(), parts.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  for (const Range& range : parts) {
    if (range.first > range.last) continue;
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1)
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    else
      ranges_.push_back(range);
  }
}

bool CodepointSet::contains(uint32_t codepoint) const {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), codepoint,
      [](uint32_t value, const Range& range) { return value < range.first; });
  return after != ranges_.begin() && codepoint <= std::prev(after)->last;
}

bool CodepointSet::contains(const CodepointSet& other) const { return intersected(other) == other; }

CodepointSet CodepointSet::complement() const {
  std::vector<Range> gaps;
  uint32_t next = 0;
  for (const Range& range : ranges_) {
    if (range.first > next) gaps.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodepoint) gaps.push_back({next, kLastCodepoint});
  return CodepointSet(std::move(gaps));
}

CodepointSet CodepointSet::united(const CodepointSet& other) const {
  std::vector<Range> both = ranges_;
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  return CodepointSet(std::move(both));
}

CodepointSet CodepointSet::intersected(const CodepointSet& other) const {
  return complement().united(other.complement()).complement();
}

const CodepointSet& plain_json_characters() {
  static const CodepointSet kPlain({{0x20, 0x21}, {0x23, 0x5B}, {0x5D, kLastCodepoint}});
  return kPlain;
}

std::vector<ByteRanges> utf8_ranges(uint32_t first, uint32_t last) {
  std::vector<ByteRanges> paths;
  split_paths(first, last, paths);
  return paths;
}

CodepointSet unicode_class(std::string_view name) {
  if (name == "Any") return CodepointSet::all();
  const auto wanted = [&](int category) {
    const std::string_view known = kCategories[static_cast<size_t>(category)];
    return name.size() == 1 ? known[0] == name[0] : known == name;
  };
  bool known = false;
  for (int category = 0; category < static_cast<int>(kCategories.size()); ++category)
    known = known || wanted(category);
  if (!known)
    throw Error(
        format("unknown Unicode class \\p{{{}}}: expected a general category such as L, Lu or Nd", name));
  std::vector<CodepointSet::Range> ranges;
  for (uint32_t c = 0; c <= kLastCodepoint; ++c) {
    if (!wanted(utf8proc_category(static_cast<utf8proc_int32_t>(c)))) continue;
    if (!ranges.empty() && ranges.back().last + 1 == c)
      ranges.back().last = c;
    else
      ranges.push_back({c, c});
  }
  return CodepointSet(std::move(ranges));
}

}  // namespace cheetah
