// SPDX-License-Identifier: MIT
#include "serve/routes.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "serve/http/message.h"
#include "serve/web_page.h"

namespace cheetah {
namespace {

constexpr std::array kRoutes = {
    Route{"/chat/completions", "POST", RouteKind::kApi, Access::kKey, parse_chat_completion},
    Route{"/completions", "POST", RouteKind::kApi, Access::kKey, parse_completion},
    Route{"/embeddings", "POST", RouteKind::kApi, Access::kKey, parse_embeddings},
    Route{"/responses", "POST", RouteKind::kApi, Access::kKey, parse_response},
    Route{"/responses/", "GET", RouteKind::kResponses, Access::kKey},
    Route{"/responses/", "DELETE", RouteKind::kResponses, Access::kKey},
    Route{"/messages", "POST", RouteKind::kApi, Access::kKey, parse_message, ApiStyle::kAnthropic},
    Route{"/messages/count_tokens", "POST", RouteKind::kApi, Access::kKey, parse_count_tokens,
        ApiStyle::kAnthropic},
    Route{"/tokenize", "POST", RouteKind::kApi, Access::kKey, parse_tokenize},
    Route{"/detokenize", "POST", RouteKind::kApi, Access::kKey, parse_detokenize},
    Route{"/apply-template", "POST", RouteKind::kApi, Access::kKey, parse_apply_template},
    Route{"/completion", "POST", RouteKind::kApi, Access::kKey, parse_llama_completion},
    Route{"/infill", "POST", RouteKind::kApi, Access::kKey, parse_llama_infill},
    Route{"/props", "GET", RouteKind::kProps, Access::kKey},
    Route{"/slots", "GET", RouteKind::kSlots, Access::kKey},
    Route{"/pooling", "POST", RouteKind::kApi, Access::kKey, parse_pooling},
    Route{"/score", "POST", RouteKind::kApi, Access::kKey, parse_score},
    Route{"/rerank", "POST", RouteKind::kApi, Access::kKey, parse_rerank},
    Route{"/v2/rerank", "POST", RouteKind::kApi, Access::kKey, parse_rerank},
    Route{"/api/chat", "POST", RouteKind::kApi, Access::kKey, parse_ollama_chat, ApiStyle::kOllama},
    Route{"/api/generate", "POST", RouteKind::kApi, Access::kKey, parse_ollama_generate, ApiStyle::kOllama},
    Route{"/api/embed", "POST", RouteKind::kApi, Access::kKey, parse_ollama_embed, ApiStyle::kOllama},
    Route{
        "/api/embeddings", "POST", RouteKind::kApi, Access::kKey, parse_ollama_embeddings, ApiStyle::kOllama},
    Route{"/api/show", "POST", RouteKind::kApi, Access::kKey, parse_ollama_show, ApiStyle::kOllama},
    Route{"/api/pull", "POST", RouteKind::kApi, Access::kKey, parse_ollama_pull, ApiStyle::kOllama},
    Route{"/api/create", "POST", RouteKind::kApi, Access::kKey, parse_ollama_change, ApiStyle::kOllama},
    Route{"/api/copy", "POST", RouteKind::kApi, Access::kKey, parse_ollama_change, ApiStyle::kOllama},
    Route{"/api/push", "POST", RouteKind::kApi, Access::kKey, parse_ollama_change, ApiStyle::kOllama},
    Route{"/api/delete", "DELETE", RouteKind::kApi, Access::kKey, parse_ollama_change, ApiStyle::kOllama},
    Route{"/api/tags", "GET", RouteKind::kOllamaTags, Access::kKey},
    Route{"/api/ps", "GET", RouteKind::kOllamaLoaded, Access::kKey},
    Route{"/api/version", "GET", RouteKind::kVersion, Access::kKey},
    Route{"/files", "GET", RouteKind::kFiles, Access::kKey},
    Route{"/files", "POST", RouteKind::kFiles, Access::kKey},
    Route{"/files/", "GET", RouteKind::kFiles, Access::kKey},
    Route{"/files/", "DELETE", RouteKind::kFiles, Access::kKey},
    Route{"/batches", "GET", RouteKind::kBatches, Access::kKey},
    Route{"/batches", "POST", RouteKind::kBatches, Access::kKey},
    Route{"/batches/", "GET", RouteKind::kBatches, Access::kKey},
    Route{"/batches/", "POST", RouteKind::kBatches, Access::kKey},
    Route{"/models", "GET", RouteKind::kModels, Access::kKey},
    Route{"/models/", "GET", RouteKind::kModel, Access::kKey},
    Route{"/models/load", "POST", RouteKind::kLoadModel, Access::kKey},
    Route{"/models/unload", "POST", RouteKind::kUnloadModel, Access::kKey},
    Route{"/sleep", "POST", RouteKind::kSleep, Access::kKey},
    Route{"/wake_up", "POST", RouteKind::kWakeUp, Access::kKey},
    Route{"/is_sleeping", "GET", RouteKind::kIsSleeping, Access::kKey},
    Route{"/requests/", "DELETE", RouteKind::kCancel, Access::kKey},
    Route{"/stats", "GET", RouteKind::kStats, Access::kKey},
    Route{"/decisions", "GET", RouteKind::kDecisions, Access::kKey},
    Route{"/metrics", "GET", RouteKind::kMetrics, Access::kKey},
    Route{"/version", "GET", RouteKind::kVersion, Access::kKey},
    Route{"/admin/", "GET", RouteKind::kAdmin, Access::kAdmin},
    Route{"/admin/", "POST", RouteKind::kAdmin, Access::kAdmin},
    Route{"/health", "GET", RouteKind::kHealth, Access::kPublic},
    Route{"/health/live", "GET", RouteKind::kLive, Access::kPublic},
    Route{"/health/ready", "GET", RouteKind::kReady, Access::kPublic},
    Route{"/health/engine", "GET", RouteKind::kEngineHealth, Access::kPublic},
    Route{"/ready", "GET", RouteKind::kReady, Access::kPublic},
    Route{"/", "GET", RouteKind::kPage, Access::kPublic},  // last: the page's files are found through it
};

std::string_view without_version(std::string_view path) {
  return path.starts_with("/v1/") ? path.substr(3) : path;
}

// Whether the route answers the path; `rest` is then what follows a route that takes a parameter.
bool answers(const Route& route, std::string_view path, std::string_view& rest) {
  if (route.path.size() > 1 && route.path.ends_with('/')) {
    rest = path.substr(std::min(route.path.size(), path.size()));
    return path.starts_with(route.path) && !rest.empty();
  }
  return path == route.path;
}

std::string nearest_route(std::string_view path) {
  if (path.size() > 64) return "";
  const std::string_view bare = without_version(path);
  const Route* best = nullptr;
  int64_t best_distance = std::max<int64_t>(2, std::ssize(bare) / 3) + 1;
  for (const Route& route : kRoutes) {
    const int64_t distance = edit_distance(bare, route.path);
    if (distance >= best_distance) continue;
    best = &route;
    best_distance = distance;
  }
  if (!best || best->path == "/") return "";
  return format(" (did you mean {}{}?)", path.starts_with("/v1/") ? "/v1" : "", best->path);
}

ApiError unknown_route(std::string_view path) {
  return {.status = 404,
      .message = format("there is nothing at {}{}", printable(path), nearest_route(path)),
      .code = "unknown_route"};
}

bool same_method(std::string_view method, const Route& route) {
  return method == route.method || (method == "HEAD" && route.method == "GET");
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

RouteMatch match_route(std::string_view method, std::string_view path) {
  const std::string_view bare = without_version(path);
  RouteMatch match;
  for (const Route& route : kRoutes) {
    std::string_view rest;
    if (!answers(route, bare, rest)) continue;
    const auto parameter = percent_decode(rest);
    if (same_method(method, route) && parameter) {
      match.route = &route;
      match.parameter = *parameter;
      return match;
    }
    match.allow += format("{}{}", match.allow.empty() ? "" : ", ", route.method);
    if (route.method == "GET") match.allow += ", HEAD";
  }
  if (web_file(path) && same_method(method, kRoutes.back())) {
    match.route = &kRoutes.back();
    return match;
  }
  match.error = unknown_route(path);
  if (match.allow.empty()) return match;
  match.error = {.status = 405,
      .message = format("{} is not allowed at {}: use {}", printable(method), printable(path), match.allow),
      .code = "method_not_allowed"};
  return match;
}

ApiStyle style_of_path(std::string_view path) {
  const std::string_view bare = without_version(path);
  if (bare.starts_with("/api/")) return ApiStyle::kOllama;
  return bare == "/messages" || bare.starts_with("/messages/") ? ApiStyle::kAnthropic : ApiStyle::kOpenAi;
}

}  // namespace cheetah
