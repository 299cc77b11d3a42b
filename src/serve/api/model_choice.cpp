// SPDX-License-Identifier: MIT
#include "serve/api/model_choice.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/format.h"
#include "engine/grammar/grammar_cache.h"
#include "model/model.h"
#include "serve/api/body.h"
#include "serve/api/request_fields.h"

namespace cheetah {
namespace {

bool is_unknown_model(const ApiResult& result) {
  const auto* error = std::get_if<ApiError>(&result);
  return error && error->code == "model_not_found";
}

bool same_vocabulary(const ApiServices& a, const ApiServices& b) {
  const int64_t vocab = a.model.traits().vocab;
  if (vocab != b.model.traits().vocab) return false;
  const ModelTables &first = a.grammars.tables(), &second = b.grammars.tables();
  for (int32_t id = 0; id < vocab; ++id)
    if (first.token_bytes(id) != second.token_bytes(id) || first.is_special(id) != second.is_special(id))
      return false;
  return true;
}

bool holds_numbers(const OrderedJson& value) {
  return value.is_array() && std::ranges::any_of(value,
                                 [](const OrderedJson& item) { return item.is_number() || item.is_array(); });
}

bool answers_to_any(const ApiServices& services) {
  return std::ranges::find(services.aliases, "*") != services.aliases.end() || services.model_name == "*";
}

// Ids go in or come out.
bool names_tokens(const OrderedJson& body) {
  constexpr std::array<std::string_view, 4> kFields = {
      "logit_bias", "allowed_token_ids", "stop_token_ids", "return_token_ids"};
  const auto given = [&](std::string_view name) {
    const auto field = body.find(name);
    return field != body.end() && !field->is_null() && *field != false && !field->empty();
  };
  const auto prompt = body.find("prompt");
  return std::ranges::any_of(kFields, given) || (prompt != body.end() && holds_numbers(*prompt));
}

}  // namespace

ChosenCall parse_for_model(ApiParser parser, std::string_view body,
    const std::vector<const ApiServices*>& models, const CallFacts& facts) {
  if (models.size() == 1) return {parser(body, *models.front(), facts), models.front()};
  std::string names;
  std::optional<ChosenCall> first;
  for (const bool any_name : {false, true})  // a model that answers to any name comes last
    for (const ApiServices* services : models) {
      if (answers_to_any(*services) != any_name) continue;
      ChosenCall call{parser(body, *services, facts), services};
      if (!is_unknown_model(call.result)) return call;
      if (services == models.front()) first = std::move(call);
      names += format("{}\"{}\"", names.empty() ? "" : ", ", services->model_name);
    }
  CHEETAH_ASSERT(first, "a model that answers to any name refuses none");
  ApiError& error = std::get<ApiError>(first->result);
  error.message = format("the model of this request does not exist here; this server has {}", names);
  return std::move(*first);
}

ApiResult parse_for_other_model(ApiParser parser, std::string_view body, const ApiServices& named,
    const ApiServices& other, const CallFacts& facts) {
  OrderedJson json;
  const ApiResult readable = guarded([&] {
    json = parse_body(body);
    return ApiCall{};
  });
  if (const auto* error = std::get_if<ApiError>(&readable)) return *error;
  if (names_tokens(json) && !same_vocabulary(named, other))
    return ApiError{
        .status = 400, .message = "the request holds token ids of its model", .code = "bound_to_vocabulary"};
  json["model"] = other.model_name;
  return parser(dump_ordered(json), other, facts);
}

}  // namespace cheetah
