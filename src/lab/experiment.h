// SPDX-License-Identifier: MIT
#pragma once
// The contract of the lab: an experiment is one file that declares one Experiment and registers it.
//
//   const Registered kCopy({.id = "ch07/vector-loads", ..., .variants = {...}, .sizes = {...}, .make =
//   make});
//
// The harness does the rest: correctness, timing, roofs, verdicts, history, reports. See docs/lab.md.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/trial.h"

namespace cheetah::lab {

enum class Domain { kCpu, kCuda };

enum class Timing {
  kGraphBatched,  // CUDA: events around the launch, or around a graph of many when one is short
  kEvents,        // CUDA: events around plain launches, for work that a graph cannot record
  kWallClock,     // steady clock around launch and wait: CPU work, and host-side behaviour of CUDA
};

enum class Rotation {
  kPastCaches,  // enough input sets that none is still cached when its turn comes again
  kHot,         // one input set: the caches are the subject
};

// Texts are literals: an experiment's words outlive everything.
struct Variant {
  std::string_view name;  // "vec4": short, unique in the experiment
  std::string_view idea;  // one line: what it does differently
  int min_compute = 0;    // CUDA compute capability, 90 for Hopper; 0: the experiment's
};

// What the book says. `speedup` is of `variant` over the baseline, 0 where it gives no number. Its numbers
// are illustrative: shown beside what was measured, never a threshold.
struct Claim {
  std::string_view text = {};
  std::string_view variant = {};
  double speedup = 0;
};

// |got - want| <= absolute + relative * |want|. NaN never passes.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
};

struct Experiment {
  std::string_view
      id;  // "ch07/coalescing", "cpu/cache-stride": chapter or cpu, then lower-case words with dashes
  std::string_view title;
  std::string_view question;   // what one wants to know
  std::string_view mechanism;  // what should happen, and why
  Claim claim = {};
  Domain domain = Domain::kCuda;
  Timing timing = Timing::kGraphBatched;  // a CPU experiment always runs under kWallClock
  Rotation rotation = Rotation::kPastCaches;
  int min_compute = 0;            // CUDA compute capability, 90 for Hopper
  std::vector<Variant> variants;  // the baseline first
  std::vector<Size> sizes;        // the full sweep, smallest first
  std::vector<Size> quick = {};   // with --quick; empty: the first of `sizes`
  Tolerance tolerance = {};       // ArrayTrial's default; Trial::check decides
  std::function<std::unique_ptr<Trial>(const Setup&)> make;
};

// Every registered experiment, by id.
std::span<const Experiment* const> all_experiments();
// Those whose id matches one of the patterns (* and ?), by id; throws UsageError for a pattern that matches
// none.
std::vector<const Experiment*> find_experiments(std::span<const std::string> patterns);
bool matches_glob(std::string_view pattern, std::string_view text);

// Declared at namespace scope, once per file.
class Registered {
 public:
  explicit Registered(Experiment experiment);
};

std::string_view name_of(Domain domain);
std::string_view name_of(Timing timing);

}  // namespace cheetah::lab
