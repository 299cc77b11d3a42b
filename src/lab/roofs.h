// SPDX-License-Identifier: MIT
#pragma once
// The measured limits of this machine: the denominators of every share.
#include <array>
#include <vector>

#include "lab/cost.h"
#include "lab/machine.h"

namespace cheetah::lab {

struct MeasuredRoof {
  Domain domain = Domain::kCpu;
  Roof roof = Roof::kNone;
  double rate = 0;        // bytes/s, operations/s or launches/s
  double other_rate = 0;  // the same limit by other means (the driver's copy); 0: none
};

// Measures a roof when it is first asked for and keeps it. One thread.
class Roofs {
 public:
  explicit Roofs(Machine& machine) : machine_(machine) {}
  // 0 where it cannot be measured here.
  double rate(Domain domain, Roof roof);
  // Measures again and keeps the higher: others on the machine only ever take away.
  double measure_again(Domain domain, Roof roof);
  // Those measured so far, and above 0.
  std::vector<MeasuredRoof> measured() const;

 private:
  MeasuredRoof measure(Domain domain, Roof roof);
  Machine& machine_;
  std::vector<MeasuredRoof> roofs_;
};

// One measurement; 0 where there is none.
MeasuredRoof measure_cpu_roof(Roof roof, Machine& machine);
MeasuredRoof measure_cuda_roof(Roof roof, Machine& machine);

}  // namespace cheetah::lab
