// SPDX-License-Identifier: MIT
#pragma once
// What a server of several models says of them, in each API's words.
#include <string>
#include <vector>

#include "base/json.h"
#include "serve/api/endpoint.h"
#include "serve/model_pool.h"

namespace cheetah {

// One entry of /v1/models: of a served model under one of its names, and of one that may not be loaded.
Json model_json(const ApiServices& services, const std::string& name);
Json model_json(const ModelStatus& status, const std::string& name);
std::vector<Json> model_list(const std::vector<ModelStatus>& models);  // each under each of its names

std::string ollama_tags(const std::vector<ModelStatus>& models);
std::string ollama_loaded(const std::vector<ModelStatus>& models);

// Which models are loaded, for Prometheus.
std::string pool_metrics(const std::vector<ModelStatus>& models);
// Expositions of several models as one: each family once, with the samples of all. What has no model_name is the
// first's.
std::string merged_metrics(const std::vector<std::string>& texts);

}  // namespace cheetah
