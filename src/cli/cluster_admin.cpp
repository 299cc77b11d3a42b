// SPDX-License-Identifier: MIT
// cheetah cluster cordon, uncordon, drain, role, scale, trace: what an operator asks a router.
#include "cli/cluster_admin.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "base/table.h"
#include "base/text.h"
#include "cli/output.h"

namespace cheetah {
namespace {

constexpr std::chrono::seconds kLimit{10};
constexpr std::chrono::milliseconds kLook{200};  // between two looks of --wait

// The first key of a file of keys, or the environment's.
std::string admin_key(const AdminTarget& target) {
  if (target.key_file.empty()) {
    const char* key = std::getenv("CHEETAH_ADMIN_KEY");
    return key == nullptr ? "" : key;
  }
  std::ifstream file(target.key_file);
  for (std::string line; std::getline(file, line);) {
    const auto words = words_of(std::string_view(line).substr(0, line.find('#')));
    if (!words.empty()) return std::string(words.size() > 1 ? words[1] : words[0]);
  }
  throw UsageError(
      format("--admin-key-file {}: expected a line with [NAME] KEY", printable(target.key_file, 256)));
}

HttpPeer peer_of(const AdminTarget& target) {
  HttpPeer peer{.url = parse_url(target.router, {.name = "--router", .port = "8000"})};
  peer.tls.ca_file = target.ca_file;
  return peer;
}

std::string percent_encode(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    encoded += plain ? std::string(1, c) : format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

struct ActOptions {
  AdminTarget target;
  std::string node, role, why, replicas;
  double limit_s = 30;
  bool force = false, wait = false;
};

void add_node(CLI::App& command, ActOptions& options) {
  command.add_option("NODE", options.node, "a worker's name or id, as cheetah cluster top shows it")
      ->required();
  command.add_option("--why", options.why, "the reason, for the router's log");
  add_admin_target(command, options.target);
}

void add_force(CLI::App& command, ActOptions& options) {
  command.add_flag("--force", options.force, "also where no other worker decodes its model");
}

Json body_of(const ActOptions& options) {
  return {{"node", options.node}, {"why", options.why}, {"force", options.force}};
}

// The node's entry; null: it is not there.
Json node_in(const Json& cluster, const std::string& node) {
  for (const Json& worker : cluster["workers"])
    if (worker["name"] == node || worker["id"] == node) return worker;
  return {};
}

// Looks until the node is as it should be; one that is gone never will.
template <class Done>
void wait_for(AdminClient& client, const std::string& node, const Done& done) {
  while (true) {
    const Json worker = node_in(client.get("cluster"), node);
    if (worker.is_null() || worker["state"] == "unreachable")
      throw Error(format("{} is gone: what it still had goes on elsewhere", printable(node)));
    if (done(worker)) return;
    std::this_thread::sleep_for(kLook);
  }
}

int run_cordon(const ActOptions& options) {
  AdminClient(options.target).post("cordon", body_of(options));
  print(format("{}: cordoned, it gets nothing new\n", options.node));
  return 0;
}

int run_uncordon(const ActOptions& options) {
  AdminClient(options.target).post("uncordon", body_of(options));
  print(format("{}: takes work again\n", options.node));
  return 0;
}

int run_drain(const ActOptions& options) {
  AdminClient client(options.target);
  Json body = body_of(options);
  body["limit_s"] = options.limit_s;
  client.post("drain", body);
  if (!options.wait) {
    print(format("{}: draining\n", options.node));
    return 0;
  }
  wait_for(client, options.node, [](const Json& worker) { return worker["state"] == "drained"; });
  print(format("{}: drained\n", options.node));
  return 0;
}

int run_role(const ActOptions& options) {
  AdminClient client(options.target);
  Json body = body_of(options);
  body["role"] = options.role;
  client.post("role", body);
  if (options.wait && options.role != "auto")
    wait_for(client, options.node,
        [&](const Json& worker) { return worker["role"] == options.role && worker["state"] == "ready"; });
  const char* what = options.role == "auto" ? "the planner decides its role"
                     : options.wait         ? "is"
                                            : "becomes";
  print(format("{}: {}{}{}\n", options.node, what, options.role == "auto" ? "" : " ",
      options.role == "auto" ? "" : options.role));
  return 0;
}

int run_scale(const ActOptions& options) {
  Json body = {{"pool", options.node}, {"why", options.why}, {"replicas", nullptr}};
  if (options.replicas != "auto") {
    const auto replicas = to_integer(options.replicas);
    if (!replicas)
      throw UsageError(format("'{}': expected a number of workers, or auto", printable(options.replicas)));
    body["replicas"] = *replicas;
  }
  AdminClient(options.target).post("scale", body);
  print(options.replicas == "auto" ? format("{}: the autoscaler decides\n", options.node)
                                   : format("{}: {} workers are desired\n", options.node, options.replicas));
  return 0;
}

void add_act(CLI::App& cluster, Action& action, const char* name, const char* help, const char* example,
    int (*run)(const ActOptions&), void (*add)(CLI::App&, ActOptions&)) {
  auto* command = cluster.add_subcommand(name, help);
  auto options = std::make_shared<ActOptions>();
  add(*command, *options);
  command->footer(format("\nExamples:\n  {}\n", example));
  command->callback([=, &action] { action = [=] { return run(*options); }; });
}

std::string step_line(const Json& at_ms, const std::string& what, const std::string& why) {
  return format("  {:>10.1f} ms  {}{}\n", at_ms.get<double>(), printable(what, 256),
      why.empty() ? "" : ": " + printable(why, 1000));
}

std::string slabs_text(const Json& slabs) {
  Table table({"slab from token", "tokens", "posted", "landed", "imported"});
  const auto ms = [](const Json& value) { return format("{:.1f} ms", value.get<double>()); };
  for (const Json& slab : slabs)
    table.add({format("{}", slab["first_token"].get<int64_t>()), format("{}", slab["tokens"].get<int64_t>()),
        ms(slab["posted_ms"]), ms(slab["landed_ms"]), ms(slab["imported_ms"])});
  return "\n" + table.render();
}

std::string workers_text(const Json& w) {
  const auto at = [&](const char* name) {
    const std::string worker = w[name].get<std::string>();
    return worker.empty() ? std::string() : " at " + printable(worker);
  };
  std::string text = format(
      "  at the workers, as they say: queued {:.1f} ms, prefill {:.1f} ms{}, transfer "
      "{:.1f} ms, decode {:.1f} ms{}; attempts {}\n",
      w["queued_ms"].get<double>(), w["prefill_ms"].get<double>(),
      w["prefill_worker"] == "" ? at("decode_worker") : at("prefill_worker"), w["transfer_ms"].get<double>(),
      w["decode_ms"].get<double>(), at("decode_worker"), w["attempts"].get<int64_t>());
  if (w["fallback"] != "")
    text += format(
        "  the decode worker computed the prompt itself: {}\n", printable(w["fallback"].get<std::string>()));
  if (w["refusal"] != "") text += format("  refused: {}\n", printable(w["refusal"].get<std::string>()));
  if (w["remote_tokens"] > 0)
    text += format("  {} tokens of the prompt came from {}{}\n", w["remote_tokens"].get<int64_t>(),
        printable(w["prefill_worker"].get<std::string>()), slabs_text(w["slabs"]));
  return text;
}

std::string request_text(const Json& r) {
  std::string text = format("request {} of call {}: {} prompt tokens, {} of {} generated, {}\n",
      r["uid"].get<std::string>(), printable(r["request_id"].get<std::string>()),
      r["prompt_tokens"].get<int64_t>(), r["generated"].get<int64_t>(), r["max_tokens"].get<int64_t>(),
      r["running"].get<bool>() ? "running" : "ended with " + r["finish"].get<std::string>());
  text += step_line(0.0, "came to the router", "");
  bool told = !r.contains("first_token_ms");
  for (const Json& step : r["steps"]) {
    if (!told && step["at_ms"] > r["first_token_ms"]) {
      told = true;
      text += step_line(r["first_token_ms"], "first token to the client", "");
    }
    text += step_line(step["at_ms"], step["what"].get<std::string>(), step["why"].get<std::string>());
  }
  if (!told) text += step_line(r["first_token_ms"], "first token to the client", "");
  const std::string error = r["error"].get<std::string>();
  text += step_line(r["total_ms"], r["running"].get<bool>() ? "now" : "ended", error);
  if (r.contains("workers")) text += workers_text(r["workers"]);
  return text;
}

void add_trace(CLI::App& cluster, Action& action) {
  auto* command = cluster.add_subcommand("trace", "One call's way through the cluster, with times");
  auto options = std::make_shared<ActOptions>();
  auto as_json = std::make_shared<bool>(false);
  command->add_option("REQUEST_ID", options->node, "x-request-id of the call, or the id in its answer")
      ->required();
  command->add_flag("--json", *as_json, "print one JSON object");
  add_admin_target(*command, options->target);
  command->footer(R"(
Examples:
  cheetah cluster trace req_5f2c9a01b34c00000007
  cheetah cluster trace chatcmpl-req_5f2c9a01b34c00000007 --json
)");
  command->callback([=, &action] {
    action = [=] {
      const Json answer = AdminClient(options->target).get("trace/" + percent_encode(options->node));
      print(*as_json ? dump_json(answer) + "\n" : trace_text(answer));
      return 0;
    };
  });
}

}  // namespace

std::string trace_text(const Json& answer) {
  std::string text;
  for (const Json& request : answer["requests"]) text += (text.empty() ? "" : "\n") + request_text(request);
  return text;
}

void add_admin_target(CLI::App& command, AdminTarget& target) {
  command.add_option("--router", target.router, "a router of the cluster")->capture_default_str();
  command.add_option("--admin-key-file", target.key_file,
      "file with the operator's key; it may also stand in CHEETAH_ADMIN_KEY");
  command.add_option("--ca", target.ca_file, "PEM file with the authority of the router's certificate");
}

AdminClient::AdminClient(const AdminTarget& target)
    : router_(target.router), key_(admin_key(target)), channel_(peer_of(target)) {}

Json AdminClient::ask(const std::string& method, const std::string& path, const std::string& body) {
  ClientRequest request{.method = method, .path = "/admin/" + path, .body = body};
  if (!key_.empty()) request.headers.emplace_back("authorization", "Bearer " + key_);
  if (method == "POST") request.headers.emplace_back("content-type", "application/json");
  HttpChannel::Answer answer;
  try {
    answer = channel_.send(request, kLimit);
  } catch (const Error& error) {
    throw Error(format("--router {}: {}", printable(router_), error.what()));
  }
  const Json json = Json::parse(answer.body, nullptr, false);
  if (answer.status == 200 && json.is_object()) return json;
  const bool told = json.is_object() && json.contains("error") && json["error"].is_object();
  throw Error(told ? json["error"].value("message", "refused")
                   : format("--router {}: answered {}: expected a router of cheetah serve",
                         printable(router_), answer.status));
}

void add_cluster_admin(CLI::App& cluster, Action& action) {
  add_act(cluster, action, "cordon", "Give a worker nothing new; what it runs goes on",
      "cheetah cluster cordon decode-1 --why 'new memory at noon'", run_cordon,
      [](CLI::App& command, ActOptions& options) {
        add_node(command, options);
        add_force(command, options);
      });
  add_act(cluster, action, "uncordon", "Give a worker work again", "cheetah cluster uncordon decode-1",
      run_uncordon, add_node);
  add_act(cluster, action, "drain",
      "Empty a worker: nothing new, and what runs ends there or goes on elsewhere",
      "cheetah cluster drain decode-1 --limit 60 --wait", run_drain,
      [](CLI::App& command, ActOptions& options) {
        add_node(command, options);
        add_force(command, options);
        command
            .add_option("--limit", options.limit_s, "seconds after which running requests go on elsewhere")
            ->check(CLI::Range(0.0, 86400.0))
            ->capture_default_str();
        command.add_flag("--wait", options.wait, "return when it is drained");
      });
  add_act(cluster, action, "role", "Make a worker compute prompts, tokens or both",
      "cheetah cluster role decode-1 prefill --wait", run_role, [](CLI::App& command, ActOptions& options) {
        add_node(command, options);
        command.add_option("ROLE", options.role, "auto: the planner decides again")
            ->required()
            ->check(CLI::IsMember({"prefill", "decode", "both", "auto"}));
        add_force(command, options);
        command.add_flag("--wait", options.wait, "return when it serves in its new role");
      });
  add_act(cluster, action, "scale", "Say how many workers a pool should have",
      "cheetah cluster scale decode 3", run_scale, [](CLI::App& command, ActOptions& options) {
        command.add_option("POOL", options.node, "whose workers")
            ->required()
            ->check(CLI::IsMember({"prefill", "decode"}));
        command.add_option("N", options.replicas, "their number, or auto: the autoscaler decides again")
            ->required();
        command.add_option("--why", options.why, "the reason, for the router's log");
        add_admin_target(command, options.target);
      });
  add_trace(cluster, action);
  add_cluster_top(cluster, action);
}

}  // namespace cheetah
