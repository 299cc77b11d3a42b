// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cheetah {

// Limits of what a tokenizer file may hold.
inline constexpr int64_t kMaxVocabulary = 1'000'000;
inline constexpr int64_t kMaxMerges = 2'000'000;
inline constexpr int64_t kMaxAddedTokens = 65'536;
inline constexpr int64_t kMaxTokenBytes = 65'536;

// A look-up from strings to ids: open addressing over one arena of bytes, so a miss costs one cache line.
class StringTable {
 public:
  void reserve(int64_t count);
  // False when the key is there already (and keeps its value).
  bool insert(std::string_view key, int32_t value);
  std::optional<int32_t> find(std::string_view key) const;
  int64_t size() const { return count_; }

 private:
  struct Slot {
    uint32_t tag = 0;  // upper half of the hash; 0: free
    int32_t value = 0;
    uint32_t offset = 0;
    uint32_t length = 0;
  };
  const Slot* locate(std::string_view key, uint64_t hash) const;
  void grow(int64_t slots);
  std::vector<Slot> slots_;
  std::string arena_;
  int64_t count_ = 0;
};

// The tokens of a model: string to id and id to string. Ids may have holes.
class Vocabulary {
 public:
  void reserve(int64_t count);
  // Throws Error, prefixed with `name`, on a negative or repeated id, a repeated token or one out of limits.
  void add(std::string_view token, int64_t id, const std::string& name);
  std::optional<int32_t> find(std::string_view token) const { return table_.find(token); }
  bool has(int32_t id) const;
  std::string_view text(int32_t id) const;  // empty when there is no such id
  int64_t id_limit() const { return static_cast<int64_t>(entries_.size()); }  // highest id + 1
  int64_t size() const { return table_.size(); }

 private:
  struct Entry {
    uint32_t offset = 0;
    uint32_t length = 0;
    bool present = false;
  };
  StringTable table_;
  std::string arena_;
  std::vector<Entry> entries_;
};

}  // namespace cheetah
