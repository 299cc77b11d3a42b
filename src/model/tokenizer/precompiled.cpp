// SPDX-License-Identifier: MIT
#include <utf8proc.h>

#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "base/base64.h"
#include "base/error.h"
#include "base/format.h"
#include "model/tokenizer/normalizer.h"
#include "model/tokenizer/unicode.h"

namespace cheetah {
namespace {

std::string decode_base64(std::string_view text, const std::string& name) {
  std::string padded(text);  // some tools leave the padding out
  padded.append((4 - padded.size() % 4) % 4, '=');
  auto bytes = from_base64(padded);
  if (!bytes) throw Error(format("{}: precompiled_charsmap is not base64", name));
  return std::move(*bytes);
}

// A darts-clone double array: each unit is 32 bits with a label, the offset of its children and a leaf mark.
class DoubleArray {
 public:
  void assign(std::vector<uint32_t> units) { units_ = std::move(units); }
  // The value of the shortest key that starts the text. Offsets that leave the array end the search.
  std::optional<uint32_t> first_prefix(std::string_view text) const {
    if (units_.empty()) return std::nullopt;
    size_t at = offset(units_[0]);
    for (const char byte : text) {
      const auto label = static_cast<unsigned char>(byte);
      if (label == 0) break;
      at ^= label;
      if (at >= units_.size() || (units_[at] & kLabelMask) != label) return std::nullopt;
      const bool has_leaf = (units_[at] >> 8 & 1) != 0;
      at ^= offset(units_[at]);
      if (!has_leaf) continue;
      if (at >= units_.size()) return std::nullopt;
      return units_[at] & 0x7FFFFFFF;
    }
    return std::nullopt;
  }

 private:
  static constexpr uint32_t kLabelMask = 0x800000FF;
  static size_t offset(uint32_t unit) { return size_t{unit >> 10} << ((unit & (1U << 9)) >> 6); }
  std::vector<uint32_t> units_;
};

class Precompiled : public Normalizer {
 public:
  Precompiled(std::string_view table, const std::string& name) {
    uint32_t trie_bytes = 0;
    if (table.size() < 4)
      throw Error(format("{}: precompiled_charsmap has {} bytes, expected a table", name, table.size()));
    std::memcpy(&trie_bytes, table.data(), 4);
    if (trie_bytes % 4 != 0 || trie_bytes > table.size() - 4)
      throw Error(format("{}: precompiled_charsmap says its trie has {} bytes, but {} follow", name,
          trie_bytes, table.size() - 4));
    std::vector<uint32_t> units(trie_bytes / 4);
    std::memcpy(units.data(), table.data() + 4, trie_bytes);
    trie_.assign(std::move(units));
    strings_ = table.substr(4 + trie_bytes);
    if (!is_valid_utf8(strings_))
      throw Error(format("{}: precompiled_charsmap holds text that is not UTF-8", name));
  }

  // A whole grapheme is looked up first, then its characters; in both cases the shortest entry decides.
  void apply(NormalText& text) const override {
    std::string out;
    out.reserve(text.text.size());
    for (std::string_view left = text.text; !left.empty();) {
      const std::string_view grapheme = left.substr(0, grapheme_length(left));
      left.remove_prefix(grapheme.size());
      const auto whole = grapheme.size() < 6 ? transform(grapheme) : std::nullopt;
      if (whole)
        out += *whole;
      else
        append_chars(grapheme, out);
    }
    text.text = std::move(out);
  }

 private:
  std::optional<std::string_view> transform(std::string_view part) const {
    const auto index = trie_.first_prefix(part);
    if (!index || *index >= strings_.size()) return std::nullopt;
    const std::string_view tail = std::string_view(strings_).substr(*index);
    if ((static_cast<unsigned char>(tail[0]) & 0xC0) == 0x80)
      return std::nullopt;  // points inside a character
    return tail.substr(0, tail.find('\0'));
  }

  void append_chars(std::string_view grapheme, std::string& out) const {
    while (!grapheme.empty()) {
      const auto length = static_cast<size_t>(utf8_length(static_cast<unsigned char>(grapheme[0])));
      const std::string_view part = grapheme.substr(0, length);
      out += transform(part).value_or(part);
      grapheme.remove_prefix(length);
    }
  }

  static size_t grapheme_length(std::string_view text) {
    int64_t at = 0;
    auto previous = static_cast<utf8proc_int32_t>(next_char(text, at));
    utf8proc_int32_t state = 0;
    while (at < std::ssize(text)) {
      int64_t behind = at;
      const auto c = static_cast<utf8proc_int32_t>(next_char(text, behind));
      if (utf8proc_grapheme_break_stateful(previous, c, &state)) break;
      previous = c;
      at = behind;
    }
    return static_cast<size_t>(at);
  }

  DoubleArray trie_;
  std::string strings_;  // replacements, each ended by a zero byte
};

// An empty table: the text stays as it is.
class Unchanged : public Normalizer {
 public:
  void apply(NormalText&) const override {}
};

}  // namespace

std::unique_ptr<Normalizer> make_precompiled(const std::string& base64, const std::string& name) {
  return make_precompiled_table(decode_base64(base64, name), name);
}

std::unique_ptr<Normalizer> make_precompiled_table(std::string_view table, const std::string& name) {
  if (table.empty()) return std::make_unique<Unchanged>();
  return std::make_unique<Precompiled>(table, name);
}

}  // namespace cheetah
