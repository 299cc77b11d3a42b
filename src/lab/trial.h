// SPDX-License-Identifier: MIT
#pragma once
// An experiment at one size: inputs, outputs, the variants' code and the oracle. Most experiments build an
// ArrayTrial (lab/array_trial.h) rather than a Trial of their own.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "gpu/memory.h"
#include "gpu/stream.h"
#include "lab/cost.h"

namespace cheetah::lab {

struct Experiment;

struct Size {
  std::string label;          // "4096x4096"
  std::vector<int64_t> dims;  // what make() reads
};
// One size a number, labelled 64K, 16M, ... where it is a power of two.
std::vector<Size> sizes_of(std::initializer_list<int64_t> counts);

// What the harness hands to make(). Everything outlives the trial.
struct Setup {
  const Experiment& experiment;
  const Size& size;
  bool quick = false;
  ThreadPool& threads;                  // pinned, one a physical core; for CPU variants and oracles
  int64_t cache_bytes = 0;              // last level: what input sets must outgrow
  gpu::Stream* stream = nullptr;        // CUDA only
  gpu::DeviceMemory* memory = nullptr;  // CUDA only

  int64_t dim(size_t index) const { return size.dims.at(index); }
};

class Trial {
 public:
  virtual ~Trial() = default;
  // How many input sets launches can rotate over.
  virtual int num_sets() const = 0;
  // New random inputs in every set; forgets the oracle's answer.
  virtual void fill(uint64_t seed) = 0;
  // Makes every output of the set unlike any right answer.
  virtual void poison(int set) = 0;
  // Runs or enqueues the variant once. Variants that time themselves return seconds; the others nothing, and
  // the harness takes the time.
  virtual std::optional<double> launch(int variant, int set) = 0;
  // Waits for what was launched and compares the set's outputs with the oracle's: nullopt when right,
  // otherwise one sentence with the first wrong element.
  virtual std::optional<std::string> check(int variant, int set) = 0;
  virtual Cost cost(int variant) const = 0;
  // nullopt: the variant runs at this size. Otherwise why not, e.g. "needs a multiple of 128".
  virtual std::optional<std::string> refusal(int variant) const = 0;
};

}  // namespace cheetah::lab
