// SPDX-License-Identifier: MIT
#pragma once
// What the server answers to, in one table: path, methods, who may ask, and which parser reads the body.
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "serve/api/endpoint.h"

namespace cheetah {

enum class RouteKind {
  kApi,  // the body goes through a parser, mostly to the engine
  kModels,
  kModel,
  kCancel,
  kHealth,
  kLive,
  kReady,
  kEngineHealth,
  kVersion,
  kMetrics,
  kStats,
  kDecisions,
  kFiles,
  kBatches,
  kOllamaTags,
  kOllamaLoaded,
  kProps,
  kSlots,
  kAdmin,  // an operator's, of a cluster
  kResponses,
  kLoadModel,
  kUnloadModel,
  kSleep,
  kWakeUp,
  kIsSleeping,
  kPage,
};
enum class Access {
  kPublic,
  kKey,    // where keys are configured, one is needed
  kAdmin,  // an operator's key, never a client's
};

struct Route {
  std::string_view path;  // without /v1; ending in "/": the rest of the path is a parameter
  std::string_view method;
  RouteKind kind;
  Access access;
  ApiParser parser = nullptr;
  ApiStyle style = ApiStyle::kOpenAi;
};

std::span<const Route> routes();

// What a request's path and method meet.
struct RouteMatch {
  const Route* route = nullptr;  // nullptr: see `error`
  std::string parameter;         // decoded rest of the path
  ApiError error;
  std::string allow;  // with 405: the methods there are
};
RouteMatch match_route(std::string_view method, std::string_view path);

// The API whose error objects a client of this path expects.
ApiStyle style_of_path(std::string_view path);

}  // namespace cheetah
