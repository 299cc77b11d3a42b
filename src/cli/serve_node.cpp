// SPDX-License-Identifier: MIT
#include "cli/serve_node.h"

#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "cli/fault_exit.h"
#include "cli/gpu_readings.h"
#include "cli/node_endpoints.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/version.h"
#include "engine/grammar/grammar_cache.h"
#include "engine/memory_plan.h"
#include "observe/event_log.h"
#include "serve/server.h"

namespace cheetah {
namespace {

using cluster::Node;
using cluster::Role;

// Until it has warmed up and says so.
bool becomes_ready(Node& node, ShutdownSignals& signals) {
  node.when_ready([&signals] { signals.wake(); });
  return signals.wait() == 0;
}

std::string ready_text(const Node& node, const Server& server, bool takes_clients) {
  const cluster::WorkerDescriptor self = node.status().self;
  return format("ready after start: {} {} at {}, peers at {}:{}{}\n", cluster::name_of(self.role), self.name,
      server.url(), self.host, self.port, takes_clients ? "" : " (health and metrics only)");
}

AdminHandler operated(Node& node) {
  return [&node](AdminCall call, std::function<void(AdminAnswer)> done) {
    node.admin(std::move(call), std::move(done));
  };
}
// What the endpoint picker needs beside the node; it reads bodies as the server does.
struct Picker {
  Picker(
      Node& node, const ServeOptions& options, const ServerConfig& server, std::vector<ApiServices> services)
      : models(std::move(services)),
        endpoints(node, static_cast<uint16_t>(options.cluster.picker_target_port)),
        picker({.port = static_cast<uint16_t>(options.cluster.picker_port),
                   .server = server,
                   .models = pointers()},
            endpoints) {}
  std::vector<const ApiServices*> pointers() const {
    std::vector<const ApiServices*> all;
    for (const ApiServices& one : models) all.push_back(&one);
    return all;
  }
  const std::vector<ApiServices> models;
  NodeEndpoints endpoints;
  EndpointPicker picker;
};

// Faults on purpose, for tests; cluster/node/failpoints.h says how they are written.
std::unique_ptr<cluster::Failpoints> failpoints_of(const char* setting) {
  if (setting == nullptr || *setting == '\0') return nullptr;
  print_note("CHEETAH_FAILPOINTS is set: this node fails on purpose");
  return std::make_unique<cluster::Failpoints>(setting);
}

// The release before this one or the one after it, for tests of how they get on with each other.
cluster::WireVersions played_release(const char* setting) {
  const std::string_view name = setting == nullptr ? "" : setting;
  if (name.empty()) return cluster::kWire;
  const uint16_t newest = cluster::kWire.newest;
  print_note(format("CHEETAH_PLAY_RELEASE is set: this node speaks as the {} release does", name));
  if (name == "previous") return {.newest = cluster::kWire.oldest, .oldest = cluster::kWire.oldest};
  if (name == "next") return {.newest = static_cast<uint16_t>(newest + 1), .oldest = newest};
  throw UsageError("CHEETAH_PLAY_RELEASE: expected previous or next");
}

}  // namespace

int run_node(const ServeOptions& options) {
  const auto log_file = open_log_file(options);
  cluster::LaunchOptions launch = launch_options(options.cluster);
  const bool router = launch.role == Role::kRouter;
  launch.takes_clients = router || (options.port_given && launch.role != Role::kPrefill);
  ServerConfig config = server_config(options, std::getenv("CHEETAH_API_KEY"));
  config.api = launch.takes_clients;
  config.pass_headers = true;  // which of them give a request its class may change at any time
  if (!options.cluster.admin_key_file.empty() && !launch.takes_clients)
    throw UsageError("--admin-key-file: operators ask a router, and this node takes no clients");
  if (loads_on_demand(options))
    throw UsageError("--models, --models-dir, --enable-sleep-mode: a node of a cluster keeps its model");
  if (!options.also_serve.empty() && !launch.takes_clients)
    throw UsageError("--also-serve: this node takes no clients");
  if (options.cluster.picker_port != 0 && !launch.takes_clients)
    throw UsageError("--endpoint-picker-port: this node takes no clients: give it to a router");
  if (!options.port_given && !router) config.listen.port = 0;
  launch.wire = played_release(std::getenv("CHEETAH_PLAY_RELEASE"));
  const auto failpoints = failpoints_of(std::getenv("CHEETAH_FAILPOINTS"));
  ShutdownSignals signals;
  Server server(config);
  EventLog log(config.log);
  print(format("cheetah {} starts at {}\n", build_info().version, server.url()));
  flush_output();
  const std::shared_ptr<const Model> model = load_model(
      options.engine, [&server](int64_t done, int64_t total) { server.tell_loading(done, total); });
  GrammarCache grammars(*model);
  const EngineConfig engine =
      router ? router_limits(options, *model) : plan_memory(*model, engine_config(options)).config;
  const std::vector<MoreModel> more = load_more_models(options);
  FaultExit fault_exit(std::chrono::milliseconds(0));
  cluster::LaunchParts parts{.model = model,
      .grammars = grammars,
      .log = &log,
      .traces = server.traces(),
      .failpoints = failpoints.get(),
      .engine_hooks = fault_exit.hooks(log)};
  if (!options.served_names.empty()) parts.model_name = options.served_names.front();
  for (const MoreModel& one : more)
    parts.more_models.push_back(
        {.name = one.model->name(), .id = "", .model = one.model, .limits = one.limits});
  const auto node = cluster::launch_node(launch, parts, engine);
  const auto limit = std::chrono::milliseconds(static_cast<int64_t>(options.shutdown_timeout_s * 1e3));
  std::unique_ptr<Picker> picker;
  if (becomes_ready(*node, signals)) {
    std::vector<ApiServices> more_services;
    for (const MoreModel& one : more) more_services.push_back(make_api_services(options, one));
    const ApiServices services = make_api_services(options, *model, node->backend().config(), grammars);
    if (options.cluster.picker_port != 0) {
      std::vector<ApiServices> all = {services};
      for (const ApiServices& one : more_services) all.push_back(one);
      picker = std::make_unique<Picker>(*node, options, config, std::move(all));
    }
    server.serve(
        node->backend(), services,
        [&node, gpu = gpu_metrics(!router && engine.device == DeviceKind::kCuda)] {
          return node->metrics() + (gpu ? gpu() : "");
        },
        std::move(more_services), launch.takes_clients ? operated(*node) : nullptr);
    if (picker) print(format("endpoint picker at {}:{}\n", config.listen.host, picker->picker.port()));
    print(ready_text(*node, server, launch.takes_clients));
    flush_output();
    const int signal = signals.wait();
    print_note(format("signal {}: finishing what runs; a second signal ends at once", signal));
  }
  picker.reset();
  if (launch.takes_clients) server.drain(limit);
  node->drain(limit);
  server.stop();
  return 0;
}

}  // namespace cheetah
