// SPDX-License-Identifier: MIT
#pragma once
// A receive arena on a GPU that other processes of the machine write to (CUDA IPC). Without CUDA every
// function throws one clear Error.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace cheetah::cluster::transfer {

// Memory of the current device with a handle that another process can open. Owned by its maker.
class DeviceArena {
 public:
  explicit DeviceArena(int64_t bytes);
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;
  ~DeviceArena();
  std::byte* data() const { return data_; }
  const std::string& handle() const { return handle_; }

 private:
  std::byte* data_ = nullptr;
  std::string handle_;
};

// Another process's arena, mapped here until this goes.
class OpenedDeviceArena {
 public:
  explicit OpenedDeviceArena(const std::string& handle);
  OpenedDeviceArena(const OpenedDeviceArena&) = delete;
  OpenedDeviceArena& operator=(const OpenedDeviceArena&) = delete;
  ~OpenedDeviceArena();
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

// Either side may be on the device; returns when the bytes are there.
void copy_device_bytes(std::byte* to, std::span<const std::byte> from);

}  // namespace cheetah::cluster::transfer
