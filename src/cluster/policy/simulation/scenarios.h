// SPDX-License-Identifier: MIT
#pragma once
// The situations a cluster must survive, as scenarios of the throughput simulation. All numbers are simulated.
#include <string>
#include <vector>

#include "cluster/policy/simulation/traffic.h"

namespace cheetah::cluster::throughput {

// Offered load `times` the capacity, one class; with admission or without.
Scenario overload(double times, bool admission);
// Paying traffic at a fifth of the capacity, alone or beside a free tier that asks for `flood` times the
// capacity.
constexpr int kPremium = 0, kFree = 1;
Scenario free_tier_flood(double flood);
// Without classes: all requests are equally urgent and none is refused.
Scenario without_classes(Scenario flooded);

// How the mix of prompts and answers changes. The first shape, long prompts with short answers and then the
// reverse, is the one that the settings were chosen with.
struct ShiftShape {
  std::string name;
  double end_s = 0;
  std::vector<Stream> streams;
};
std::vector<ShiftShape> shift_shapes();
constexpr int kShiftWorkers = 6;
// Roles fixed or moving with the traffic.
Scenario traffic_shift(const ShiftShape& shape, int num_prefill, bool flip_roles);

}  // namespace cheetah::cluster::throughput
