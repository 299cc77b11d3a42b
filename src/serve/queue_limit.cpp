// SPDX-License-Identifier: MIT
#include "serve/queue_limit.h"

#include <algorithm>
#include <cmath>

namespace cheetah {

double retry_after_s(const ServerLoad& load) {
  if (load.drain_tokens_per_s <= 0) return 1;
  const double wait = 0.1 * static_cast<double>(load.pending_tokens) / load.drain_tokens_per_s;
  return std::clamp(std::ceil(wait), 1.0, 60.0);
}

std::optional<double> refused_for_s(const ServerLoad& load, int64_t count) {
  if (load.in_flight + count <= load.most) return std::nullopt;
  return retry_after_s(load);
}

}  // namespace cheetah
