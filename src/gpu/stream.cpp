// SPDX-License-Identifier: MIT
#include "gpu/stream.h"

#include "gpu/check.cuh"

namespace cheetah::gpu {

Event::Event(Timing timing) {
  check(cudaEventCreateWithFlags(
      &handle_, timing == Timing::kTimed ? cudaEventDefault : cudaEventDisableTiming));
}

Event::~Event() {
  if (handle_) cudaEventDestroy(handle_);
}

void Event::record(Stream& stream) { check(cudaEventRecord(handle_, stream.handle()), stream); }

bool Event::done() const {
  const cudaError_t status = cudaEventQuery(handle_);
  if (status == cudaErrorNotReady) return false;
  check(status);
  return true;
}

void Event::wait() const { check(cudaEventSynchronize(handle_)); }

double milliseconds_between(const Event& begin, const Event& end) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.handle(), end.handle()));
  return milliseconds;
}

Stream::Stream(const DeviceInfo& device) : device_(device) {
  use_device(device.index);
  // Non-blocking: work on the default stream, which nothing of ours uses, never orders ours.
  check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking));
}

Stream::~Stream() {
  if (handle_) cudaStreamDestroy(handle_);
}

void Stream::wait() { check(cudaStreamSynchronize(handle_), *this); }

void Stream::wait_for(const Event& event) { check(cudaStreamWaitEvent(handle_, event.handle()), *this); }

}  // namespace cheetah::gpu
