// SPDX-License-Identifier: MIT
#pragma once
// What JetStream says in JSON and in subjects. Pure; nothing of it is trusted.
#include <cstdint>
#include <optional>
#include <string_view>

#include "cluster/queue/job_queue.h"

namespace cheetah::cluster::nats {

// The answer to a published message. Anything that is not a clear yes is kUnavailable or kFull.
PushResult read_push_answer(std::string_view json);

// How many times a message has been delivered, from the subject it must be acknowledged on; nullopt: this is
// no such subject.
std::optional<int64_t> deliveries_in(std::string_view ack_subject);

}  // namespace cheetah::cluster::nats
