// SPDX-License-Identifier: MIT
#pragma once
// The keys of a cluster's registry. Their values:
//   workers/ID         a WorkerDescriptor as wire/ encodes it, announced by the worker; ID is 16 hex digits
//   peers/HOST:PORT    "ROLE NAME" from a static peer file: the rest comes with the link's first message
//   config/NAME        a configuration document, kept for good; routing, admission and the like read it live
//   owner/NAME         who holds a seat (claim.h)
//   orders/SUBJECT     what an operator wants, as JSON, kept for good (node/order_book.h)
#include <string>
#include <string_view>

#include "base/format.h"
#include "cluster/types.h"

namespace cheetah::cluster {

inline constexpr std::string_view kWorkersPrefix = "workers/";
inline constexpr std::string_view kPeersPrefix = "peers/";
inline constexpr std::string_view kConfigPrefix = "config/";
inline constexpr std::string_view kOwnerPrefix = "owner/";
inline constexpr std::string_view kOrdersPrefix = "orders/";

inline std::string worker_key(WorkerId id) {
  return format("{}{:016x}", kWorkersPrefix, static_cast<uint64_t>(id));
}

}  // namespace cheetah::cluster
