// SPDX-License-Identifier: MIT
#pragma once
// The last kernel launches of a stream. A fault on the device is seen later and says nothing about its
// kernel: this does.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace cheetah::gpu {

struct Extent {  // of a grid, block or cluster
  int64_t x = 1;
  int64_t y = 1;
  int64_t z = 1;
};

struct LaunchRecord {
  static constexpr size_t kMaxNumbers = 8;
  const char* kernel = nullptr;  // a literal
  Extent grid = {};
  Extent block = {};
  int64_t shared_bytes = 0;
  std::array<int64_t, kMaxNumbers> numbers{};  // the problem's sizes, as the launcher gave them
  size_t num_numbers = 0;
};

// Keeps the newest kept() records; adding costs a copy and formats nothing.
class LaunchLog {
 public:
  static constexpr size_t kept() { return kSlots; }
  void add(const LaunchRecord& record) { records_[static_cast<size_t>(count_++ % kSlots)] = record; }
  int64_t count() const { return count_; }
  // Newest first, one per line: "gemm_tile(4096, 64, 4096) grid 64x1x1 block 256x1x1 shared 0".
  std::string text() const;

 private:
  static constexpr size_t kSlots = 16;
  std::array<LaunchRecord, kSlots> records_;
  int64_t count_ = 0;
};

}  // namespace cheetah::gpu
