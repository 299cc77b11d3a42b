// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv/page_pool.h"
#include "model/model.h"

namespace cheetah {

// Copies whole pages, all slots, within a KvPool and to and from host memory. Where the pool is on a device,
// copies follow what was sent to its stream before, and what is sent later follows them.
class PageBytes {
 public:
  explicit PageBytes(KvPool& pool);  // pool must outlive it

  int64_t page_bytes() const { return page_bytes_; }
  bool on_host() const { return place_ == nullptr; }
  void copy(PageIndex from, PageIndex to);
  void save(PageIndex page, std::span<std::byte> bytes);  // page_bytes() long
  void load(std::span<const std::byte> bytes, PageIndex page);
  // save() by any thread, where the pool is on the host: for pages that are not being written.
  void copy_out(PageIndex page, std::span<std::byte> bytes) const;

 private:
  std::byte* staging();
  struct Plane {  // the keys or the values of one slot
    std::byte* data;
    int64_t bytes;  // a page

    std::byte* at(PageIndex page) const { return data + page * bytes; }
  };
  const DevicePlace* place_;  // nullptr: the host's memory
  gpu::PinnedBuffer staging_;
  std::vector<Plane> planes_;
  int64_t page_bytes_ = 0;
};

}  // namespace cheetah
