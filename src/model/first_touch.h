// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/model.h"

namespace cheetah {

// Touches the memory of a host cache before steps need it. The system zeroes it a huge page at a time when it
// is first touched, and all layers come to the end of theirs in the same step: 24 times 3.5 ms in one step of
// llama-134m on a virtual machine, where a decode takes 12. Here each step touches a few for later ones.
class FirstTouch {
 public:
  // After a step over `batch`. The workers are idle.
  void run(const ForwardBatch& batch, KvPool& pool, ThreadPool& threads);

 private:
  struct Region {
    std::byte* begin;
    std::byte* end;
  };
  struct Limits {
    int64_t wanted_pages;  // to be touched as soon as possible
    int64_t all_pages;
    size_t num_regions;  // in this step
  };
  void add_plane(std::byte* data, int64_t page_bytes, const Limits& limits, int64_t& touched);

  const std::byte* cache_ = nullptr;  // the pool known
  std::vector<int64_t> touched_;      // bytes of each slot's keys and of its values
  std::vector<Region> regions_;       // to touch now
};

}  // namespace cheetah
