// SPDX-License-Identifier: MIT
#pragma once
// Whether anybody listens at an address: tells a process that is gone from one that stands still, whose kernel
// goes on accepting for it.
#include <chrono>
#include <cstdint>
#include <string>

namespace cheetah::cluster {

enum class Knock : uint8_t {
  kSilent,    // nothing came back: a machine or a network that is gone
  kRefused,   // the machine says that nobody listens
  kAccepted,  // somebody does
};
Knock knock(const std::string& host, uint16_t port, std::chrono::milliseconds limit);

}  // namespace cheetah::cluster
