#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv/page_pool.h"
#include "model/model.h"

namespace cheetah {

// Copies whole pages, all slots, within a KvPool and to and from host memory.
class PageBytes {
 public:
  explicit PageBytes(KvPool& pool);  // pool must outlive it

  int64_t page_bytes() const { return page_bytes_; }
  void copy(PageIndex from, PageIndex to);
  void save(PageIndex page, std::span<std::byte> bytes) const;  // page_bytes() long
  void load(std::span<const std::byte> bytes, PageIndex page);

 private:
  struct Plane {  // the keys or the values of one slot
    std::byte* data;
    int64_t bytes;  // a page

    std::byte* at(PageIndex page) const { return data + page * bytes; }
  };
  std::vector<Plane> planes_;
  int64_t page_bytes_ = 0;
};

}  // namespace cheetah
