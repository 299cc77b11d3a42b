// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include "serve/api/chat_plan.h"

namespace cheetah {

// Answers of /v1/chat/completions, whole or as server-sent events.
std::unique_ptr<ResponseWriter> make_chat_writer(const ChatPlan& plan);

}  // namespace cheetah
