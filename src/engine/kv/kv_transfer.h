// SPDX-License-Identifier: MIT
#pragma once
// Pages on their way between engines, perhaps of two processes. What arrives goes into the prefix cache, so a
// page that is lost, late or refused only costs the time to compute it here.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"

namespace cheetah {

// What an engine's pages look like. Pages move as they are between engines where all of this is equal.
struct KvFormat {
  std::string dtype;  // of keys and values
  std::string order;  // keys_by_dimension or keys_by_token: how a head's keys lie in a page
  int64_t page_tokens = 0;
  int64_t num_layers = 0;                                // in the pages of one place, unused room included
  int64_t num_kv_heads = 0, key_dim = 0, value_dim = 0;  // value_dim 0: values are read from the keys' rows
  std::vector<int64_t> windows;                          // of each group of layers; 0: none
  int64_t page_bytes = 0;                                // of one group
  int64_t num_pages = 0;

  bool operator==(const KvFormat&) const = default;
  int64_t num_groups() const { return std::ssize(windows); }
  // A place has a page of every group: they travel together, group after group.
  int64_t place_bytes() const { return num_groups() * page_bytes; }
  // Pages before a group's window are not sent: their room is zeros.
  int64_t bytes_for(int64_t tokens) const { return tokens / page_tokens * place_bytes(); }
};

// How far an export has come. Comes after each chunk of the prompt; nothing follows finished or failed.
struct KvProgress {
  int64_t tokens_ready = 0;  // from the prompt's beginning, in whole pages
  bool finished = false;
  bool failed = false;  // the request ended before
  std::string why{};
};
// Called on the engine thread between two steps.
using KvProgressSink = std::function<void(const KvProgress&)>;

// The pages of a prompt, held until closed. Any thread. The engine must outlive it.
class KvExport {
 public:
  virtual ~KvExport() = default;  // closes it
  virtual void close() = 0;  // once or more often; after it nothing is called but reads that began before
  // Copies the places of [first_token, end_token), whole pages that are ready, to `to` and then calls
  // done(true); done(false) where they are not there or no longer. From host memory the caller's thread
  // copies before read() returns; from a device the engine's thread does, between two steps, and `to` must
  // live until done.
  virtual void read(
      int64_t first_token, int64_t end_token, std::span<std::byte> to, std::function<void(bool)> done) = 0;
};

// Pages that another engine computed.
struct KvImport {
  RequestId request{};          // that will need them: they are pinned until it is admitted
  std::string salt;             // GenerationRequest::cache_salt
  std::vector<int32_t> tokens;  // from the text's beginning to the end of these pages
  int64_t first_token = 0;      // of these pages; those before must be in the cache
  int64_t text_tokens = 0;      // of the whole text they were computed in: longrope's factors depend on it
  int64_t last_token = 0;       // where the export ends: what its windows do not reach is not there
  std::span<const std::byte> bytes;  // place after place; must live until done
};
struct KvImported {
  bool imported = false;
  std::string why{};  // not imported: one sentence
};

// One whole page entered or left the prefix cache. A page of a windowed group may leave earlier.
struct PrefixChange {
  bool stored = false;  // false: removed
  uint64_t block = 0;   // chain_hash.h
  uint64_t parent = 0;  // of the page before; 0: there is none

  bool operator==(const PrefixChange&) const = default;
};

}  // namespace cheetah
