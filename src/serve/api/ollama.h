// SPDX-License-Identifier: MIT
#pragma once
// Ollama's API, as its clients send it and read it: /api/chat, /api/generate, /api/embed, /api/show and the rest.
#include <memory>
#include <string>
#include <vector>

#include "serve/api/chat_plan.h"
#include "serve/api/endpoint.h"

namespace cheetah {

// Media type of a stream: one JSON object per line.
inline constexpr std::string_view kJsonLines = "application/x-ndjson";

// "2026-11-19T15:13:31Z"
std::string rfc3339(int64_t unix_time);

// GET /api/tags: every model and what it is.
std::string ollama_tags(const std::vector<const ApiServices*>& models);
// GET /api/ps: the same models, which stay loaded.
std::string ollama_loaded(const std::vector<const ApiServices*>& models);

// One entry of each.
OrderedJson ollama_listed(const ApiServices& services, const std::string& name);
OrderedJson ollama_running(const ApiServices& services, const std::string& name);
std::string ollama_digest(const std::string& of);

// Answers of /api/chat (`chat`) and /api/generate, whole or one line at a time.
std::unique_ptr<ResponseWriter> make_ollama_writer(const ChatPlan& plan, bool chat);

}  // namespace cheetah
