// SPDX-License-Identifier: MIT
#pragma once
// Chooses tokens on the device.
#include <array>
#include <vector>

#include "kernels/sample/sample_cuda.h"
#include "model/model.h"

namespace cheetah {

// Owns the rules' way to the device and the kernels' scratch, reused from step to step. Two steps may be on
// their way at once; their results are read in the stream before the next one's kernels run.
class DeviceSampler {
 public:
  DeviceSampler(const DevicePlace& place, int64_t vocab) : place_(place), vocab_(vocab) {}

  static bool can_choose(const SampleRow& row) { return !row.needs_host(); }

  // The rules, and of which rows of the batch the step's logits will be. Everything is copied when it
  // returns; waits for nothing that runs now. Comes before the step, so that nothing stands between its
  // kernels and the sampler's.
  void send(std::span<const SampleRow> rows, std::span<const int64_t> logit_rows);
  // Chooses into ids [rows] from logits [logit_rows, vocab]; tokens are the batch's. All on the device.
  void run(const float* logits, const int32_t* tokens, int32_t* ids);
  const gpu::SampleOutcome* outcomes() const { return outcomes_.as<gpu::SampleOutcome>(); }  // [rows]

 private:
  struct Staging {
    gpu::PinnedBuffer memory;
    gpu::Event sent;
  };
  void send_lists();
  void reserve();
  gpu::DeviceBuffer& grow(gpu::DeviceBuffer& buffer, int64_t bytes);

  DevicePlace place_;
  int64_t vocab_;
  gpu::SamplePlan plan_;
  gpu::SampleArgs args_;  // of the step whose rules were sent last
  std::vector<int32_t> logit_rows_;
  std::array<Staging, 2> staging_;
  size_t next_staging_ = 0;
  gpu::DeviceBuffer lists_, changed_, parts_, totals_, arrivals_, outcomes_;
};

// A row of outcomes as runners report it.
void read_outcome(const gpu::SampleOutcome& outcome, SampledToken& sampled);

}  // namespace cheetah
