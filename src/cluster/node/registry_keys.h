// SPDX-License-Identifier: MIT
#pragma once
// What the keys of the registry mean to a node.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/types.h"

namespace cheetah::cluster {

std::optional<WorkerId> worker_in_key(std::string_view key);  // of workers/ID

struct PeerAddress {
  std::string host;
  uint16_t port = 0;
};
std::optional<PeerAddress> peer_address(std::string_view key);  // of peers/HOST:PORT

}  // namespace cheetah::cluster
