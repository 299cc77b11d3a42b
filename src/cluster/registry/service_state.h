#pragma once
// Whether a service that the cluster leans on can be reached. An outage is a state, not an error: it heals by
// itself, and until then everybody works with what is known.
#include <string>

#include "cluster/types.h"

namespace cheetah::cluster {

struct ServiceState {
  bool up = false;
  Time since{};         // of this state
  std::string why;      // it is down, in one sentence; empty while it is up
  bool absent = false;  // down for ever: the cluster is made without one
};

}  // namespace cheetah::cluster
