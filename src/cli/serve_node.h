#pragma once
// A server that is a node of a cluster, and what it shares with one that stands alone.
#include "cli/serve_options.h"
#include "serve/api/endpoint.h"

namespace cheetah {

ApiServices make_api_services(const ServeOptions& options, const Model& model, const EngineConfig& config,
                              GrammarCache& grammars);

// For a node without an engine: what clients may ask for. The workers know their own limits.
EngineConfig router_limits(const ServeOptions& options, const Model& model);

int run_node(const ServeOptions& options);

}  // namespace cheetah
