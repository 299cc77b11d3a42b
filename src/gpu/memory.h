// SPDX-License-Identifier: MIT
#pragma once
// Memory of the device and pinned memory of the host.
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "gpu/stream.h"

struct CUmemPoolHandle_st;

namespace cheetah::gpu {

// What memory is for; each has its own pool, so that one kind never fragments another and each can be
// accounted for.
enum class ArenaKind { kWeights, kKv, kWorkspace };
inline constexpr size_t kNumArenas = 3;
const char* name_of(ArenaKind arena);

class DeviceMemory;

// Bytes on the device, 256-byte aligned, not initialised. Freed in the order of the stream it was taken on;
// both the stream and the DeviceMemory outlive it.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer();

  std::byte* data() const { return data_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  int64_t size() const { return size_; }

 private:
  friend class DeviceMemory;
  void swap(DeviceBuffer& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(stream_, other.stream_);
    std::swap(arena_, other.arena_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  DeviceMemory* owner_ = nullptr;
  Stream* stream_ = nullptr;
  ArenaKind arena_ = ArenaKind::kWorkspace;
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

struct ArenaUse {
  int64_t bytes = 0;
  int64_t peak_bytes = 0;
};

// The device's memory in three stream-ordered pools. Pools keep what is freed, so that a warm step asks the
// driver for nothing. One thread at a time.
class DeviceMemory {
 public:
  explicit DeviceMemory(const DeviceInfo& device);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  // Throws Error telling what each arena holds when the device is full.
  DeviceBuffer allocate(ArenaKind arena, int64_t bytes, Stream& stream);
  const ArenaUse& use(ArenaKind arena) const { return use_[static_cast<size_t>(arena)]; }
  void trim();  // gives unused memory back to the device

 private:
  friend class DeviceBuffer;
  void free(DeviceBuffer& buffer) noexcept;
  DeviceInfo device_;
  std::array<CUmemPoolHandle_st*, kNumArenas> pools_{};
  std::array<ArenaUse, kNumArenas> use_{};
};

// Host memory the device can copy from and to while the host goes on.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(int64_t bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~PinnedBuffer();

  std::byte* data() const { return data_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  int64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

// Asynchronous where the host side is pinned.
void copy_to_device(void* to, const void* from, int64_t bytes, Stream& stream);
void copy_to_host(void* to, const void* from, int64_t bytes, Stream& stream);
void copy_on_device(void* to, const void* from, int64_t bytes, Stream& stream);
void fill_bytes(void* to, int value, int64_t bytes, Stream& stream);

}  // namespace cheetah::gpu
