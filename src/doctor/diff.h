// SPDX-License-Identifier: MIT
#pragma once
// Snapshots of several hosts side by side: a cluster should agree on versions and settings.
#include <string>
#include <vector>

#include "doctor/facts.h"

namespace cheetah::doctor {

struct HostFactsOf {
  std::string name;
  Facts facts;
};

struct Difference {
  std::string key;                  // "driver", "sysctl vm.swappiness" …
  std::vector<std::string> values;  // one a host; "-" where it is not known
  bool matters = true;              // a version or setting that slows or breaks a job when it differs
};

// What an inventory lists of one host, in a fixed order: kernel, driver, GPUs, firmware, settings.
std::vector<std::pair<std::string, std::string>> inventory(const Facts& facts);

// The keys on which the hosts disagree, the most different first.
std::vector<Difference> differences(const std::vector<HostFactsOf>& hosts);
std::string difference_table(const std::vector<HostFactsOf>& hosts, const std::vector<Difference>& found);

}  // namespace cheetah::doctor
