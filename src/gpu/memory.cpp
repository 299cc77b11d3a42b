// SPDX-License-Identifier: MIT
#include "gpu/memory.h"

#include <algorithm>

#include "base/format.h"
#include "gpu/check.cuh"

namespace cheetah::gpu {
namespace {

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::string full_message(
    const DeviceMemory& memory, ArenaKind arena, int64_t bytes, const DeviceInfo& device) {
  std::string uses;
  for (const ArenaKind each : {ArenaKind::kWeights, ArenaKind::kKv, ArenaKind::kWorkspace})
    uses += format("{}{} {:.2f} GiB", uses.empty() ? "" : ", ", name_of(each), gib(memory.use(each).bytes));
  return format("{}: {:.2f} GiB more for {} do not fit in the device's {:.2f} GiB ({})", device.name,
      gib(bytes), name_of(arena), gib(device.memory_bytes), uses);
}

}  // namespace

const char* name_of(ArenaKind arena) {
  constexpr const char* kNames[] = {"weights", "kv", "workspace"};
  return kNames[static_cast<size_t>(arena)];
}

DeviceBuffer::~DeviceBuffer() {
  if (data_) owner_->free(*this);
}

DeviceMemory::DeviceMemory(const DeviceInfo& device) : device_(device) {
  use_device(device.index);
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {.type = cudaMemLocationTypeDevice, .id = device.index};
  for (cudaMemPool_t& pool : pools_) {
    check(cudaMemPoolCreate(&pool, &properties));
    uint64_t keep_all = UINT64_MAX;
    check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all));
  }
}

DeviceMemory::~DeviceMemory() {
  for (cudaMemPool_t pool : pools_)
    if (pool) cudaMemPoolDestroy(pool);
}

DeviceBuffer DeviceMemory::allocate(ArenaKind arena, int64_t bytes, Stream& stream) {
  CHEETAH_ASSERT(bytes >= 0, "memory has no negative size");
  DeviceBuffer buffer;
  if (bytes == 0) return buffer;
  void* data = nullptr;
  const cudaError_t status = cudaMallocFromPoolAsync(
      &data, static_cast<size_t>(bytes), pools_[static_cast<size_t>(arena)], stream.handle());
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // this one does not stick: the device is whole
    throw Error(full_message(*this, arena, bytes, device_));
  }
  check(status, stream);
  buffer.owner_ = this;
  buffer.stream_ = &stream;
  buffer.arena_ = arena;
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.size_ = bytes;
  ArenaUse& use = use_[static_cast<size_t>(arena)];
  use.bytes += bytes;
  use.peak_bytes = std::max(use.peak_bytes, use.bytes);
  return buffer;
}

void DeviceMemory::free(DeviceBuffer& buffer) noexcept {
  cudaFreeAsync(buffer.data_, buffer.stream_->handle());
  use_[static_cast<size_t>(buffer.arena_)].bytes -= buffer.size_;
}

void DeviceMemory::trim() {
  for (cudaMemPool_t pool : pools_) check(cudaMemPoolTrimTo(pool, 0));
}

PinnedBuffer::PinnedBuffer(int64_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  check(cudaMallocHost(&data, static_cast<size_t>(bytes)));
  data_ = static_cast<std::byte*>(data);
}

PinnedBuffer::~PinnedBuffer() {
  if (data_) cudaFreeHost(data_);
}

namespace {

void copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind, Stream& stream) {
  if (bytes > 0) check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream.handle()), stream);
}

}  // namespace

void copy_to_device(void* to, const void* from, int64_t bytes, Stream& stream) {
  copy(to, from, bytes, cudaMemcpyHostToDevice, stream);
}

void copy_to_host(void* to, const void* from, int64_t bytes, Stream& stream) {
  copy(to, from, bytes, cudaMemcpyDeviceToHost, stream);
}

void copy_on_device(void* to, const void* from, int64_t bytes, Stream& stream) {
  copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

void fill_bytes(void* to, int value, int64_t bytes, Stream& stream) {
  if (bytes > 0) check(cudaMemsetAsync(to, value, static_cast<size_t>(bytes), stream.handle()), stream);
}

}  // namespace cheetah::gpu
