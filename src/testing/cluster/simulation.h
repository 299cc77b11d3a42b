// SPDX-License-Identifier: MIT
#pragma once
// A clock, a list of what happens when, chance from one seed, and a log: everything in a simulation that is
// not the cluster. One thread; the same seed gives the same run to the last event.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "cluster/types.h"

namespace cheetah::cluster::simulation {

inline constexpr Duration milliseconds(double count) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(count));
}

class Simulation {
 public:
  explicit Simulation(uint64_t seed, bool keep_log = false) : chance_(seed * 2 + 1), keeps_log_(keep_log) {}

  Time now() const { return now_; }
  void after(Duration delay, std::function<void()> what);
  bool step(Time until);  // false: nothing is left before `until`, and that is the time now
  uint64_t num_steps() const { return num_steps_; }

  uint64_t bits() { return chance_.next(); }
  int64_t below(int64_t bound) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(bound)); }
  bool happens(double probability) { return static_cast<double>(bits() >> 11) * 0x1p-53 < probability; }
  Duration between(double least_ms, double most_ms);

  bool logs() const { return keeps_log_; }
  void log(const std::string& line);
  const std::string& text() const { return log_; }
  void violate(const std::string& what);  // an invariant is broken
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  struct Event {
    Time at;
    uint64_t order;
    std::function<void()> what;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };

  Time now_{};
  SplitMix64 chance_;
  uint64_t num_events_ = 0, num_steps_ = 0;
  std::vector<Event> events_;  // a heap
  bool keeps_log_;
  std::string log_;
  std::vector<std::string> violations_;
};

}  // namespace cheetah::cluster::simulation
