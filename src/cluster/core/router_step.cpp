// SPDX-License-Identifier: MIT
#include "cluster/core/router_step.h"

#include <utility>

namespace cheetah::cluster {

void RouterStep::say(WorkerId to, Message message) {
  outputs_.emplace_back(std::in_place_type<SendMessage>, SendMessage{to, std::move(message)});
}
void RouterStep::count(Counter counter) {
  outputs_.emplace_back(std::in_place_type<Count>, Count{counter, 1});
}
void RouterStep::log(RequestKey key, std::string what, std::string why) {
  outputs_.emplace_back(std::in_place_type<LogDecision>, LogDecision{key, std::move(what), std::move(why)});
}
void RouterStep::emit(RequestUid uid, GenerationEvent event, std::optional<Emit::Summary> summary) {
  outputs_.emplace_back(std::in_place_type<Emit>, Emit{uid, std::move(event), std::move(summary)});
}

}  // namespace cheetah::cluster
