// SPDX-License-Identifier: MIT
#pragma once
// What registry and queue share: where an outside service is, how to log in to it, and whether it can be reached.
#include <cstdint>
#include <string>

#include "cluster/types.h"

namespace cheetah::cluster {

struct ServiceHost {
  std::string host;
  uint16_t port = 0;

  bool operator==(const ServiceHost&) const = default;
};

struct ServiceLogin {
  bool tls = false;
  std::string ca_file, certificate_file, key_file;  // PEM; empty: the system's, none
  std::string user, password_file;
  std::string credentials_file;  // NATS: instead of user and password

  bool operator==(const ServiceLogin&) const = default;
};

// On the file's first line. Throws Error.
std::string password_in(const std::string& path);

// An outage is a state, not an error: it heals by itself, and until then each node works with what it knows.
struct ServiceState {
  bool up = false;
  Time since{};         // of this state
  std::string why;      // it is down, in one sentence; empty while it is up
  bool absent = false;  // never up: the cluster is made without one
};

}  // namespace cheetah::cluster
