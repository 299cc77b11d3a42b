// SPDX-License-Identifier: MIT
#pragma once
// For tests: a device with a stream, arrays on it, and outputs that start as NaN between guards.
#include <gtest/gtest.h>

#include <cmath>
#include <type_traits>
#include <vector>

#include "base/random.h"
#include "gpu/memory.h"
#include "kernels/guarded.h"
#include "tensor/bf16.h"

namespace cheetah::gpu {

inline std::vector<float> normal_numbers(int64_t count, uint64_t seed, float deviation = 1.f) {
  Philox random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = deviation * random.next_normal();
  return values;
}

template <class T>
T number_as(float value) {
  if constexpr (std::is_same_v<T, float>) return value;
  return T{f32_to_bf16(value)};
}
template <>
inline float number_as<float>(float value) {
  return value;
}

// The values as T has them, and those widened again: what a reference must start from.
template <class T>
std::vector<T> numbers_as(const std::vector<float>& values) {
  std::vector<T> out;
  for (const float value : values) out.push_back(number_as<T>(value));
  return out;
}
template <class T>
std::vector<float> rounded_to(std::vector<float> values) {
  for (float& value : values) value = to_float(number_as<T>(value));
  return values;
}

// Half a unit in the last place of T, relative: what storing a result costs.
template <class T>
constexpr double rounding_of() {
  return std::is_same_v<T, float> ? 0x1p-24 : 0x1p-8;
}

class DeviceCase {
 public:
  Stream& stream() { return stream_; }
  DeviceMemory& memory() { return memory_; }

  template <class T>
  T* upload(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    buffers_.push_back(memory_.allocate(ArenaKind::kWorkspace, bytes, stream_));
    copy_to_device(buffers_.back().data(), values.data(), bytes, stream_);
    return buffers_.back().as<T>();
  }
  std::byte* upload_bytes(const std::byte* bytes, int64_t count) {
    return upload(std::vector<std::byte>(bytes, bytes + count));
  }
  template <class T>
  std::vector<T> download(const T* from, int64_t count) {
    std::vector<T> values(static_cast<size_t>(count));
    copy_to_host(values.data(), from, count * static_cast<int64_t>(sizeof(T)), stream_);
    stream_.wait();
    return values;
  }

  // `count` NaNs between guards.
  template <class T>
  T* poisoned(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count + 2 * kBand), kGuard);
    for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(kBand + i)] = std::nanf("");
    return upload(numbers_as<T>(values)) + kBand;
  }
  // What came of it, widened; the guards must be whole.
  template <class T>
  std::vector<float> take(const T* poisoned, int64_t count) {
    const std::vector<T> all = download(poisoned - kBand, count + 2 * kBand);
    std::vector<float> values;
    for (const T value : all) values.push_back(to_float(value));
    for (size_t i = 0; i < kBand; ++i) {
      EXPECT_EQ(values[i], kGuard) << "written before the beginning";
      EXPECT_EQ(values[values.size() - 1 - i], kGuard) << "written past the end";
    }
    return {values.begin() + kBand, values.end() - kBand};
  }

 private:
  static constexpr int64_t kBand = 64;
  static constexpr float kGuard = -1232.f;  // exact in BF16
  DeviceInfo device_ = query_device();
  DeviceMemory memory_{device_};
  Stream stream_{device_};
  std::vector<DeviceBuffer> buffers_;
};

}  // namespace cheetah::gpu
