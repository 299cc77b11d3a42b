// SPDX-License-Identifier: MIT
#pragma once
// Pages that another engine computed, taken into the prefix cache.
#include <span>
#include <string>
#include <vector>

#include "engine/engine_config.h"
#include "engine/kv/kv_transfer.h"
#include "engine/sequence_pages.h"

namespace cheetah {

// Pins what it takes until the request it is for is admitted or has ended, or nothing else can make room. One
// thread.
class Imports {
 public:
  Imports(SequencePages& pages, const EngineConfig& config, int64_t vocab)
      : pages_(pages), takes_(config.prefix_cache), vocab_(vocab) {}

  // Pages that no running sequence needs make room; there may be none. `num_running` sequences each keep a
  // page in reserve. `pins`: the request has no hold on its pages yet.
  struct Load {
    int64_t num_running = 0;
    bool pins = true;
  };
  KvImported take(const KvImport& pages, const Load& load);
  void unpin(RequestId request);
  bool unpin_oldest();  // false: nothing is pinned

  int64_t num_held_pages() const;

 private:
  struct Pin {
    RequestId request{};
    std::vector<PageIndex> pages;
  };
  std::string refuse(const KvImport& pages) const;
  std::string store(const KvImport& pages, const std::string& salt, int64_t stored, int64_t num_running);
  void load(const KvImport& pages, std::span<const PageList> lists);
  void pin(const KvImport& pages, const std::string& salt);
  void release(Pin& pin);

  SequencePages& pages_;
  const bool takes_;
  const int64_t vocab_;
  std::vector<Pin> pins_;  // oldest first
};

}  // namespace cheetah
