// SPDX-License-Identifier: MIT
#pragma once
// One call of the API, between bytes and the engine: a body becomes requests and a writer; the engine's
// events become bytes of the answer. No sockets, no threads, no clock of its own.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/request.h"
#include "model/generation_defaults.h"
#include "serve/api/api_error.h"

namespace cheetah {

class Model;
class GrammarCache;     // engine/grammar/grammar_cache.h
class ResponseArchive;  // serve/api/response_archive.h

// What every call reads. Lives as long as the server; any thread may use it.
struct ApiServices {
  const Model& model;
  std::string model_name;            // as clients name it and as answers name it
  std::vector<std::string> aliases;  // further names it answers to
  int64_t max_context = 0;           // tokens of prompt and answer together
  int64_t max_sequences = 0;         // n and best_of beyond this are refused
  std::string system_fingerprint;    // changes when the weights or the build do
  GrammarCache& grammars;
  bool strict_fields = false;        // unknown fields are errors, not warnings
  GenerationDefaults defaults = {};  // for what a request leaves open
  int64_t created = 0;               // when the model's files were written, in seconds since 1970

  // Those that lists show; "*" among the aliases means any name and is not one.
  std::vector<std::string> names() const {
    std::vector<std::string> all = {model_name};
    for (const std::string& alias : aliases)
      if (alias != "*") all.push_back(alias);
    return all;
  }
};

inline constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";

// What is particular to one call.
struct CallFacts {
  std::string id;          // the request id of logs and of x-request-id; answers derive their ids from it
  int64_t unix_time = 0;   // seconds, for "created"
  uint64_t seed = 0;       // used when the request names none
  EngineTime now{};        // deadlines count from here
  std::string cache_salt;  // of the tenant (API key); the request's own cache_salt is added to it
  std::string tenant;      // for logs
  bool timings = false;    // asked for by a header, as "timings": true does in the body
  ResponseArchive* archive = nullptr;  // nullptr: responses are not kept
};

// Turns the events of a call's requests into bytes. Used by one thread at a time.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;
  // What to send now: whole SSE frames when streaming, empty otherwise. `index` is the request's place in
  // ApiCall::requests.
  virtual std::string on_event(size_t index, const GenerationEvent& event) = 0;
  // After the last request's `done`: the body, or the closing frames of a stream (usage, [DONE]).
  virtual std::string finish() = 0;
  // Instead of finish(), when something failed after a stream began: the in-band error frames.
  virtual std::string fail(const ApiError& error) = 0;
};

struct ApiCall {
  std::vector<GenerationRequest> requests;  // ids not yet given; empty: `body` is the answer
  bool stream = false;
  std::unique_ptr<ResponseWriter> writer;
  std::string body;                   // of calls the engine has no part in (tokenize, count_tokens)
  std::vector<std::string> warnings;  // for the log and a response header: fields ignored and the like
  bool wants_timings = false;
  // Of a stream: its media type, and whether a comment may be sent while it is silent.
  std::string_view stream_type = kEventStream;
};

// What the client of a request that ended with kError or kCancelled is told. Writers say it themselves in a
// stream; a writer that has sent nothing yet may answer with it, status and all.
ApiError generation_error(const GenerationEvent& event);

using ApiResult = std::variant<ApiCall, ApiError>;
using ApiParser = ApiResult (*)(std::string_view body, const ApiServices&, const CallFacts&);

// None throws for bad input. Parsing tokenizes and may compile a grammar: call them off the network threads.
ApiResult parse_chat_completion(std::string_view body, const ApiServices&, const CallFacts&);
ApiResult parse_completion(std::string_view body, const ApiServices&, const CallFacts&);
ApiResult parse_embeddings(std::string_view body, const ApiServices&, const CallFacts&);
ApiResult parse_response(std::string_view body, const ApiServices&, const CallFacts&);  // /v1/responses
ApiResult parse_message(std::string_view body, const ApiServices&, const CallFacts&);   // /v1/messages
ApiResult parse_count_tokens(std::string_view body, const ApiServices&,
    const CallFacts&);  // /v1/messages/count_tokens
ApiResult parse_tokenize(std::string_view body, const ApiServices&, const CallFacts&);
ApiResult parse_detokenize(std::string_view body, const ApiServices&, const CallFacts&);
ApiResult parse_apply_template(std::string_view body, const ApiServices&, const CallFacts&);
ApiResult parse_llama_completion(std::string_view body, const ApiServices&, const CallFacts&);
ApiResult parse_llama_infill(std::string_view body, const ApiServices&, const CallFacts&);
ApiResult parse_pooling(std::string_view body, const ApiServices&, const CallFacts&);
ApiResult parse_score(std::string_view body, const ApiServices&, const CallFacts&);
ApiResult parse_rerank(std::string_view body, const ApiServices&, const CallFacts&);
ApiResult parse_ollama_chat(std::string_view body, const ApiServices&, const CallFacts&);
ApiResult parse_ollama_generate(std::string_view body, const ApiServices&, const CallFacts&);
ApiResult parse_ollama_embed(std::string_view body, const ApiServices&, const CallFacts&);
ApiResult parse_ollama_embeddings(std::string_view body, const ApiServices&, const CallFacts&);
ApiResult parse_ollama_show(std::string_view body, const ApiServices&, const CallFacts&);
ApiResult parse_ollama_pull(std::string_view body, const ApiServices&, const CallFacts&);
ApiResult parse_ollama_change(std::string_view body, const ApiServices&, const CallFacts&);  // always refused

}  // namespace cheetah
