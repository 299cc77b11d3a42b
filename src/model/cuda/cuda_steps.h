// SPDX-License-Identifier: MIT
#pragma once
// Runner's submit() and wait() on a CUDA device.
#include <array>
#include <vector>

#include "kernels/sample/row_sampler.h"
#include "model/cuda/cuda_forward.h"
#include "model/cuda/device_sampler.h"

namespace cheetah {

// Owns the results of the two steps that may be in flight: pinned memory that the device writes, and an event
// that tells when it has. Everything is on its way when submit() returns, unless a request's rules need the
// host's sampler: then that step is complete.
template <class T>
class CudaSteps {
 public:
  static constexpr int64_t kMaxInFlight = 2;
  CudaSteps(const ModelTraits& traits, CudaForward<T>& forward, const DevicePlace& place)
      : traits_(traits),
        forward_(forward),
        stream_(place.stream),
        device_sampler_(place, traits.vocab),
        host_sampler_(threads_.num_threads()) {}

  StepTicket submit(const ForwardBatch& batch, const StepExtras& extras, KvPool& pool);
  StepResult wait(StepTicket ticket);

 private:
  struct Slot {
    gpu::PinnedBuffer logits, hidden, tokens, outcomes;
    gpu::Event done;
    bool sampled_on_device = false;
    std::vector<SampledToken> sampled;
    size_t num_sampled = 0, num_logits = 0, num_hidden = 0;
  };
  static size_t set_of(uint64_t number) { return number % kMaxInFlight; }
  std::span<const FedToken> feed(const ForwardBatch& batch, const StepExtras& extras);
  void sample_on_device(Slot& slot);
  void fetch(const ForwardBatch& batch, std::span<const int64_t> logit_rows, Slot& slot);
  void sample_on_host(const ForwardBatch& batch, const StepExtras& extras, Slot& slot);

  const ModelTraits& traits_;
  CudaForward<T>& forward_;
  gpu::Stream& stream_;
  DeviceSampler device_sampler_;
  ThreadPool threads_;
  RowSampler host_sampler_;
  std::array<Slot, kMaxInFlight> slots_;
  uint64_t num_submitted_ = 0, num_waited_ = 0;
  std::vector<int32_t> tokens_, last_tokens_;
  std::vector<int64_t> all_rows_;
};

}  // namespace cheetah
