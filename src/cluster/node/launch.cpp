// SPDX-License-Identifier: MIT
#include "cluster/node/launch.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/names.h"
#include "cluster/net/crypto.h"
#include "cluster/net/tcp_mesh.h"
#include "cluster/node/kv_adapter.h"
#include "cluster/policy/policy_routing.h"
#include "cluster/transfer/kv_compat.h"
#include "cluster/transfer/slab.h"
#include "engine/kv/chain_hash.h"
#include "model/weights.h"

namespace cheetah::cluster {
namespace {

constexpr std::array<std::string_view, 4> kRoles = {"router", "prefill", "decode", "both"};

TransferBackend transfer_of(const LaunchOptions& options) {
  if (options.transfer != "auto") {
    const auto named = transfer_backend_from_name(options.transfer);
    if (!named)
      throw UsageError(format("--transfer {}: expected auto, shm, tcp or ucx", printable(options.transfer)));
    return *named;
  }
  if (options.cluster.kind == ClusterUrl::Kind::kInProcess) return TransferBackend::kInProcess;
  // Whom only this machine reaches has peers on this machine alone.
  const bool here = options.host == "127.0.0.1" || options.host == "::1" || options.host == "localhost";
  return here ? TransferBackend::kSharedMemory : TransferBackend::kTcp;
}

std::string hex_digest(const std::string& text) {
  const Digest digest = hmac_sha256("model", text);
  std::string hex;
  for (size_t i = 0; i < 16; ++i) hex += format("{:02x}", digest[i]);
  return hex;
}

// Slots for the longest prompt at least: one that can never be received would only wait for space.
std::unique_ptr<TransferAgent> make_agent(const LaunchOptions& options, const NodeConfig& node,
    const Engine& engine, Failpoints* failpoints, const InProcessCluster* together) {
  const KvFormat& format_of = engine.kv_format();
  const WorkerConfig& worker = node.worker;
  const int64_t slab_tokens = worker.slab_tokens;
  const int64_t place_bytes = worker.wire ? worker.wire->page_bytes : format_of.place_bytes();
  TransferConfig config;
  config.backend = transfer_of(options);
  config.self = node.id;
  config.credentials = options.credentials;
  config.slot_bytes = slab_bytes(slab_tokens / format_of.page_tokens, place_bytes);
  const int64_t longest = engine.config().max_context / slab_tokens + 1;
  config.num_slots = std::max(options.receive_bytes / config.slot_bytes, longest);
  config.host = options.host;
  if (together) config.fabric = together->fabric;
  if (failpoints) config.midway = [failpoints] { failpoints->hit("transfer.midway"); };
  return make_transfer_agent(config);
}

std::unique_ptr<Mesh> make_mesh(const LaunchOptions& options, WorkerId id, InProcessCluster* together) {
  if (together) return together->network.join(id);
  TcpMeshConfig config;
  config.self = id;
  config.host = options.host;
  config.port = options.port;
  config.credentials = options.credentials;
  config.wire = options.wire;
  return make_tcp_mesh(config);
}

std::unique_ptr<PolicyRouting> make_routing(
    const LaunchOptions& options, const std::vector<ServedModel>& models) {
  std::vector<PolicyRouting::ServedModel> names;
  for (const ServedModel& served : models) names.push_back({served.name, served.id});
  const auto block_names = [models](const ClientRequest& client, int64_t page_tokens) {
    const auto served = std::ranges::find(models, client.model, &ServedModel::id);
    const ServedModel& its = served == models.end() ? models.front() : *served;
    return chain_hashes(its.model->traits(), client.request.cache_salt, client.request.prompt, page_tokens);
  };
  return std::make_unique<PolicyRouting>(options.policy, block_names, std::move(names));
}

// Clients tell models by their names and workers tell them by their weights: neither may be ambiguous.
std::vector<ServedModel> served_models(const LaunchParts& parts, const EngineConfig& limits) {
  std::vector<ServedModel> models = {
      {.name = parts.model_name.empty() ? parts.model->name() : parts.model_name,
          .id = model_id(*parts.model),
          .model = parts.model,
          .limits = limits}};
  for (ServedModel served : parts.more_models) {
    served.id = model_id(*served.model);
    if (std::ranges::find(models, served.name, &ServedModel::name) != models.end())
      throw UsageError(format("two models are called {}: name one with --served-model-name", served.name));
    if (std::ranges::find(models, served.id, &ServedModel::id) != models.end())
      throw UsageError(format("{}: this model is served already", served.name));
    models.push_back(std::move(served));
  }
  return models;
}

}  // namespace

std::unique_ptr<Node> launch_node(const LaunchOptions& options, const LaunchParts& parts,
    const EngineConfig& engine, InProcessCluster* together) {
  NodeConfig config;
  config.id = random_worker_id(options.credentials.identity.get());
  config.role = options.role;
  config.name = options.name;
  if (config.name.empty())
    config.name = format("{}-{:04x}", name_of(options.role), static_cast<uint64_t>(config.id) & 0xffff);
  config.model = model_digest(*parts.model);
  config.router = options.router;
  config.worker = options.worker;
  config.policy_file = options.policy_file;
  config.wire = options.wire;
  // Renewed well before the queue gives a job that is still worked on to another.
  config.worker.extend_every =
      std::min(config.worker.extend_every, Duration(std::chrono::seconds(options.cluster.visibility_s)) / 3);
  const int64_t page = engine.page_tokens;
  config.worker.slab_tokens = (std::max(options.worker.slab_tokens, kMinSlabTokens) + page - 1) / page * page;
  NodeParts made;
  made.grammars = &parts.grammars;
  made.log = parts.log;
  made.traces = parts.traces;
  made.failpoints = parts.failpoints;
  made.mesh = make_mesh(options, config.id, together);
  // The puller of a job must be able to do it: those whose pages fit have a queue of their own.
  made.services = connect_services(
      options.cluster, together ? together->services : nullptr, config.model.substr(0, 8), options.map_file);
  if (options.role != Role::kRouter) {
    made.engine = std::make_unique<Engine>(parts.model, engine, parts.engine_hooks);
    if (options.transfer_dtype)
      config.worker.wire =
          with_dtype(describe_pages(made.engine->kv_format(), config.model), *options.transfer_dtype);
    made.transfer = make_agent(options, config, *made.engine, parts.failpoints, together);
  }
  made.models = served_models(parts, made.engine ? made.engine->config() : engine);
  if (options.role == Role::kRouter || options.takes_clients)
    made.routing = make_routing(options, made.models);
  return std::make_unique<Node>(config, std::move(made));
}

// The norms are small, stay as they are when weights are quantised, and differ wherever a model was trained
// further.
std::string model_id(const Model& model) {
  const ModelTraits& traits = model.traits();
  const ModelWeights& weights = model.weights();
  std::string text = format("{} {} {}", model.num_parameters(), traits.vocab, traits.hidden);
  const auto add = [&](const Norm& norm) {
    if (norm.present())
      text.append(
          reinterpret_cast<const char*>(norm.weight), static_cast<size_t>(traits.hidden) * sizeof(float));
  };
  for (const LayerWeights& layer : weights.layers) {
    add(layer.attention_in);
    add(layer.mlp_in);
  }
  add(weights.final_norm);
  return hex_digest(text);
}

std::string model_digest(const Model& model) {
  return hex_digest(format("{} {}", model_id(model), model.weight_bytes()));
}

Role role_from_name(const std::string& name) {
  const auto found = std::ranges::find(kRoles, name);
  if (found == kRoles.end())
    throw UsageError(format("--role {}: expected router, prefill, decode or both", printable(name)));
  return static_cast<Role>(found - kRoles.begin());
}

std::string_view name_of(Role role) { return kRoles.at(static_cast<size_t>(role)); }

std::string_view name_of(WorkerState state) {
  constexpr std::array<std::string_view, 3> kNames = {"starting", "ready", "draining"};
  return kNames.at(static_cast<size_t>(state));
}

std::string_view standing_of(Cordon cordon, WorkerState state) {
  constexpr auto kNames = enum_names<Cordon>({{Cordon::kNone, ""}, {Cordon::kCordoned, "cordoned"},
      {Cordon::kDraining, "draining"}, {Cordon::kDrained, "drained"}});
  return cordon == Cordon::kNone ? name_of(state) : kNames[cordon];
}

}  // namespace cheetah::cluster
