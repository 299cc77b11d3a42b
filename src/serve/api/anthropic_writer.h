// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include "serve/api/chat_plan.h"

namespace cheetah {

// Answers of /v1/messages, whole or as server-sent events.
std::unique_ptr<ResponseWriter> make_anthropic_writer(const ChatPlan& plan);

}  // namespace cheetah
