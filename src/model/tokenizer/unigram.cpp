// SPDX-License-Identifier: MIT
#include "model/tokenizer/unigram.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/unicode.h"

namespace cheetah {

constexpr double kUnknownPenalty = 10.0;  // SentencePiece's: an unknown character is worse than every token

Unigram::Unigram(
    const Vocabulary& vocabulary, std::vector<double> scores, UnigramOptions options, const std::string& name)
    : vocabulary_(vocabulary), scores_(std::move(scores)), options_(options) {
  double lowest = scores_.empty() ? 0 : INFINITY;
  for (size_t id = 0; id < scores_.size(); ++id) {
    if (!std::isfinite(scores_[id]))
      throw Error(format("{}: token {} has the score {}, expected a finite number", name, id, scores_[id]));
    lowest = std::min(lowest, scores_[id]);
    const std::string_view token = vocabulary.text(static_cast<int32_t>(id));
    if (!token.empty()) trie_.insert(token, static_cast<int32_t>(id));
  }
  unk_score_ = lowest - kUnknownPenalty;
  for (int byte = 0; byte < 256; ++byte)
    byte_ids_[static_cast<size_t>(byte)] =
        vocabulary.find(byte_fallback_token(static_cast<uint8_t>(byte))).value_or(-1);
}

int32_t Unigram::unk_id() const {
  if (!options_.unk_id)
    throw Error("tokenizer: the Unigram model has no unknown token (unk_id), but the text needs it");
  return *options_.unk_id;
}

std::vector<Unigram::Node> Unigram::best_paths(std::string_view piece) const {
  std::vector<Node> nodes(piece.size() + 1);
  const auto offer = [&](size_t begin, size_t end, double score, int32_t id) {
    Node& node = nodes[end];
    const double total = score + nodes[begin].score;
    if (node.begin < 0 || total > node.score) node = {total, id, static_cast<int32_t>(begin)};
  };
  for (size_t begin = 0; begin < piece.size();) {
    const auto char_length = static_cast<size_t>(utf8_length(static_cast<unsigned char>(piece[begin])));
    bool has_single = false;
    int32_t node = ByteTrie::kRoot;
    for (size_t at = begin; at < piece.size(); ++at) {
      node = trie_.step(node, piece[at]);
      if (node == ByteTrie::kNone) break;
      const int32_t id = trie_.value(node);
      if (id == ByteTrie::kNone) continue;
      offer(begin, at + 1, scores_[static_cast<size_t>(id)], id);
      has_single = has_single || at + 1 - begin == char_length;
    }
    if (!has_single) offer(begin, begin + char_length, unk_score_, unk_id());
    begin += char_length;
  }
  return nodes;
}

void Unigram::append_unknown(std::string_view text, std::vector<int32_t>& ids) const {
  if (const auto id = vocabulary_.find(text)) return ids.push_back(*id);
  const bool bytes = options_.byte_fallback && std::all_of(text.begin(), text.end(), [&](char byte) {
    return byte_ids_[static_cast<unsigned char>(byte)] >= 0;
  });
  if (!bytes) return ids.push_back(unk_id());
  for (const char byte : text) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
}

// Walks the best path backwards; neighbouring unknown characters become one unknown token.
void Unigram::tokenize(std::string_view piece, std::vector<int32_t>& ids) const {
  const std::vector<Node> nodes = best_paths(piece);
  std::vector<std::pair<size_t, size_t>> parts;
  bool after_unknown = false;
  for (size_t end = piece.size(); end > 0;) {
    const auto begin = static_cast<size_t>(nodes[end].begin);
    const bool unknown = options_.unk_id && nodes[end].id == *options_.unk_id;
    if (unknown && after_unknown)
      parts.back().first = begin;
    else
      parts.emplace_back(begin, end);
    after_unknown = unknown;
    end = begin;
  }
  for (size_t i = parts.size(); i-- > 0;) {
    const auto [begin, end] = parts[i];
    const Node& node = nodes[end];
    if (static_cast<size_t>(node.begin) == begin && (!options_.unk_id || node.id != *options_.unk_id))
      ids.push_back(node.id);
    else
      append_unknown(piece.substr(begin, end - begin), ids);
  }
}

}  // namespace cheetah
