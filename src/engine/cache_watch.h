// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "engine/kv/prefix_cache.h"

namespace cheetah {

// Collects what enters and leaves the prefix cache during a step and hands it on after it. One thread.
class CacheWatch {
 public:
  using Sink = std::function<void(std::vector<PrefixChange>&&)>;
  explicit CacheWatch(PrefixCache& cache) : cache_(cache) {}

  void watch(Sink sink) {  // an empty one: stop
    sink_ = std::move(sink);
    changes_.clear();
    if (sink_)
      cache_.set_listener([this](const PrefixChange& change) { changes_.push_back(change); });
    else
      cache_.set_listener(nullptr);
  }
  void deliver() {
    if (!changes_.empty() && sink_) sink_(std::exchange(changes_, {}));
  }

 private:
  PrefixCache& cache_;
  Sink sink_;
  std::vector<PrefixChange> changes_;
};

}  // namespace cheetah
