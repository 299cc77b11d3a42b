// SPDX-License-Identifier: MIT
// POST /v1/embeddings
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/base64.h"
#include "base/error.h"
#include "base/format.h"
#include "model/model.h"
#include "serve/api/answer.h"
#include "serve/api/failure.h"
#include "serve/api/json_text.h"
#include "serve/api/prompts.h"

namespace cheetah {
namespace {

constexpr size_t kMaxInputs = 2048;

std::string float_bytes(const std::vector<float>& values) {
  static_assert(std::endian::native == std::endian::little, "clients read little-endian floats");
  std::string bytes(values.size() * sizeof(float), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

class EmbeddingWriter : public ResponseWriter {
 public:
  EmbeddingWriter(const ApiServices& services, const ApiCall& call, bool as_base64, size_t dimensions)
      : model_(services.model_name),
        as_base64_(as_base64),
        dimensions_(dimensions),
        embeddings_(call.requests.size()) {
    for (const GenerationRequest& request : call.requests) prompt_tokens_ += std::ssize(request.prompt);
  }

  std::string on_event(size_t index, const GenerationEvent& event) override {
    if (is_failure(event)) error_ = generation_error(event);
    if (event.finish) embeddings_[index] = shortened(event.embedding);
    return "";
  }

  std::string finish() override {
    if (error_) return error_body(*error_, ApiStyle::kOpenAi);
    std::string out = "{\"object\":\"list\",\"data\":[";
    for (size_t i = 0; i < embeddings_.size(); ++i) {
      out += format("{}{{\"object\":\"embedding\",\"index\":{},\"embedding\":", i > 0 ? "," : "", i);
      if (as_base64_)
        out += json_string(base64_of(float_bytes(embeddings_[i])));
      else
        append_floats(out, embeddings_[i]);
      out += '}';
    }
    return out + format("],\"model\":{},\"usage\":{{\"prompt_tokens\":{},\"total_tokens\":{}}}}}",
                     json_string(model_), prompt_tokens_, prompt_tokens_);
  }

  std::string fail(const ApiError& error) override { return error_body(error, ApiStyle::kOpenAi); }

 private:
  // The first dimensions alone, of length 1 again.
  std::vector<float> shortened(std::vector<float> values) const {
    if (dimensions_ > 0 && values.size() > dimensions_) values.resize(dimensions_);
    double sum = 0;
    for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
    const double scale = sum > 0 ? 1 / std::sqrt(sum) : 0;
    for (float& value : values) value = static_cast<float>(static_cast<double>(value) * scale);
    return values;
  }

  static void append_floats(std::string& out, const std::vector<float>& values) {
    for (size_t i = 0; i < values.size(); ++i) out += format("{}{}", i == 0 ? '[' : ',', values[i]);
    out += values.empty() ? "[]" : "]";
  }

  std::string model_;
  bool as_base64_;
  size_t dimensions_;
  std::vector<std::vector<float>> embeddings_;
  int64_t prompt_tokens_ = 0;
  std::optional<ApiError> error_;
};

bool read_base64(Fields& fields) {
  const std::string encoding = fields.string("encoding_format", 64).value_or("float");
  if (encoding != "float" && encoding != "base64")
    refuse("invalid_value", "encoding_format",
        format("encoding_format must be float or base64, got \"{}\"", printable(encoding)));
  return encoding == "base64";
}

Pooling read_pooling(Fields& fields) {
  const std::string pooling = fields.string("pooling", 64).value_or("mean");
  if (pooling != "mean" && pooling != "last")
    refuse(
        "invalid_value", "pooling", format("pooling must be mean or last, got \"{}\"", printable(pooling)));
  return pooling == "mean" ? Pooling::kMean : Pooling::kLast;
}

ApiCall parse(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  const OrderedJson json = parse_body(body);
  Fields fields(json, "");
  check_model(fields, services);
  const bool as_base64 = read_base64(fields);
  const int64_t dimensions = fields.integer("dimensions", 1, services.model.traits().hidden).value_or(0);
  GenerationRequest request;
  request.pooling = read_pooling(fields);
  request.cache_salt = facts.cache_salt;
  fields.string("user", 1024);
  std::vector<Prompt> prompts =
      read_prompts(fields, services, {.field = "input", .max_prompts = kMaxInputs, .parse_special = false});
  ApiCall call;
  fields.finish(services.strict_fields, call.warnings);
  for (Prompt& prompt : prompts) {
    request.prompt = std::move(prompt.ids);
    call.requests.push_back(request);
  }
  call.writer = std::make_unique<EmbeddingWriter>(services, call, as_base64, static_cast<size_t>(dimensions));
  return call;
}

}  // namespace

ApiResult parse_embeddings(std::string_view body, const ApiServices& services, const CallFacts& facts) {
  return guarded([&] { return parse(body, services, facts); });
}

}  // namespace cheetah
