// SPDX-License-Identifier: MIT
// What Ollama's clients ask of models: the list, what one is, and requests that would change the list.
#include <openssl/sha.h>

#include "base/error.h"
#include "base/format.h"
#include "engine/grammar/grammar_cache.h"
#include "model/model.h"
#include "model/template/chat_template.h"
#include "model/weights.h"
#include "serve/api/failure.h"
#include "serve/api/ollama.h"
#include "serve/api/request_fields.h"

namespace cheetah {
namespace {

std::string size_text(int64_t parameters) {
  const auto count = static_cast<double>(parameters);
  return count >= 1e9 ? format("{:.1f}B", count / 1e9) : format("{:.1f}M", count / 1e6);
}

// Of the first layer's output matrix: how the bulk of the weights is held.
std::string weight_type(const Model& model) {
  const ModelWeights& weights = model.weights();
  const Linear& matrix = weights.layers.empty() ? weights.head : weights.layers.front().attention.o;
  return std::string(name_of(matrix.w.dtype));
}

OrderedJson details(const ApiServices& services) {
  return {{"parent_model", ""}, {"format", "cheetah"}, {"family", "transformer"},
      {"families", OrderedJson::array({"transformer"})},
      {"parameter_size", size_text(services.model.num_parameters())},
      {"quantization_level", weight_type(services.model)}};
}

template <class Describe>
std::string list_of(const std::vector<const ApiServices*>& models, Describe describe) {
  OrderedJson list = OrderedJson::array();
  for (const ApiServices* services : models)
    for (const std::string& name : services->names()) list.push_back(describe(*services, name));
  return dump_ordered({{"models", std::move(list)}});
}

bool template_says(const ApiServices& services, std::string_view word) {
  const ChatTemplate* chat_template = services.model.chat_template();
  return chat_template && chat_template->source().find(word) != std::string_view::npos;
}

OrderedJson capabilities(const ApiServices& services) {
  OrderedJson list = {"completion", "embedding"};
  if (services.model.chat_template()) list.push_back("tools");
  if (template_says(services, "</think>") || template_says(services, "<|channel|>"))
    list.push_back("thinking");
  return list;
}

// "model", or "name" of older clients.
void check_named_model(Fields& fields, const OrderedJson& json, const ApiServices& services) {
  if (json.is_object() && !json.contains("model") && json.contains("name")) {
    const OrderedJson renamed = {{"model", json["name"]}};
    Fields inner(renamed, "");
    check_model(inner, services);
    fields.ignore({"name"});
  } else {
    check_model(fields, services);
    fields.ignore({"name"});
  }
}

ApiCall show(std::string_view body, const ApiServices& services) {
  const OrderedJson json = parse_body(body);
  Fields fields(json, "");
  check_named_model(fields, json, services);
  fields.ignore({"verbose"});
  ApiCall call;
  fields.finish(services.strict_fields, call.warnings);
  const Model& model = services.model;
  const ChatTemplate* chat_template = model.chat_template();
  call.body = dump_ordered({{"modelfile", "FROM " + services.model_name}, {"parameters", ""},
      {"template", chat_template ? std::string(chat_template->source()) : std::string()},
      {"details", details(services)},
      {"model_info", {{"general.architecture", "transformer"}, {"general.basename", services.model_name},
                         {"general.parameter_count", model.num_parameters()},
                         {"transformer.block_count", model.weights().layers.size()},
                         {"transformer.context_length", services.max_context},
                         {"transformer.embedding_length", model.traits().hidden},
                         {"transformer.vocab_size", model.traits().vocab}}},
      {"capabilities", capabilities(services)}, {"modified_at", rfc3339(services.created)}});
  return call;
}

ApiCall pull(std::string_view body, const ApiServices& services) {
  const OrderedJson json = parse_body(body);
  Fields fields(json, "");
  const OrderedJson* name = fields.find(json.contains("model") ? "model" : "name");
  try {
    check_named_model(fields, json, services);
  } catch (const ApiFailure&) {
    if (!name) throw;
    refuse("model_not_found", "model",
        format(
            "this server has \"{}\" and loads no other model while it runs; start one with: cheetah serve {}",
            services.model_name, name->is_string() ? printable(name->get<std::string>(), 200) : "ORG/NAME"),
        404);
  }
  ApiCall call;
  call.body = R"({"status":"success"})";
  return call;
}

}  // namespace

std::string ollama_digest(const std::string& of) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(of.data()), of.size(), digest);
  std::string out;
  for (const unsigned char byte : digest) out += format("{:02x}", byte);
  return out;
}

OrderedJson ollama_listed(const ApiServices& services, const std::string& name) {
  return {{"name", name}, {"model", name}, {"modified_at", rfc3339(services.created)},
      {"size", services.model.weight_bytes()}, {"digest", ollama_digest(services.system_fingerprint)},
      {"details", details(services)}};
}

OrderedJson ollama_running(const ApiServices& services, const std::string& name) {
  OrderedJson one = ollama_listed(services, name);
  one.erase("modified_at");
  one["expires_at"] = "9999-12-31T23:59:59Z";  // it stays
  one["size_vram"] = 0;
  one["context_length"] = services.max_context;
  return one;
}

std::string ollama_tags(const std::vector<const ApiServices*>& models) {
  return list_of(models, ollama_listed);
}

std::string ollama_loaded(const std::vector<const ApiServices*>& models) {
  return list_of(models, ollama_running);
}

ApiResult parse_ollama_show(std::string_view body, const ApiServices& services, const CallFacts&) {
  return guarded([&] { return show(body, services); });
}

ApiResult parse_ollama_pull(std::string_view body, const ApiServices& services, const CallFacts&) {
  return guarded([&] { return pull(body, services); });
}

ApiResult parse_ollama_change(std::string_view, const ApiServices& services, const CallFacts&) {
  return ApiError{.status = 501,
      .message = format(
          "models cannot be created, copied, pushed or deleted through the API: this server has \"{}\"",
          services.model_name),
      .code = "unsupported_operation"};
}

}  // namespace cheetah
