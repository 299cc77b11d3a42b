// SPDX-License-Identifier: MIT
#include "cluster/queue/nats_messages.h"

#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace cheetah::cluster::nats {
namespace {

constexpr JsonLimits kLimits{.max_bytes = 64 * 1024, .max_depth = 8};
constexpr std::string_view kWhat = "the answer of NATS";
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
// JetStream's own numbers: a limit of the stream, of the account, of the server.
constexpr int64_t kStoreFailed = 10077, kAccountFull = 10002, kServerFull = 10023;

}  // namespace

PushResult read_push_answer(std::string_view json) {
  try {
    const Json answer = parse_json(json, kWhat, kLimits);
    const JsonFields fields(answer, std::string(kWhat));
    if (const Json* error = fields.find("error")) {
      const int64_t code = JsonFields(*error, std::string(kWhat)).integer_or("err_code", 0, 0, kMost);
      const bool full = code == kStoreFailed || code == kAccountFull || code == kServerFull;
      return full ? PushResult::kFull : PushResult::kUnavailable;
    }
    fields.integer("seq", 1, kMost);
    return fields.boolean_or("duplicate", false) ? PushResult::kDuplicate : PushResult::kQueued;
  } catch (const Error&) {
    return PushResult::kUnavailable;  // whatever this is, it does not say that the job is queued
  }
}

// $JS.ACK.STREAM.CONSUMER.DELIVERIES.…, or with DOMAIN.ACCOUNT before the stream.
std::optional<int64_t> deliveries_in(std::string_view ack_subject) {
  const auto words = split(ack_subject, '.');
  if (words.size() < 9 || words[0] != "$JS" || words[1] != "ACK") return std::nullopt;
  const auto deliveries = to_integer(words[words.size() == 9 ? 4 : 6]);
  return deliveries && *deliveries > 0 ? deliveries : std::nullopt;
}

}  // namespace cheetah::cluster::nats
