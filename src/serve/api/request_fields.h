// SPDX-License-Identifier: MIT
#pragma once
// The fields that every generating endpoint reads the same way.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "serve/api/endpoint.h"
#include "serve/api/fields.h"

namespace cheetah {

class Tokenizer;

// Runs a parser; what it throws becomes the ApiError of the result.
ApiResult guarded(const std::function<ApiCall()>& parse);

// "model": required unless `optional`; refuses names that are not this server's.
void check_model(Fields& fields, const ApiServices& services, bool optional = false);

// temperature … seed, stop, logit_bias, priority, cache_salt and the like.
void read_sampling(
    Fields& fields, const ApiServices& services, const CallFacts& facts, GenerationRequest& request);
void read_stop(Fields& fields, std::string_view name, GenerationRequest& request);
// stream and stream_options.
struct StreamOptions {
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
};
StreamOptions read_stream(Fields& fields);

// Sets max_tokens (nullopt: all that fits) and checks the prompt against the context. `warnings` tells when
// the answer was shortened to fit.
void fit_to_context(const ApiServices& services, std::optional<int64_t> max_tokens,
    GenerationRequest& request, const std::string& prompt_param, std::vector<std::string>& warnings);
// Refuses a text that has more tokens than the context whatever they are, before anyone counts them.
void check_text_length(const ApiServices& services, std::string_view text, const std::string& param);
[[noreturn]] void context_exceeded(
    const ApiServices& services, const std::string& param, const std::string& seen);

// The model's tokenizer; refuses with no_tokenizer when there is none.
const Tokenizer& tokenizer_of(const ApiServices& services);

}  // namespace cheetah
