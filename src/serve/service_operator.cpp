// SPDX-License-Identifier: MIT
// The part of Service that operators use: their keys are not those of clients, and neither does for the other.
#include "base/error.h"
#include "serve/service.h"

namespace cheetah {

// Without keys it is off, except where a server of this machine alone lets every client in: those who can use all
// of it may operate it too. A page in a browser of this machine may not.
std::optional<HttpResponse> Service::check_operator(const HttpRequest& request) const {
  const ServerConfig& config = shared_.config;
  const auto refused = [&](int status, const char* code, const char* message) {
    shared_.counters.reject(Rejection::kAuth);
    HttpResponse response = error_response(request, {.status = status, .message = message, .code = code});
    if (status == 401) response.headers.push_back({"www-authenticate", "Bearer"});
    return response;
  };
  if (!config.admin_keys.required()) {
    if (!config.admin_unlocked)
      return refused(404, "admin_off", "the admin API is off: start the router with --admin-key-file");
    if (request.find("origin"))
      return refused(403, "origin_not_allowed", "the admin API without a key is not for browsers");
  } else if (!config.admin_keys.find(key_of(request))) {
    return refused(401, "invalid_admin_key",
        "the operator's key is missing or wrong: send it as 'Authorization: Bearer KEY'");
  }
  if (request.method == "POST")
    if (const auto error = check_body(request)) return error_response(request, *error);
  return std::nullopt;
}

void Service::ask_operator(
    HttpRequest&& request, const std::string& path, std::shared_ptr<Exchange> exchange) {
  const Backend* backend = shared_.backend;
  const auto respond = [this](const HttpRequest& asked, const AdminAnswer& answer, Exchange& to) {
    HttpResponse response;
    if (answer.error.empty())
      response.body = answer.body;
    else
      response =
          error_response(asked, {.status = answer.status, .message = answer.error, .code = answer.code});
    if (answer.error.empty()) add_fixed_headers(asked, response);
    response.headers.push_back({"x-request-id", asked.id});
    to.respond(std::move(response));
  };
  if (!backend) return respond(request, {503, {}, "the model is still loading", "model_loading"}, *exchange);
  if (!backend->admin)
    return respond(request, {404, {}, "this server is not a router of a cluster", "not_a_router"}, *exchange);
  const std::shared_ptr<Tenant> key = shared_.config.admin_keys.find(key_of(request));
  AdminCall call{.method = request.method == "HEAD" ? "GET" : request.method,
      .path = path,
      .body = std::move(request.body),
      .who = shared_.config.admin_keys.required() ? key->name() : "local",
      .address = request.address};
  // Shared with the answer, which may come later and on another thread.
  auto asked = std::make_shared<HttpRequest>(std::move(request));
  backend->admin(std::move(call), [respond, asked, exchange](AdminAnswer answer) {
    exchange->thread().run(
        [respond, asked, exchange, answer = std::move(answer)] { respond(*asked, answer, *exchange); });
  });
}

}  // namespace cheetah
