// SPDX-License-Identifier: MIT
#pragma once
// All settings of the policies: read from TOML, at the start and again while serving.
#include <optional>
#include <string>
#include <string_view>

#include "cluster/policy/autoscale.h"
#include "cluster/policy/qos_config.h"
#include "cluster/policy/roles.h"
#include "cluster/policy/routing_config.h"

namespace cheetah::cluster {

struct PolicyConfig {
  RoutingConfig routing = {};
  QosConfig qos = {};
  AutoscaleConfig autoscale = {};
  FlipConfig roles = {};

  bool operator==(const PolicyConfig&) const = default;
};

// `what` names the text in errors. Throws Error with the place, the key and what was expected; a key that is
// not known is an error.
PolicyConfig parse_policy_config(std::string_view text, const std::string& what);

struct Reload {
  std::optional<PolicyConfig> config = {};  // nullopt: keep the old one
  std::string why_not = {};
};
Reload reload_policy_config(std::string_view text, const std::string& what);

}  // namespace cheetah::cluster
