#pragma once
// The situations a cluster must stand, as scenarios of the throughput simulation. All numbers are simulated.
#include "cluster/policy/simulation/traffic.h"

namespace cheetah::cluster::throughput {

// Offered load `times` the capacity, one class; with admission or without.
Scenario overload(double times, bool admission);
// Paying traffic at a fifth of the capacity, alone or beside a free tier that asks for `flood` times the
// capacity.
constexpr int kPremium = 0, kFree = 1;
Scenario free_tier_flood(double flood);
// Long prompts with short answers, then the reverse; roles fixed or moving with the traffic.
Scenario traffic_shift(int num_prefill, int num_decode, bool flip_roles);

}  // namespace cheetah::cluster::throughput
