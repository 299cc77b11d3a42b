// SPDX-License-Identifier: MIT
#pragma once
// A server that is a node of a cluster, and what it shares with one that stands alone.
#include <memory>
#include <vector>

#include "cli/serve_options.h"
#include "engine/grammar/grammar_cache.h"
#include "serve/api/endpoint.h"

namespace cheetah {

ApiServices make_api_services(
    const ServeOptions& options, const Model& model, const EngineConfig& config, GrammarCache& grammars);

// A model of other workers: its tokens, its template and its grammars are needed where its clients are.
struct MoreModel {
  std::string asked;                   // as --also-serve names it
  std::shared_ptr<const Model> model;  // shared with the node
  std::unique_ptr<GrammarCache> grammars;
  EngineConfig limits;
};
std::vector<MoreModel> load_more_models(const ServeOptions& options);
ApiServices make_api_services(const ServeOptions& options, const MoreModel& more);

// For a node without an engine: what clients may ask for. The workers know their own limits.
EngineConfig router_limits(const ServeOptions& options, const Model& model);

int run_node(const ServeOptions& options);

}  // namespace cheetah
