// SPDX-License-Identifier: MIT
#include "engine/grammar/token_masks.h"

#include <algorithm>
#include <bit>

namespace cheetah {
namespace {

constexpr int64_t kFullBytes = int64_t{64} << 20;

void set_bit(std::span<uint64_t> words, int32_t id) {
  words[static_cast<size_t>(id) / 64] |= uint64_t{1} << (static_cast<uint32_t>(id) % 64);
}

}  // namespace

TokenMasks::TokenMasks(const Automaton& automaton, const TokenVocabulary& vocabulary)
    : vocabulary_(vocabulary),
      text_classes_(automaton.text_classes),
      configurations_(automaton),
      path_(TokenVocabulary::kMaxTokenBytes + 1),
      path_left_known_(TokenVocabulary::kMaxTokenBytes + 1) {}

bool TokenMasks::full() const { return bytes() > kFullBytes; }

void TokenMasks::accept_ranks(int32_t first, int32_t last, std::vector<uint64_t>& words) const {
  const std::span<const int32_t> ids = vocabulary_.ids_by_rank();
  for (int32_t rank = first; rank < last; ++rank) set_bit(words, ids[static_cast<size_t>(rank)]);
}

TokenMasks::Mask TokenMasks::compute(ConfigId cut) {
  Mask mask;
  mask.words.assign(vocabulary_.mask_words(), 0);
  const std::span<const TokenVocabulary::Node> nodes = vocabulary_.nodes();
  const int64_t work_limit = configurations_.work() + kMaxWork;
  path_[0] = cut;
  path_left_known_[0] = 0;
  const auto end = static_cast<int32_t>(nodes.size()) - 1;
  for (int32_t i = 0; i < end;) {
    const TokenVocabulary::Node& node = nodes[static_cast<size_t>(i)];
    const size_t depth = node.depth;
    const ConfigId to = configurations_.after(path_[depth - 1], node.byte);
    const int32_t subtree_end_token = nodes[static_cast<size_t>(node.subtree_end)].first_token;
    if (to == ConfigId::kDead) {
      if (path_left_known_[depth - 1])
        for (int32_t rank = node.first_token; rank < subtree_end_token; ++rank)
          mask.undecided.push_back(rank);
      i = node.subtree_end;
      continue;
    }
    const TextRun run = configurations_.run(to);
    if (node.text_height <= run.length &&
        vocabulary_.text_below(i).within(text_classes_[static_cast<size_t>(run.text_class)])) {
      accept_ranks(node.first_token, subtree_end_token, mask.words);
      i = node.subtree_end;
      continue;
    }
    if (configurations_.work() > work_limit)
      return {.words = {}, .ids = {}, .undecided = {}, .too_complex = true};
    path_[depth] = to;
    path_left_known_[depth] = path_left_known_[depth - 1] || configurations_.left_known(to);
    accept_ranks(node.first_token, nodes[static_cast<size_t>(i) + 1].first_token, mask.words);
    ++i;
  }
  return mask;
}

const TokenMasks::Mask& TokenMasks::mask_of(ConfigId cut) {
  const auto [found, fresh] = masks_.try_emplace(static_cast<int32_t>(cut));
  Mask& mask = found->second;
  if (!fresh) return mask;
  mask = compute(cut);
  size_t allowed = 0;
  for (const uint64_t word : mask.words) allowed += static_cast<size_t>(std::popcount(word));
  if (allowed < mask.words.size()) {
    mask.ids.reserve(allowed);
    for (size_t w = 0; w < mask.words.size(); ++w)
      for (uint64_t rest = mask.words[w]; rest != 0; rest &= rest - 1)
        mask.ids.push_back(static_cast<int32_t>(w * 64) + std::countr_zero(rest));
    mask.words = {};
  }
  mask.undecided.shrink_to_fit();
  mask_bytes_ += static_cast<int64_t>(sizeof(Mask) + 64 + mask.words.size() * sizeof(uint64_t) +
                                      (mask.ids.size() + mask.undecided.size()) * sizeof(int32_t));
  return mask;
}

// In the order of their bytes, so that what a token shares with the one before is not walked again. `accept`
// returns false to stop.
template <class Accept>
void TokenMasks::try_undecided(const Mask& mask, ConfigId config, const Accept& accept) {
  const int64_t work_limit = configurations_.work() + kMaxWork;
  const std::span<const int32_t> ids = vocabulary_.ids_by_rank();
  path_[0] = config;
  size_t walked = 0;  // path_[0 .. walked] belongs to the token before
  std::string_view before;
  for (const int32_t rank : mask.undecided) {
    const std::string_view bytes = vocabulary_.bytes(ids[static_cast<size_t>(rank)]);
    const auto differs = std::mismatch(before.begin(), before.end(), bytes.begin(), bytes.end());
    const auto shared = static_cast<size_t>(differs.first - before.begin());
    before = bytes;
    walked = std::min(walked, shared);
    while (walked < bytes.size() && path_[walked] != ConfigId::kDead) {
      path_[walked + 1] = configurations_.after(path_[walked], static_cast<uint8_t>(bytes[walked]));
      ++walked;
    }
    if (path_[walked] != ConfigId::kDead && !accept(ids[static_cast<size_t>(rank)])) return;
    if (configurations_.work() > work_limit) return;
  }
}

bool TokenMasks::fill(ConfigId config, std::span<uint64_t> words) {
  std::fill(words.begin(), words.end(), 0);
  if (config == ConfigId::kDead) return false;
  const Mask& mask = mask_of(configurations_.cut(config));
  if (mask.too_complex) return false;
  std::copy(mask.words.begin(), mask.words.end(), words.begin());
  for (const int32_t id : mask.ids) set_bit(words, id);
  bool any = !mask.words.empty() || !mask.ids.empty();
  try_undecided(mask, config, [&](int32_t id) {
    set_bit(words, id);
    return any = true;
  });
  if (configurations_.complete(config))
    for (const int32_t id : vocabulary_.eos_ids()) {
      set_bit(words, id);
      any = true;
    }
  return any;
}

bool TokenMasks::any(ConfigId config) {
  if (config == ConfigId::kDead) return false;
  if (configurations_.complete(config) && !vocabulary_.eos_ids().empty()) return true;
  const Mask& mask = mask_of(configurations_.cut(config));
  if (mask.too_complex) return false;
  if (!mask.words.empty() || !mask.ids.empty()) return true;
  bool found = false;
  try_undecided(mask, config, [&](int32_t) { return !(found = true); });
  return found;
}

}  // namespace cheetah
