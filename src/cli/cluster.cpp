// SPDX-License-Identifier: MIT
// cheetah cluster: a cluster on one machine, and a look at any.
#include "cli/cluster.h"

#include <CLI/CLI.hpp>

#include "base/format.h"
#include "base/json.h"
#include "cli/cluster_admin.h"
#include "cli/command.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cluster/net/credentials.h"
#include "cluster/node/observer.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah cluster up --prefill 2 --decode 2
  cheetah cluster status --cluster etcd://localhost,nats://localhost
  cheetah cluster top
  cheetah cluster drain decode-1 --wait
)";
constexpr const char* kUpExamples = R"(
Examples:
  cheetah cluster up --prefill 2 --decode 2
  cheetah cluster up --prefill 1 --decode 3 --in-process model.gguf
  cheetah cluster up LARGE --decode 2 --also SMALL --policy-file policy.toml
  cheetah cluster up --cluster etcd://localhost,nats://localhost --serve-flags='--max-sequences 16'
)";
constexpr const char* kStatusExamples = R"(
Examples:
  cheetah cluster status --cluster etcd://localhost,nats://localhost --secret-file secret
  cheetah cluster status --cluster peers:peers.txt --secret-file secret --json
  cheetah cluster status --cluster etcd://localhost --wait 10
)";

struct StatusOptions {
  std::string url;
  cluster::CredentialFiles credentials;
  bool json = false;
  double wait_s = 2;
};

std::string line_of(const char* name, const cluster::ServiceState& state) {
  const char* word = state.up ? "up" : state.absent ? "none" : "down";
  return format("{} {}{}\n", name, word, state.up ? "" : ": " + state.why);
}

void add_credentials(CLI::App& command, cluster::CredentialFiles& files, const char* secret_help) {
  command.add_option("--secret-file", files.secret, secret_help);
  command.add_option(
      "--cluster-cert", files.certificate, "instead of the secret: PEM file with a certificate");
  command.add_option("--cluster-key", files.key, "PEM file with its key");
  command.add_option("--cluster-ca", files.authorities, "PEM file with the authority of all nodes");
}

int run_status(const StatusOptions& options) {
  const cluster::Observer observer(
      cluster::parse_cluster_url(options.url), cluster::read_credentials(options.credentials));
  observer.wait(std::chrono::milliseconds(static_cast<int64_t>(options.wait_s * 1e3)));
  auto workers = observer.workers();
  cluster::knock_at_silent(workers, std::chrono::milliseconds(300));
  const auto registry = observer.registry(), queue = observer.queue();
  const auto refusals = observer.refusals();
  for (const std::string& refusal : refusals) print_note(refusal);
  if (options.json) {
    print(dump_json({{"workers", cluster::workers_json(workers)},
              {"registry", {{"up", registry.up}, {"why", registry.why}}},
              {"queue", {{"up", queue.up}, {"why", queue.why}}}}) +
          "\n");
  } else {
    print(
        line_of("registry", registry) + line_of("queue   ", queue) + "\n" + cluster::workers_table(workers));
  }
  if (workers.empty() && refusals.empty())
    print_note(registry.up ? "the cluster has no workers"
                           : "no part of the cluster has answered; --wait gives it longer");
  return cluster::healthy(workers) && refusals.empty() ? 0 : 1;
}

void add_status(CLI::App& cluster, Action& action) {
  auto* command = cluster.add_subcommand("status",
      "Who is in a cluster and what it does; exits with 0 where all answer and one decodes, else with 1");
  auto options = std::make_shared<StatusOptions>();
  command->add_option("--cluster", options->url, "the cluster, as cheetah serve takes it")->required();
  add_credentials(*command, options->credentials, "file with the cluster's secret");
  command->add_option("--wait", options->wait_s, "seconds to wait for the workers' answers")
      ->check(CLI::Range(0.0, 60.0))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print one JSON object");
  command->footer(kStatusExamples);
  command->callback([=, &action] { action = [=] { return run_status(*options); }; });
}

void add_up(CLI::App& cluster, Action& action) {
  auto* command = cluster.add_subcommand("up", "Start a cluster on this machine and keep it running");
  auto options = std::make_shared<UpOptions>();
  command->add_option("MODEL", options->model, "a model's path or name, as cheetah serve takes it");
  command->add_option("--prefill", options->num_prefill, "prefill workers")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  command->add_option("--decode", options->num_decode, "decode workers")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option(
      "--also", options->also, "a second model, e.g. a smaller one for when the first is busy");
  command->add_option("--also-workers", options->num_also, "its workers")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--port", options->port, "port of the router; 0 picks a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->add_option("--cluster", options->url, "use these services instead of a list of peers");
  add_credentials(*command, options->credentials, "file with the cluster's secret (default: a new one)");
  command->add_option("--policy-file", options->policy_file, "TOML file with the policies");
  command->add_option("--admin-key-file", options->admin_key_file, "file with the keys of operators");
  command
      ->add_option("--threads", options->threads, "threads of each worker (default: the cores, shared out)")
      ->check(CLI::Range(1, 1024));
  command->add_option("--logs", options->folder, "folder for logs (default: a new one in /tmp)");
  command
      ->add_option("--log-max-size", options->log_max_size,
          "size at which a log becomes NAME.log.1 and a new one is begun")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_option("--log-keep", options->log_keep, "full logs of each node that are kept")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  auto* in_process = command->add_flag("--in-process", options->in_process, "all nodes in this process");
  for (const char* of_files : {"--log-max-size", "--log-keep"})
    command->get_option(of_files)->excludes(in_process);
  command->add_option("--serve-flags", options->more,
      "further flags of cheetah serve for every node: --serve-flags='--ctx-size 4096'");
  command->add_option("--prefill-flags", options->more_prefill,
      "further flags for prefill workers: --prefill-flags='--page-tokens 64'");
  command->add_option("--decode-flags", options->more_decode, "further flags for decode workers");
  command->footer(kUpExamples);
  command->callback([=, &action] {
    parse_bytes("--log-max-size", options->log_max_size);  // refused now, not by every node
    action = [=] { return options->in_process ? run_in_process(*options) : run_up(*options); };
  });
}

}  // namespace

void add_cluster(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand(
      "cluster", "Disaggregated prefill and decode: start a cluster, look at one, operate one");
  command->require_subcommand(1);
  add_up(*command, action);
  add_status(*command, action);
  add_cluster_admin(*command, action);
  add_etcd_users(*command, action);
  command->footer(kExamples);
}

}  // namespace cheetah
