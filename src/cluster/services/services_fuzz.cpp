// SPDX-License-Identifier: MIT
// Whatever etcd and NATS say, whatever stands in a cluster's URL or in a subject: it is read or refused with
// an Error. The first byte says which of them the rest is.
#include <cstdint>
#include <string_view>

#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "cluster/queue/event_bus.h"
#include "cluster/queue/nats_messages.h"
#include "cluster/registry/etcd_messages.h"
#include "cluster/services/services.h"

namespace {

using namespace cheetah;
using namespace cheetah::cluster;

constexpr std::string_view kRoot = "/cheetah/c/";

void read_etcd(uint8_t which, const Json& json) {
  switch (which % 5) {
    case 0:
      etcd::read_watch(json, kRoot);
      return;
    case 1:
      etcd::read_range(json, kRoot);
      return;
    case 2:
      etcd::read_transaction(json, kRoot);
      return;
    case 3:
      etcd::read_grant(json);
      return;
    default:
      etcd::read_keep_alive(json);
      return;
  }
}

void read_text(uint8_t which, std::string_view text) {
  switch (which % 5) {
    case 0: {
      const ClusterUrl url = parse_cluster_url(text);
      CHEETAH_ASSERT(parse_cluster_url(to_string(url)) == url, "a URL is written as it is read");
      return;
    }
    case 1:
      nats::read_push_answer(text);
      return;
    case 2:
      nats::deliveries_in(text);
      return;
    case 3:
      if (const auto bytes = from_base64(text))
        CHEETAH_ASSERT(bytes->size() <= text.size(), "base64 only shrinks");
      return;
    default:
      check_pattern(text);
      matches(text, text);
      return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] % 2 == 0)
      read_etcd(data[0] / 2, parse_json(rest, "fuzz", {.max_bytes = 1 << 20, .max_depth = 16}));
    else
      read_text(data[0] / 2, rest);
  } catch (const Error&) {
    // refused
  }
  return 0;
}
