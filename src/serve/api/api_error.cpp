// SPDX-License-Identifier: MIT
#include "serve/api/api_error.h"

#include "base/json.h"

namespace cheetah {
namespace {

std::string openai_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string anthropic_type(int status) {
  switch (status) {
    case 413:
      return "request_too_large";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : openai_type(status);
  }
}

Json nullable(const std::optional<std::string>& text) { return text ? Json(*text) : Json(nullptr); }

}  // namespace

std::string error_type(int status, ApiStyle style) {
  return style == ApiStyle::kAnthropic ? anthropic_type(status) : openai_type(status);
}

std::string error_body(const ApiError& error, ApiStyle style) {
  if (style == ApiStyle::kOllama) return dump_json(Json{{"error", error.message}});
  const std::string type = error_type(error.status, style);
  if (style == ApiStyle::kAnthropic)
    return dump_json(Json{{"type", "error"}, {"error", {{"type", type}, {"message", error.message}}}});
  return dump_json(Json{{"error", {{"message", error.message}, {"type", type},
                                      {"param", nullable(error.param)}, {"code", nullable(error.code)}}}});
}

}  // namespace cheetah
