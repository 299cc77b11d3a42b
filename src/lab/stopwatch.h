// SPDX-License-Identifier: MIT
#pragma once
// Takes the time of launches.
#include "gpu/graph.h"
#include "lab/experiment.h"

namespace cheetah::lab {

// Times one variant of a trial: batches short launches and rotates over the input sets. A graph that was
// recorded is kept, so that every sample runs the same work.
class Stopwatch {
 public:
  struct Subject {
    Trial& trial;
    int variant = 0;
    Timing timing = Timing::kWallClock;
    gpu::Stream* stream = nullptr;  // CUDA only
  };
  explicit Stopwatch(const Subject& subject) : subject_(subject) {}

  // Warms up and chooses the batch so that a sample takes about `sample_s`.
  void prepare(double sample_s);
  // Seconds of one launch, the mean of a batch.
  double sample();
  int batch() const { return batch_; }

 private:
  double total(int launches);  // seconds of that many launches together
  double wall_clock(int launches);
  double events(int launches);
  double graph();
  void record(int launches);
  int next_set() { return set_ = (set_ + 1) % subject_.trial.num_sets(); }

  Subject subject_;
  int batch_ = 1;
  int set_ = 0;
  gpu::Graph graph_;
};

}  // namespace cheetah::lab
