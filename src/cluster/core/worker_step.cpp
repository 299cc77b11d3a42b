// SPDX-License-Identifier: MIT
#include "cluster/core/worker_step.h"

namespace cheetah::cluster {

void WorkerStep::say(WorkerId to, Message message) {
  outputs_.emplace_back(std::in_place_type<SendMessage>, SendMessage{to, std::move(message)});
}
void WorkerStep::count(Counter counter) {
  outputs_.emplace_back(std::in_place_type<Count>, Count{counter, 1});
}
void WorkerStep::log(RequestKey key, std::string what, std::string why) {
  outputs_.emplace_back(std::in_place_type<LogDecision>, LogDecision{key, std::move(what), std::move(why)});
}

}  // namespace cheetah::cluster
