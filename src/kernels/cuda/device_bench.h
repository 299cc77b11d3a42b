// SPDX-License-Identifier: MIT
#pragma once
// What the benches on the device share: a device, buffers with something in them, and fair medians.
#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "base/random.h"
#include "gpu/memory.h"
#include "tensor/float16.h"

namespace cheetah::gpu {

class DeviceBench {
 public:
  DeviceInfo device = query_device();
  DeviceMemory memory{device};
  Stream stream{device};

  double median_us(const std::function<void()>& work) { return medians_us({&work, 1}).front(); }

  // Of seven rounds of 20 launches each. The candidates take turns, so that all of them meet the same clocks:
  // tensor cores at full load slow a card down for tens of milliseconds.
  std::vector<double> medians_us(std::span<const std::function<void()>> candidates) {
    constexpr int kLaunches = 20, kRounds = 7;
    std::vector<std::vector<double>> runs(candidates.size());
    for (int round = 0; round < kRounds; ++round)
      for (size_t i = 0; i < candidates.size(); ++i) {
        Event begin(Event::Timing::kTimed), end(Event::Timing::kTimed);
        candidates[i]();
        begin.record(stream);
        for (int launch = 0; launch < kLaunches; ++launch) candidates[i]();
        end.record(stream);
        end.wait();
        runs[i].push_back(milliseconds_between(begin, end) * 1e3 / kLaunches);
      }
    std::vector<double> medians;
    for (std::vector<double>& each : runs) {
      std::ranges::sort(each);
      medians.push_back(each[kRounds / 2]);
    }
    return medians;
  }

  DeviceBuffer zeros(int64_t bytes) {
    DeviceBuffer buffer = memory.allocate(ArenaKind::kWorkspace, bytes, stream);
    fill_bytes(buffer.data(), 0, bytes, stream);
    return buffer;
  }
  // BF16 numbers within 1 of zero, or E4M3 ones below 2: equal ones would switch fewer wires, take less power
  // and flatter the clock.
  DeviceBuffer random_numbers(int64_t bytes, bool are_fp8 = false) {
    constexpr int64_t kPiece = (int64_t{4} << 20) + 272;  // no power of two: rows differ
    std::vector<uint8_t> piece(static_cast<size_t>(kPiece));
    Philox random(1, 0);
    for (size_t i = 0; i < piece.size(); i += 2) {
      const uint32_t bits = random.next_u32();
      const auto number = static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-31f;
      const uint16_t both = are_fp8 ? bits & 0xBFBF : f32_to_bf16(number);
      piece[i] = static_cast<uint8_t>(both);
      piece[i + 1] = static_cast<uint8_t>(both >> 8);
    }
    DeviceBuffer buffer = memory.allocate(ArenaKind::kWorkspace, bytes, stream);
    for (int64_t at = 0; at < bytes; at += kPiece)
      copy_to_device(buffer.data() + at, piece.data(), std::min(kPiece, bytes - at), stream);
    stream.wait();
    return buffer;
  }
  template <class Item>
  DeviceBuffer upload(const std::vector<Item>& items) {
    const auto bytes = static_cast<int64_t>(items.size() * sizeof(Item));
    DeviceBuffer buffer = memory.allocate(ArenaKind::kWorkspace, bytes, stream);
    copy_to_device(buffer.data(), items.data(), bytes, stream);
    stream.wait();
    return buffer;
  }
};

}  // namespace cheetah::gpu
