// SPDX-License-Identifier: MIT
// cheetah cluster up --in-process: all nodes as threads of this process.
#include <cstdlib>

#include "base/error.h"
#include "base/format.h"
#include "cli/cluster.h"
#include "cli/output.h"
#include "cli/serve_node.h"
#include "cli/signals.h"
#include "engine/grammar/grammar_cache.h"
#include "engine/memory_plan.h"
#include "observe/event_log.h"
#include "serve/server.h"

namespace cheetah {
namespace {

using cluster::LaunchOptions;
using cluster::Node;
using cluster::Role;

// The workers share what is free.
EngineConfig worker_config(const ServeOptions& options, const Model& model, int num_workers) {
  EngineConfig config = plan_memory(model, engine_config(options)).config;
  if (options.config.kv_bytes == 0) config.kv_bytes /= num_workers;
  return config;
}

}  // namespace

int run_in_process(const UpOptions& up) {
  if (!up.also.empty()) throw UsageError("--in-process serves one model: leave --also out");
  if (!up.more.empty() || !up.more_prefill.empty() || !up.more_decode.empty())
    throw UsageError("--in-process takes no further flags of cheetah serve");
  ServeOptions options;
  options.engine.model = up.model;
  options.engine.threads = threads_each(up);
  options.port = up.port;
  options.cluster.url = "inproc:";
  options.cluster.admin_key_file = up.admin_key_file;
  ClusterOptions flags;
  flags.policy_file = up.policy_file;
  ShutdownSignals signals;
  ServerConfig config = server_config(options, std::getenv("CHEETAH_API_KEY"));
  config.pass_headers = true;
  Server server(config);
  EventLog log(options.server.log);
  const std::shared_ptr<const Model> model = load_model(options.engine);
  GrammarCache grammars(*model);
  const EngineConfig engine = worker_config(options, *model, up.num_prefill + up.num_decode);
  cluster::InProcessCluster together;
  LaunchOptions launch;
  launch.policy = policy_of(flags);
  launch.policy_file = up.policy_file;
  const auto start = [&](Role role, const std::string& name) {
    launch.role = role;
    launch.name = name;
    const EngineConfig limits = role == Role::kRouter ? router_limits(options, *model) : engine;
    return cluster::launch_node(launch,
        {.model = model, .grammars = grammars, .log = &log, .traces = server.traces()}, limits, &together);
  };
  std::vector<std::unique_ptr<Node>> workers;
  for (int i = 0; i < up.num_prefill; ++i) workers.push_back(start(Role::kPrefill, format("prefill-{}", i)));
  const Role decodes = up.num_prefill > 0 ? Role::kDecode : Role::kBoth;
  for (int i = 0; i < up.num_decode; ++i) workers.push_back(start(decodes, format("decode-{}", i)));
  const auto router = start(Role::kRouter, "router");
  router->wait_for_workers(up.num_decode, std::chrono::seconds(60));
  server.serve(
      router->backend(), make_api_services(options, *model, router->backend().config(), grammars),
      [&router] { return router->metrics(); }, {},
      [&router](AdminCall call, std::function<void(AdminAnswer)> done) {
        router->admin(std::move(call), std::move(done));
      });
  print(format("ready: {} workers in this process, router at {}\n", workers.size(), server.url()));
  flush_output();
  signals.wait();
  print_note("draining");
  server.drain(std::chrono::seconds(30));
  server.stop();
  return 0;
}

}  // namespace cheetah
