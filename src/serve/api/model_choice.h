// SPDX-License-Identifier: MIT
#pragma once
// A server of several models: which of them a call is for, and whether it could be made for another.
#include <string_view>
#include <vector>

#include "serve/api/endpoint.h"

namespace cheetah {

struct ChosenCall {
  ApiResult result;
  const ApiServices* services = nullptr;  // of the model the call names
};
// `models`: at least one; a call that names none is the first one's.
ChosenCall parse_for_model(ApiParser parser, std::string_view body,
    const std::vector<const ApiServices*>& models, const CallFacts& facts);

// The same call for another model than the one it names, with that one's tokens, template and grammar. An
// error where that would not be the same call: token ids in it mean something else in another vocabulary.
ApiResult parse_for_other_model(ApiParser parser, std::string_view body, const ApiServices& named,
    const ApiServices& other, const CallFacts& facts);

}  // namespace cheetah
