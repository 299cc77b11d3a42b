// SPDX-License-Identifier: MIT
#include "gpu/launch_log.h"

#include <algorithm>

#include "base/format.h"

namespace cheetah::gpu {
namespace {

std::string text_of(const LaunchRecord& record) {
  std::string sizes;
  for (size_t i = 0; i < record.num_numbers; ++i)
    sizes += (i ? ", " : "") + std::to_string(record.numbers[i]);
  return format("{}({}) grid {}x{}x{} block {}x{}x{} shared {}\n", record.kernel, sizes, record.grid.x,
      record.grid.y, record.grid.z, record.block.x, record.block.y, record.block.z, record.shared_bytes);
}

}  // namespace

std::string LaunchLog::text() const {
  std::string out;
  for (int64_t i = 1; i <= std::min<int64_t>(count_, kSlots); ++i)
    out += text_of(records_[static_cast<size_t>((count_ - i) % static_cast<int64_t>(kSlots))]);
  return out;
}

}  // namespace cheetah::gpu
