// SPDX-License-Identifier: MIT
#pragma once
// How much a model may think before it answers, as each API's clients say it.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/chat_plan.h"
#include "serve/api/fields.h"

namespace cheetah {

// "thinking": {"type", "budget_tokens"}, and a budget of its own field under the names that servers have for it.
void read_reasoning_budget(Fields& fields, ChatPlan& plan, std::vector<std::string>& warnings);

// "none" … "high". The template gets it; where it does not read it, the effort is a budget.
void read_reasoning_effort(
    const std::string& effort, const std::string& param, const ApiServices& services, ChatPlan& plan);

// Sets the request's budget from the plan's, once the shape of the answer is known; a warning where the model does not
// think aloud.
void bound_reasoning(ChatPlan& plan, const ApiServices& services, std::vector<std::string>& warnings);

}  // namespace cheetah
