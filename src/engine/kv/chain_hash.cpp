// SPDX-License-Identifier: MIT
#include "engine/kv/chain_hash.h"

#include <iterator>

#include "base/hash.h"
#include "model/rope_scaling.h"

namespace cheetah {
namespace {

constexpr uint64_t kSeed = 0x43484545'54414831;  // changing it renames everything: all processes at once

// Two different previous values stay different, and so do two different words.
uint64_t join(uint64_t hash, uint64_t word) { return mix64(hash * kGoldenRatio64 + mix64(word + kSeed)); }

}  // namespace

uint64_t chain_begin(std::string_view salt) {
  uint64_t hash = join(kSeed, salt.size());
  for (const char byte : salt) hash = join(hash, static_cast<uint8_t>(byte));
  return hash;
}

uint64_t chain_after(uint64_t before, std::span<const int32_t> page) {
  uint64_t hash = before;
  for (const int32_t token : page) hash = join(hash, static_cast<uint32_t>(token));
  return hash == 0 ? kSeed : hash;
}

std::string prefix_salt(std::string_view cache_salt, bool long_factors) {
  return std::string(long_factors ? "long " : "short ").append(cache_salt);
}

std::vector<uint64_t> chain_hashes(const ModelTraits& traits, std::string_view cache_salt,
    std::span<const int32_t> tokens, int64_t page_tokens) {
  const bool is_long = rope_changes(traits, 1, std::ssize(tokens));
  uint64_t hash = chain_begin(prefix_salt(cache_salt, is_long));
  std::vector<uint64_t> hashes;
  const auto width = static_cast<size_t>(page_tokens);
  for (; tokens.size() >= width; tokens = tokens.subspan(width))
    hashes.push_back(hash = chain_after(hash, tokens.first(width)));
  return hashes;
}

}  // namespace cheetah
