// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace cheetah {

// Many allocations packed into a few large buffers, so that small matrices lie in huge pages too. Pieces are
// zeroed, 64-byte aligned and stay where they are until the arena goes.
class Arena {
 public:
  std::byte* take(int64_t bytes);
  // The pieces taken next, up to this many bytes in all, lie side by side where their sizes are multiples of 64.
  void keep_together(int64_t bytes) { together_ = bytes; }
  int64_t size() const;  // bytes held, room not yet taken included

 private:
  std::vector<Buffer> blocks_;  // the last one is being filled
  int64_t used_ = 0;            // of the last one
  int64_t together_ = 0;        // what the next piece needs room for, itself included
};

}  // namespace cheetah
