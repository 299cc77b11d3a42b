#pragma once
// The measured limits of this machine: the denominators of every share.
#include <array>

#include "lab/cost.h"
#include "lab/machine.h"

namespace cheetah::lab {

// Measures a roof when it is first asked for and keeps it.
class Roofs {
 public:
  explicit Roofs(Machine& machine) : machine_(machine) {}
  // Bytes/s, operations/s or launches/s; 0 where it cannot be measured here.
  double rate(Domain domain, Roof roof);
  // What is known without measuring: from a run before, on the same hardware.
  void set(Domain domain, Roof roof, double rate) { slot(domain, roof) = rate; }
  double known(Domain domain, Roof roof) const { return rates_[index(domain, roof)]; }

 private:
  static size_t index(Domain domain, Roof roof) {
    return static_cast<size_t>(domain) * kNumRoofs + static_cast<size_t>(roof);
  }
  double& slot(Domain domain, Roof roof) { return rates_[index(domain, roof)]; }
  Machine& machine_;
  std::array<double, size_t{2}* kNumRoofs> rates_ = unmeasured();

  static constexpr double kUnmeasured = -1;
  static std::array<double, size_t{2} * kNumRoofs> unmeasured() {
    std::array<double, size_t{2} * kNumRoofs> rates;
    rates.fill(kUnmeasured);
    return rates;
  }
};

}  // namespace cheetah::lab
