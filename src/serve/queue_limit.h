// SPDX-License-Identifier: MIT
#pragma once
// Whether one more request may queue, as a pure function of the load.
#include <cstdint>
#include <optional>

namespace cheetah {

struct ServerLoad {
  int64_t in_flight = 0;          // requests the engine has
  int64_t most = 0;               // it takes: running and waiting
  int64_t pending_tokens = 0;     // of those in flight, at most
  double drain_tokens_per_s = 0;  // 0: not known yet
};

// Seconds after which a refused client may try again: when a tenth of the work will have left, between one
// second and a minute.
double retry_after_s(const ServerLoad& load);
// Requests that may still come: those whose bodies are being read wait like any other.
inline int64_t room_in_queue(const ServerLoad& load) { return load.most - load.in_flight; }
// nullopt: `count` more may come.
std::optional<double> refused_for_s(const ServerLoad& load, int64_t count);

}  // namespace cheetah
