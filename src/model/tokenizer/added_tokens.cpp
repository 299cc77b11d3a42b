// SPDX-License-Identifier: MIT
#include "model/tokenizer/added_tokens.h"

#include <algorithm>

#include "model/tokenizer/regex.h"
#include "model/tokenizer/unicode.h"

namespace cheetah {
namespace {

int64_t previous_char_start(std::string_view text, int64_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[static_cast<size_t>(at)]) & 0xC0) == 0x80);
  return at;
}

bool touches_word(std::string_view text, int64_t begin, int64_t end) {
  if (begin > 0) {
    int64_t at = previous_char_start(text, begin);
    if (is_word_char(next_char(text, at))) return true;
  }
  if (end == std::ssize(text)) return false;
  int64_t at = end;
  return is_word_char(next_char(text, at));
}

int64_t skip_spaces_back(std::string_view text, int64_t from) {
  while (from > 0) {
    const int64_t start = previous_char_start(text, from);
    int64_t at = start;
    if (!is_space(next_char(text, at))) break;
    from = start;
  }
  return from;
}

int64_t skip_spaces(std::string_view text, int64_t from) {
  while (from < std::ssize(text)) {
    int64_t at = from;
    if (!is_space(next_char(text, at))) break;
    from = at;
  }
  return from;
}

}  // namespace

void AddedTokens::add(AddedToken token, const Normalize& normalize) {
  Finder& into = token.normalized ? normalized_ : raw_;
  const std::string pattern = token.normalized ? normalize(token.content) : token.content;
  if (!pattern.empty()) {
    into.trie.insert(pattern, token.id);
    into.first_bytes.set(static_cast<unsigned char>(pattern[0]));
    ++into.count;
  }
  if (token.special) special_.insert(token.content);
  id_limit_ = std::max(id_limit_, int64_t{token.id} + 1);
  by_content_[token.content] = token.id;
  by_id_[token.id] = std::move(token);
}

std::vector<Segment> AddedTokens::split(std::string_view text, Text kind, bool parse_special) const {
  std::vector<Segment> segments;
  const Finder& search = finder(kind);
  const int64_t size = std::ssize(text);
  int64_t done = 0;
  for (int64_t at = 0; search.count > 0 && at < size;) {
    if (!search.first_bytes[static_cast<unsigned char>(text[static_cast<size_t>(at)])]) {
      ++at;
      continue;
    }
    int64_t end = at;
    int32_t id = ByteTrie::kNone, node = ByteTrie::kRoot;
    for (int64_t i = at; i < size; ++i) {
      node = search.trie.step(node, text[static_cast<size_t>(i)]);
      if (node == ByteTrie::kNone) break;
      if (search.trie.value(node) == ByteTrie::kNone) continue;
      id = search.trie.value(node);
      end = i + 1;
    }
    if (id == ByteTrie::kNone) {
      ++at;
      continue;
    }
    int64_t begin = at;
    at = end;
    const AddedToken& token = by_id_.at(id);
    if (token.special && !parse_special) continue;
    if (token.single_word && touches_word(text, begin, end)) continue;
    if (token.lstrip) begin = std::max(skip_spaces_back(text, begin), done);
    if (token.rstrip) end = skip_spaces(text, end);
    if (done < begin) segments.push_back({done, begin, nullptr});
    segments.push_back({begin, end, &token});
    done = end;
  }
  if (done < size) segments.push_back({done, size, nullptr});
  return segments;
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto at = by_content_.find(std::string(content));
  return at == by_content_.end() ? nullptr : find(at->second);
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : &at->second;
}

}  // namespace cheetah
