// SPDX-License-Identifier: MIT
#pragma once
// Which requests the engine does not take. Pure, so that the submitting thread can ask before the engine's.
#include <optional>
#include <string>

#include "engine/engine_config.h"
#include "engine/request.h"

namespace cheetah {

// What is wrong with the request itself, whatever else is going on.
std::optional<RequestError> refusal_of(
    const GenerationRequest& request, const EngineConfig& config, const ModelTraits& traits);
RequestError queue_is_full(int64_t num_waiting);
RequestError is_draining();
RequestError has_failed();  // the engine, for good

// The only event such a request gets.
GenerationEvent refusal_event(const GenerationRequest& request, const RequestError& error, EngineTime now);

}  // namespace cheetah
