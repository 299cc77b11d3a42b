// SPDX-License-Identifier: MIT
#pragma once
// Order on the device: streams carry work, events mark points in it.
#include <utility>

#include "gpu/device.h"
#include "gpu/launch_log.h"

struct CUstream_st;
struct CUevent_st;

namespace cheetah::gpu {

class Stream;

// A point in a stream's work. Moves, does not copy; one thread at a time.
class Event {
 public:
  enum class Timing { kNone, kTimed };
  explicit Event(Timing timing = Timing::kNone);
  Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Event();

  void record(Stream& stream);
  bool done() const;  // true before the first record
  void wait() const;  // blocks the calling thread
  CUevent_st* handle() const { return handle_; }

 private:
  CUevent_st* handle_ = nullptr;
};
double milliseconds_between(const Event& begin, const Event& end);  // both timed, recorded and done

// Work in order on one device, and the log of the last launches into it. Every kernel launcher takes one: the
// device and the stream are never hidden. One thread at a time.
class Stream {
 public:
  explicit Stream(const DeviceInfo& device);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  CUstream_st* handle() const { return handle_; }
  const DeviceInfo& device() const { return device_; }
  LaunchLog& log() { return log_; }

  void wait();  // until all work is done; throws Error naming the last launches when it failed
  void wait_for(const Event& event);  // later work waits on the device, the host does not

 private:
  DeviceInfo device_;
  LaunchLog log_;
  CUstream_st* handle_ = nullptr;
};

}  // namespace cheetah::gpu
