// SPDX-License-Identifier: MIT
// The part of Service that answers about responses that were kept.
#include <algorithm>

#include "base/format.h"
#include "serve/api/fields.h"
#include "serve/api/request_fields.h"
#include "serve/service.h"

namespace cheetah {
namespace {

constexpr std::string_view kItems = "/input_items";

ApiError not_found(const std::string& id) {
  return {.status = 404,
      .message = format("there is no response with the id '{}'", printable(id, 256)),
      .param = "response_id",
      .code = "response_not_found"};
}

// A page of the list: newest first unless order=asc, after the item `after`.
std::string items_page(const std::string& input, const HttpRequest& request) {
  OrderedJson items = OrderedJson::parse(input, nullptr, false);
  if (!items.is_array()) items = OrderedJson::array();
  if (request.query_value("order") != "asc") std::reverse(items.begin(), items.end());
  const std::string after = request.query_value("after"), wanted = request.query_value("limit");
  const size_t limit =
      std::clamp<size_t>(wanted.empty() ? 20 : std::strtoul(wanted.c_str(), nullptr, 10), 1, 100);
  const auto id_of = [](const OrderedJson& item) { return item.value("id", std::string()); };
  auto begin = items.begin();
  if (!after.empty()) {
    begin = std::find_if(
        items.begin(), items.end(), [&](const OrderedJson& item) { return id_of(item) == after; });
    if (begin != items.end()) ++begin;
  }
  OrderedJson page = OrderedJson::array();
  for (; begin != items.end() && page.size() < limit; ++begin) page.push_back(*begin);
  const bool more = begin != items.end();
  OrderedJson first = nullptr, last = nullptr;
  if (!page.empty()) first = id_of(page.front()), last = id_of(page.back());
  return dump_ordered({{"object", "list"}, {"data", std::move(page)}, {"first_id", first}, {"last_id", last},
      {"has_more", more}});
}

}  // namespace

// GET and DELETE /responses/ID, and GET /responses/ID/input_items.
void Service::kept_response(
    const HttpRequest& request, const std::string& path, std::shared_ptr<Exchange> exchange) {
  const auto send = [request, exchange](HttpResponse response) {
    response.headers.push_back({"x-request-id", request.id});
    exchange->respond(std::move(response));
  };
  const bool items = path.ends_with(kItems);
  const std::string id = items ? path.substr(0, path.size() - kItems.size()) : path;
  const bool deletes = request.method == "DELETE";
  if (id.find('/') != std::string::npos || (items && deletes))
    return send(error_response(
        request, {.status = 404, .message = "there is nothing at this path", .code = "unknown_route"}));
  if (!shared_.responses)
    return send(
        error_response(request, {.status = 404,
                                    .message = "this server keeps no responses: --response-store FILE does",
                                    .code = "response_not_found"}));
  const auto found = [this, request, exchange, send, id, items, deletes](ResponseStore::Found kept) {
    exchange->thread().run([this, request, send, id, items, deletes, kept = std::move(kept)] {
      if (kept.failed)
        return send(error_response(request, {.status = 500,
                                                .message = "the responses that were kept cannot be read now",
                                                .code = "internal_error"}));
      if (!kept.response) return send(error_response(request, not_found(id)));
      HttpResponse response;
      response.body = deletes ? dump_ordered({{"id", id}, {"object", "response"}, {"deleted", true}})
                      : items ? items_page(kept.response->input, request)
                              : kept.response->response;
      add_fixed_headers(request, response);
      send(std::move(response));
    });
  };
  const std::string tenant = tenant_of(request)->name();
  if (deletes)
    shared_.responses->erase(tenant, id, found);
  else
    shared_.responses->find(tenant, id, found);
}

}  // namespace cheetah
