// SPDX-License-Identifier: MIT
#include "serve/pool_answers.h"

#include <algorithm>
#include <map>

#include "base/format.h"
#include "model/model.h"
#include "observe/prometheus_text.h"
#include "serve/api/ollama.h"

namespace cheetah {
namespace {

std::vector<std::string> names_of(const PooledModel& model) {
  std::vector<std::string> names = {model.name};
  for (const std::string& alias : model.aliases)
    if (alias != "*") names.push_back(alias);
  return names;
}

// llama.cpp's words where it has them.
Json status_json(const ModelStatus& status) {
  Json json = {{"value", status.asleep ? "sleeping" : std::string(name_of(status.state))}};
  if (!status.why.empty()) json.update({{"failed", true}, {"why", status.why}});
  return json;
}

struct Family {
  std::string head, samples;
};
// In their order; the key is the line of HELP.
std::vector<std::pair<std::string, Family>> families_of(const std::string& text) {
  std::vector<std::pair<std::string, Family>> families;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string line = text.substr(at, end - at);
    at = end;
    if (line.starts_with("# HELP")) families.push_back({line, {}});
    if (families.empty()) continue;
    Family& family = families.back().second;
    (line.starts_with('#') ? family.head : family.samples) += line;
  }
  return families;
}

}  // namespace

Json model_json(const ApiServices& services, const std::string& name) {
  return {{"id", name}, {"object", "model"}, {"created", services.created}, {"owned_by", "cheetah"},
      {"max_model_len", services.max_context}, {"root", services.model_name},
      {"meta", {{"n_params", services.model.num_parameters()}, {"n_vocab", services.model.traits().vocab},
                   {"n_ctx_train", services.model.traits().max_positions}}}};
}

Json model_json(const ModelStatus& status, const std::string& name) {
  Json json = {{"id", name}, {"object", "model"}, {"created", status.model.created}, {"owned_by", "cheetah"},
      {"root", status.model.name}};
  if (status.backend) json = model_json(status.backend->services, name);
  json["status"] = status_json(status);
  return json;
}

std::vector<Json> model_list(const std::vector<ModelStatus>& models) {
  std::vector<Json> list;
  for (const ModelStatus& status : models)
    for (const std::string& name : names_of(status.model)) list.push_back(model_json(status, name));
  return list;
}

std::string ollama_tags(const std::vector<ModelStatus>& models) {
  OrderedJson list = OrderedJson::array();
  for (const ModelStatus& status : models)
    for (const std::string& name : names_of(status.model)) {
      if (status.backend)
        list.push_back(ollama_listed(status.backend->services, name));
      else
        list.push_back({{"name", name}, {"model", name}, {"modified_at", rfc3339(status.model.created)},
            {"size", status.model.bytes}, {"digest", ollama_digest(status.model.path)},
            {"details", {{"parent_model", ""}, {"format", "cheetah"}, {"family", "transformer"},
                            {"families", OrderedJson::array({"transformer"})}, {"parameter_size", ""},
                            {"quantization_level", ""}}}});
    }
  return dump_ordered({{"models", std::move(list)}});
}

std::string ollama_loaded(const std::vector<ModelStatus>& models) {
  OrderedJson list = OrderedJson::array();
  for (const ModelStatus& status : models) {
    if (!status.backend) continue;
    OrderedJson one = ollama_running(status.backend->services, status.model.name);
    if (status.expires) one["expires_at"] = rfc3339(std::chrono::system_clock::to_time_t(*status.expires));
    list.push_back(std::move(one));
  }
  return dump_ordered({{"models", std::move(list)}});
}

std::string pool_metrics(const std::vector<ModelStatus>& models) {
  PrometheusText out;
  out.family("cheetah_model_loaded", "gauge", "1 when the model is in memory");
  for (const ModelStatus& status : models)
    out.sample(status.state == ModelState::kLoaded ? 1 : 0, {{"model_name", status.model.name}});
  return out.text();
}

std::string merged_metrics(const std::vector<std::string>& texts) {
  if (texts.empty()) return "";
  auto families = families_of(texts.front());
  for (size_t i = 1; i < texts.size(); ++i)
    for (const auto& [help, family] : families_of(texts[i])) {
      const auto same = std::ranges::find(families, help, &std::pair<std::string, Family>::first);
      if (same != families.end() && family.samples.find("model_name=\"") != std::string::npos)
        same->second.samples += family.samples;
    }
  std::string out;
  for (const auto& [help, family] : families) out += family.head + family.samples;
  return out;
}

}  // namespace cheetah
