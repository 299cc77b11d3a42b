// SPDX-License-Identifier: MIT
#include "model/tokenizer/vocabulary.h"

#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

// Eight bytes per step, multiply and fold: short keys dominate, so the set-up must cost nothing.
uint64_t hash_of(std::string_view key) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15ULL;
  uint64_t hash = key.size() * kMultiplier;
  const char* at = key.data();
  size_t left = key.size();
  for (; left >= 8; at += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    hash = (std::rotl(hash, 23) ^ word) * kMultiplier;
  }
  if (left > 0) {
    uint64_t word = 0;
    std::memcpy(&word, at, left);
    hash = (std::rotl(hash, 23) ^ word) * kMultiplier;
  }
  hash ^= hash >> 32;
  return hash * kMultiplier;
}

uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32) | 1U; }

}  // namespace

void StringTable::reserve(int64_t count) {
  const auto wanted = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count) * 2 + 8));
  if (wanted > std::ssize(slots_)) grow(wanted);
}

void StringTable::grow(int64_t slots) {
  std::vector<Slot> old(static_cast<size_t>(slots));
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.tag == 0) continue;
    size_t at = hash_of({arena_.data() + slot.offset, slot.length}) & mask;
    while (slots_[at].tag != 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

const StringTable::Slot* StringTable::locate(std::string_view key, uint64_t hash) const {
  if (slots_.empty()) return nullptr;
  const size_t mask = slots_.size() - 1;
  const uint32_t tag = tag_of(hash);
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.tag == 0) return nullptr;
    if (slot.tag == tag && slot.length == key.size() &&
        std::memcmp(arena_.data() + slot.offset, key.data(), key.size()) == 0)
      return &slot;
  }
}

bool StringTable::insert(std::string_view key, int32_t value) {
  const uint64_t hash = hash_of(key);
  if (locate(key, hash)) return false;
  if (arena_.size() + key.size() > UINT32_MAX) throw Error("tokenizer: more than 4 GiB of token text");
  reserve(count_ + 1);
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].tag != 0) at = (at + 1) & mask;
  slots_[at] = {tag_of(hash), value, static_cast<uint32_t>(arena_.size()), static_cast<uint32_t>(key.size())};
  arena_ += key;
  ++count_;
  return true;
}

std::optional<int32_t> StringTable::find(std::string_view key) const {
  const Slot* slot = locate(key, hash_of(key));
  return slot ? std::optional<int32_t>(slot->value) : std::nullopt;
}

void Vocabulary::reserve(int64_t count) {
  table_.reserve(count);
  entries_.reserve(static_cast<size_t>(count));
}

void Vocabulary::add(std::string_view token, int64_t id, const std::string& name) {
  if (id < 0 || id >= kMaxVocabulary)
    throw Error(format(
        "{}: token \"{}\" has id {}, expected 0 to {}", name, printable(token), id, kMaxVocabulary - 1));
  if (std::ssize(token) > kMaxTokenBytes)
    throw Error(format("{}: the token with id {} has {} bytes, more than the limit of {}", name, id,
        token.size(), kMaxTokenBytes));
  if (id >= std::ssize(entries_)) entries_.resize(static_cast<size_t>(id) + 1);
  Entry& entry = entries_[static_cast<size_t>(id)];
  if (entry.present)
    throw Error(format("{}: tokens \"{}\" and \"{}\" share the id {}", name,
        printable(text(static_cast<int32_t>(id))), printable(token), id));
  if (!table_.insert(token, static_cast<int32_t>(id)))
    throw Error(format("{}: token \"{}\" stands twice in the vocabulary", name, printable(token)));
  entry = {static_cast<uint32_t>(arena_.size()), static_cast<uint32_t>(token.size()), true};
  arena_ += token;
}

bool Vocabulary::has(int32_t id) const {
  return id >= 0 && id < std::ssize(entries_) && entries_[static_cast<size_t>(id)].present;
}

std::string_view Vocabulary::text(int32_t id) const {
  if (!has(id)) return {};
  const Entry& entry = entries_[static_cast<size_t>(id)];
  return std::string_view(arena_).substr(entry.offset, entry.length);
}

}  // namespace cheetah
