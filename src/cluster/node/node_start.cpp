// SPDX-License-Identifier: MIT
// How a node comes to life, and how it ends.
#include <algorithm>

#include "base/format.h"
#include "cluster/net/crypto.h"
#include "cluster/node/node_state.h"
#include "cluster/node/registry_keys.h"
#include "cluster/registry/keys.h"
#include "cluster/wire/codec.h"
#include "engine/grammar/grammar.h"
#include "engine/tags/request_origin.h"
#include "observe/event_log.h"

namespace cheetah::cluster {

WorkerId random_worker_id(const Identity* identity) {
  const Digest drawn = random_nonce();
  uint64_t id = 0;
  for (int i = 0; i < 8; ++i) id = id << 8 | drawn[static_cast<size_t>(i)];
  if (identity != nullptr) return identity->id_with(id);
  return WorkerId{id == 0 ? 1 : id};  // 0 stands for nobody in messages
}

Node::State::State(const NodeConfig& node_config, NodeParts node_parts)
    : config(node_config),
      parts(std::move(node_parts)),
      self(describe_self()),
      peers(*parts.mesh, config.id, config.role, parts.routing != nullptr),
      sharing({.routing = parts.routing.get(),
          .has_cache = parts.engine != nullptr,
          .peers = peers,
          .send = [this](WorkerId to, const Message& message) { send(to, message); }}),
      clients(config.id) {
  make_cores();
  make_operator();
  start_mesh();
  watch_registry();
  loop.start([this](Time now) { return run_once(now); });
}

// The thread ends first; a later post goes to a closed box.
Node::State::~State() {
  parts.services.registry->withdraw(worker_key(config.id));
  loop.stop();
  if (parts.engine) parts.engine->drain(std::chrono::milliseconds(0));  // it tells the edge nothing any more
  edge.reset();
  parts.engine.reset();
  parts.mesh.reset();
  parts.services = {};
}

WorkerDescriptor Node::State::describe_self() const {
  WorkerDescriptor descriptor;
  descriptor.id = config.id;
  descriptor.wire = config.wire.newest;
  descriptor.name = config.name;
  descriptor.role = parts.engine ? config.role : Role::kRouter;
  descriptor.state = parts.engine ? WorkerState::kStarting : WorkerState::kReady;
  descriptor.epoch = 1;
  descriptor.host = parts.mesh->host();
  descriptor.port = parts.mesh->port();
  if (parts.transfer) descriptor.transfer = parts.transfer->describe();
  if (!parts.engine) return descriptor;
  descriptor.model = parts.models.front().id;
  descriptor.model_name = parts.models.front().name;
  descriptor.kv = describe_pages(parts.engine->kv_format(), config.model);
  descriptor.max_sequences = parts.engine->config().max_sequences;
  descriptor.num_pages = parts.engine->stats().pages_total;
  descriptor.max_context = parts.engine->config().max_context;
  return descriptor;
}

void Node::State::make_cores() {
  if (parts.routing) {
    RouterConfig setting = config.router;
    setting.self = config.id;
    setting.prefer_self = parts.engine != nullptr;
    router = std::make_unique<RouterCore>(setting, *parts.routing);
    outside.emplace(*parts.routing, config.id);
    policies.emplace(config.policy_file, parts.routing->config(),
        [this](const PolicyConfig& policy) { parts.routing->configure(policy); });
    backend = std::make_unique<ClusterBackend>(ClusterBackend::Setting{.loop = loop,
        .clients = clients,
        .models = parts.models,
        .class_of =
            [this](const RequestOrigin& from) {
              const QosConfig& qos = parts.routing->config().qos;
              return qos.classes.at(static_cast<size_t>(cluster::class_of(from.headers, from.tenant, qos)))
                  .name;
            },
        .feed =
            [this](RouterInput input) {
              if (const auto* client = std::get_if<ClientRequest>(&input)) {
                if (parts.failpoints) hit("client", "request");
                op->traces.begin(
                    client->uid, origin_of(client->request).call, *client, std::chrono::steady_clock::now());
              }
              feed(std::move(input));
            },
        .has_workers = [this] { return status.copy().num_decoders() > 0; },
        .explain = [this](int64_t num) { return decisions.last(num); },
        .state = [this] { return status_json(status.copy()); },
        .grammar_of =
            [](const GenerationRequest& request) {
              if (!request.grammar) return GrammarSource{};
              const auto& source = request.grammar->source();
              return GrammarSource{source.kind, source.text};
            }});
  }
  if (!parts.engine) return;
  WorkerConfig setting = config.worker;
  setting.descriptor = self;
  worker = std::make_unique<WorkerCore>(setting);
  edge = std::make_unique<WorkerEdge>(WorkerEdge::Setting{.engine = *parts.engine,
      .transfer = *parts.transfer,
      .jobs = *parts.services.jobs,
      .mesh = *parts.mesh,
      .grammars = *parts.grammars,
      .loop = loop,
      .kv = self.kv,
      .wire = config.wire,
      .feed = [this](WorkerInput input) { feed(std::move(input)); }});
  if (router) feed_both(PeerUp{config.id});
  parts.engine->watch_cache([this](std::vector<PrefixChange>&& changes) {
    loop.post([this, changes = std::move(changes)] { on_cache_changes(changes); });
  });
  edge->warm_up();
}

void Node::State::make_operator() {
  Operations::Setting setting{.self = config.id,
      .name = config.name,
      .registry = *parts.services.registry,
      .loop = loop,
      .peers = peers,
      .log = parts.log,
      .send = [this](WorkerId to, const Message& message) { send(to, message); },
      .tell_worker = nullptr};
  if (worker) setting.tell_worker = [this](WorkerInput input) { feed(std::move(input)); };
  op.emplace(std::move(setting));
  if (!router) return;
  op->api.emplace(AdminApi::Setting{.config = config,
      .router = *router,
      .routing = *parts.routing,
      .clients = clients,
      .peers = peers,
      .services = parts.services,
      .counters = counters,
      .traces = op->traces,
      .seat = op->seat,
      .operations = op->operations,
      .log = parts.log});
  if (config.role != Role::kRouter) return;
  op->seat.emplace(PlannerSeat::Setting{.registry = *parts.services.registry,
      .loop = loop,
      .self = config.id,
      .owner = format("{} {}", config.name, id_text(config.id)),
      .is_first =
          [this] {
            return std::ranges::none_of(peers.peers(), [this](const auto& known) {
              return known.second.linked && known.second.descriptor.role == Role::kRouter &&
                     known.first < config.id;
            });
          },
      .changed =
          [this](bool held, const std::string& why) {
            if (parts.log)
              parts.log->write(
                  LogLevel::kInfo, held ? "planner_seat_taken" : "planner_seat_lost", {{"why", why}});
          }});
}

void Node::State::start_mesh() {
  MeshEvents events;
  events.on_up = [this](WorkerId peer) { loop.post([this, peer] { on_link(peer, true, ""); }); };
  events.on_down = [this](WorkerId peer, const std::string& why) {
    loop.post([this, peer, why] { on_link(peer, false, why); });
  };
  events.on_refused = [this](const std::string& address, const std::string& why) {
    if (parts.log) parts.log->write(LogLevel::kWarning, "peer_refused", {{"address", address}, {"why", why}});
  };
  events.on_pressure = [this](WorkerId peer, bool pressed) {
    loop.post([this, peer, pressed] {
      if (worker) feed(WorkerInput(PeerPressed{peer, pressed}));
    });
  };
  // Decoded here: the node's thread has enough to do.
  events.on_message = [this](WorkerId peer, std::string&& bytes) {
    try {
      if (auto message = decode_known(bytes, config.wire))
        loop.post([this, peer, said = std::move(*message)]() mutable { on_message(peer, std::move(said)); });
    } catch (const Error& error) {
      if (parts.log)
        parts.log->write(LogLevel::kError, "peer_message_refused",
            {{"peer", format("{:016x}", static_cast<uint64_t>(peer))}, {"why", error.what()}});
    }
  };
  parts.mesh->start(std::move(events));
}

void Node::State::watch_registry() {
  first_map.emplace();
  parts.services.registry->watch(std::string(kWorkersPrefix),
      [this](const RegistryEvent& event) { loop.post([this, event] { on_registry(event); }); });
  parts.services.registry->watch(std::string(kPeersPrefix), [this](const RegistryEvent& event) {
    if (event.kind != RegistryEvent::Kind::kSynced) loop.post([this, event] { on_listed(event); });
  });
  parts.services.registry->watch(std::string(kConfigPrefix) + "policy", [this](const RegistryEvent& event) {
    if (router == nullptr || event.kind == RegistryEvent::Kind::kSynced) return;
    if (event.kind == RegistryEvent::Kind::kRemove)
      return loop.post([this] { log_policy(policies->document_gone()); });
    loop.post([this, entry = event.entry] { log_policy(policies->take_document(entry.value, entry.key)); });
  });
  parts.services.events->subscribe("kv.*", [this](std::string_view, std::string_view bytes) {
    if (router == nullptr) return;
    loop.post([this, copy = std::string(bytes)] { on_kv_events(copy); });
  });
  if (!worker) announce(self);
}

}  // namespace cheetah::cluster
