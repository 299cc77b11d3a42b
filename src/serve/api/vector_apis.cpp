// SPDX-License-Identifier: MIT
// What other APIs make of embeddings: /pooling, /score and /rerank as vLLM's clients send them, /api/embed and
// /api/embeddings as Ollama's do. A score is the cosine of two texts' embeddings.
#include <algorithm>
#include <numeric>

#include "base/format.h"
#include "model/model.h"
#include "serve/api/answer.h"
#include "serve/api/failure.h"
#include "serve/api/json_text.h"
#include "serve/api/prompts.h"

namespace cheetah {
namespace {

constexpr size_t kMaxTexts = 2048;
using Vector = std::vector<float>;
// The body of an answer from the vectors of its requests, which have length 1, and the tokens they took.
using Answer = std::function<std::string(const std::vector<Vector>& vectors, int64_t tokens)>;

class VectorWriter : public ResponseWriter {
 public:
  VectorWriter(Answer answer, const std::vector<GenerationRequest>& requests, ApiStyle style)
      : answer_(std::move(answer)), style_(style), vectors_(requests.size()) {
    for (const GenerationRequest& request : requests) tokens_ += std::ssize(request.prompt);
  }
  std::string on_event(size_t index, const GenerationEvent& event) override {
    if (is_failure(event)) error_ = generation_error(event);
    if (event.finish) vectors_[index] = event.embedding;
    return "";
  }
  std::string finish() override { return error_ ? error_body(*error_, style_) : answer_(vectors_, tokens_); }
  std::string fail(const ApiError& error) override { return error_body(error, style_); }

 private:
  Answer answer_;
  ApiStyle style_;
  std::vector<Vector> vectors_;
  int64_t tokens_ = 0;
  std::optional<ApiError> error_;
};

double cosine(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

std::string floats(const Vector& values) {
  std::string out;
  for (const float value : values) out += format("{}{}", out.empty() ? '[' : ',', value);
  return out.empty() ? "[]" : out + "]";
}

std::string usage(int64_t tokens) {
  return format(R"("usage":{{"prompt_tokens":{},"total_tokens":{}}})", tokens, tokens);
}

// A text, or an array of texts and objects with a "text", as texts.
std::vector<std::string> texts_of(Fields& fields, std::string_view name) {
  const OrderedJson* value = fields.find(name);
  if (!value) fields.missing(name);
  std::vector<std::string> texts;
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array() || value->empty())
    fields.wrong_type(name, *value, "a text or a non-empty array of texts");
  if (value->size() > kMaxTexts)
    refuse("invalid_value", fields.param(name),
        format("{} has {} items, more than the limit of {}", fields.param(name), value->size(), kMaxTexts));
  for (size_t i = 0; i < value->size(); ++i) {
    const OrderedJson& item = (*value)[i];
    const std::string param = format("{}[{}]", fields.param(name), i);
    if (item.is_object()) {
      Fields inner(item, param);
      texts.push_back(inner.required_string("text", SIZE_MAX));
    } else if (item.is_string()) {
      texts.push_back(item.get<std::string>());
    } else {
      refuse("invalid_type", param, format("{} must be a text or an object with a \"text\"", param));
    }
  }
  return texts;
}

// One request for each text.
void add_requests(ApiCall& call, const std::vector<std::string>& texts, const std::string& param,
    const ApiServices& services, const CallFacts& facts) {
  const OrderedJson list = {{param, texts}};
  Fields fields(list, "");
  GenerationRequest request;
  request.pooling = Pooling::kMean;
  request.cache_salt = facts.cache_salt;
  for (Prompt& prompt :
      read_prompts(fields, services, {.field = param, .max_prompts = kMaxTexts, .parse_special = false})) {
    request.prompt = std::move(prompt.ids);
    call.requests.push_back(request);
  }
}

ApiCall with_answer(ApiCall call, Answer answer, ApiStyle style = ApiStyle::kOpenAi) {
  call.writer = std::make_unique<VectorWriter>(std::move(answer), call.requests, style);
  return call;
}

std::string list_head(std::string_view prefix, const ApiServices& services, const CallFacts& facts) {
  return format(R"({{"id":{},"object":"list","created":{},"model":{},"data":[)",
      json_string(std::string(prefix) + facts.id), facts.unix_time, json_string(services.model_name));
}

ApiCall pooling(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  const OrderedJson json = parse_body(body);
  Fields fields(json, "");
  check_model(fields, services);
  ApiCall call;
  add_requests(call, texts_of(fields, "input"), "input", services, facts);
  fields.no_effect("encoding_format", {R"("float")"});
  fields.ignore({"user", "truncate_prompt_tokens"});
  fields.finish(services.strict_fields, call.warnings);
  return with_answer(
      std::move(call), [head = list_head("pool-", services, facts)](const auto& vectors, int64_t tokens) {
        std::string out = head;
        for (size_t i = 0; i < vectors.size(); ++i)
          out += format(
              R"({}{{"index":{},"object":"pooling","data":{}}})", i > 0 ? "," : "", i, floats(vectors[i]));
        return out + "]," + usage(tokens) + "}";
      });
}

ApiCall score(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  const OrderedJson json = parse_body(body);
  Fields fields(json, "");
  check_model(fields, services);
  const std::string_view first_name = fields.has("queries") ? "queries" : "text_1";
  const std::string_view second_name = fields.has("documents") ? "documents" : "text_2";
  const std::vector<std::string> first = texts_of(fields, first_name), second = texts_of(fields, second_name);
  fields.ignore({"user", "truncate_prompt_tokens", "encoding_format"});
  ApiCall call;
  fields.finish(services.strict_fields, call.warnings);
  if (first.size() != 1 && first.size() != second.size())
    refuse("invalid_value", std::string(first_name),
        format("{} must be one text or as many as {}: got {} and {}", first_name, second_name, first.size(),
            second.size()));
  add_requests(call, first, std::string(first_name), services, facts);
  add_requests(call, second, std::string(second_name), services, facts);
  const size_t count = first.size();
  return with_answer(std::move(call),
      [head = list_head("score-", services, facts), count](const auto& vectors, int64_t tokens) {
        std::string out = head;
        for (size_t i = 0; count + i < vectors.size(); ++i)
          out += format(R"({}{{"index":{},"object":"score","score":{}}})", i > 0 ? "," : "", i,
              cosine(vectors[count == 1 ? 0 : i], vectors[count + i]));
        return out + "]," + usage(tokens) + "}";
      });
}

ApiCall rerank(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  const OrderedJson json = parse_body(body);
  Fields fields(json, "");
  check_model(fields, services);
  const std::string query = fields.required_string("query", SIZE_MAX);
  const std::vector<std::string> documents = texts_of(fields, "documents");
  const auto top = fields.integer("top_n", 0, INT32_MAX).value_or(0);
  const bool shown = fields.boolean("return_documents").value_or(true);
  fields.ignore({"user", "truncate_prompt_tokens", "max_chunks_per_doc", "max_tokens_per_doc"});
  ApiCall call;
  fields.finish(services.strict_fields, call.warnings);
  add_requests(call, {query}, "query", services, facts);
  add_requests(call, documents, "documents", services, facts);
  const std::string head =
      format(R"({{"id":{},"model":{},)", json_string("rerank-" + facts.id), json_string(services.model_name));
  return with_answer(std::move(call), [head, documents, top, shown](const auto& vectors, int64_t tokens) {
    std::vector<size_t> order(documents.size());
    std::iota(order.begin(), order.end(), 0);
    std::vector<double> scores;
    for (size_t i = 0; i < documents.size(); ++i) scores.push_back(cosine(vectors[0], vectors[i + 1]));
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    if (top > 0 && static_cast<size_t>(top) < order.size()) order.resize(static_cast<size_t>(top));
    std::string out = head + usage(tokens) + ",\"results\":[";
    for (const size_t i : order)
      out += format(R"({}{{"index":{},{}"relevance_score":{}}})", out.ends_with('[') ? "" : ",", i,
          shown ? format(R"("document":{{"text":{}}},)", json_string(documents[i])) : "", scores[i]);
    return out + "]}";
  });
}

ApiCall ollama_embed(std::string_view body, const ApiServices& services, const CallFacts& facts, bool one) {
  const OrderedJson json = parse_body(body);
  Fields fields(json, "");
  check_model(fields, services);
  const std::string name = fields.required_string("model");
  ApiCall call;
  add_requests(call, texts_of(fields, one ? "prompt" : "input"), one ? "prompt" : "input", services, facts);
  fields.ignore({"options", "keep_alive", "truncate"});
  fields.no_effect("dimensions");
  fields.finish(services.strict_fields, call.warnings);
  return with_answer(
      std::move(call),
      [name, one](const auto& vectors, int64_t tokens) {
        if (one) return format("{{\"embedding\":{}}}", floats(vectors.front()));
        std::string out = format("{{\"model\":{},\"embeddings\":[", json_string(name));
        for (size_t i = 0; i < vectors.size(); ++i) out += (i > 0 ? "," : "") + floats(vectors[i]);
        return out + format("],\"total_duration\":0,\"load_duration\":0,\"prompt_eval_count\":{}}}", tokens);
      },
      ApiStyle::kOllama);
}

}  // namespace

ApiResult parse_pooling(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  return guarded([&] { return pooling(body, services, facts); });
}
ApiResult parse_score(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  return guarded([&] { return score(body, services, facts); });
}
ApiResult parse_rerank(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  return guarded([&] { return rerank(body, services, facts); });
}
ApiResult parse_ollama_embed(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  return guarded([&] { return ollama_embed(body, services, facts, false); });
}
ApiResult parse_ollama_embeddings(
    std::string_view body, const ApiServices& services, const CallFacts& facts) {
  return guarded([&] { return ollama_embed(body, services, facts, true); });
}

}  // namespace cheetah
