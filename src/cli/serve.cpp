// SPDX-License-Identifier: MIT
// cheetah serve: a model behind the OpenAI and Anthropic APIs.
#include <CLI/CLI.hpp>
#include <cstdlib>

#include "base/format.h"
#include "base/table.h"
#include "cli/cluster_memory.h"
#include "cli/command.h"
#include "cli/fault_exit.h"
#include "cli/gpu_readings.h"
#include "cli/model_gate.h"
#include "cli/output.h"
#include "cli/serve_node.h"
#include "cli/serve_options.h"
#include "cli/serve_pool.h"
#include "cli/signals.h"
#include "cli/version.h"
#include "engine/grammar/grammar_cache.h"
#include "engine/memory_plan.h"
#include "observe/event_log.h"
#include "serve/server.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah serve
  cheetah serve model.gguf --port 8080 --max-sequences 128
  cheetah serve ORG/NAME --host 0.0.0.0 --api-key-file keys.txt --tls-cert cert.pem --tls-key key.pem
  cheetah serve A.gguf ORG/NAME --models-max 1 --keep-alive 10m
  cheetah serve --uds /run/cheetah.sock --uds-mode 0660
  cheetah serve --config server.toml --print-config
  cheetah serve --role router --cluster etcd://e1,nats://q1 --secret-file secret --host 0.0.0.0 --api-key-file keys.txt
  cheetah serve --role prefill --cluster etcd://e1,nats://q1 --secret-file secret --cluster-host 10.0.0.2
  cheetah serve --role decode --cluster etcd://e1 --cluster-cert node.pem --cluster-key node.key --cluster-ca ca.pem

Every flag can also stand in a TOML file (--config FILE: max-queue = 64) and in the environment
(CHEETAH_MAX_QUEUE=64). A flag wins over the environment, the environment over the file.
)";

using Clock = std::chrono::steady_clock;

// Between an engine's fatal fault and the end of the process.
constexpr std::chrono::seconds kLastWords{2};

// Tells how long each part of the start took.
class StartReport {
 public:
  void done(const std::string& phase) {
    const auto now = Clock::now();
    print(format("  {:<34} {:>8.2f} s\n", phase, std::chrono::duration<double>(now - last_).count()));
    flush_output();
    last_ = now;
  }
  double total_s() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

std::string budget_table(const MemoryPlan& plan) {
  Table table({"memory", "size", "note"});
  for (const MemoryRow& row : plan.rows)
    table.add({row.name, human_bytes(static_cast<double>(row.bytes)), row.note});
  return table.render();
}

// A call this model can answer: by messages, by text, or by ids where there is no tokenizer.
struct FirstCall {
  const char* path;
  const char* body;
};
FirstCall first_call(const Model& model) {
  if (model.tokenizer() == nullptr) return {"completions", R"("prompt":[1,2,3],"max_tokens":8)"};
  if (model.chat_template() == nullptr)
    return {"completions", R"("prompt":"Once upon a time","stream":true)"};
  return {"chat/completions", R"("messages":[{"role":"user","content":"Tell me a story."}],"stream":true)"};
}

std::string ready_text(
    const std::string& url, const std::string& name, const Model& model, bool needs_key, double seconds) {
  const FirstCall call = first_call(model);
  constexpr std::string_view kUnix = "unix:";
  const bool local = url.starts_with(kUnix);  // no browser reaches it
  const std::string base = local ? "http://localhost" : url;
  return format(
      "\nready after {:.2f} s: {} at {}\n\n"
      "{}"
      "  or try      curl {}/v1/{} -H 'content-type: application/json' \\\n{}"
      "                -d '{{\"model\":\"{}\",{}}}'\n"
      "  any OpenAI client works with the base URL {}/v1\n\n",
      seconds, name, url, local ? "" : format("  open it     {}/\n", url),
      local ? format("--unix-socket {} {}", url.substr(kUnix.size()), base) : base, call.path,
      needs_key ? "                -H \"Authorization: Bearer $CHEETAH_API_KEY\" \\\n" : "", name, call.body,
      base);
}

int run_serve(const ServeOptions& options) {
  const auto log_file = open_log_file(options);
  StartReport report;
  const ServerConfig config = server_config(options, std::getenv("CHEETAH_API_KEY"));
  Server server(config);
  EventLog log(config.log);
  FaultExit fault_exit(kLastWords);
  print(format("cheetah {} starts at {}\n", build_info().version, server.url()));
  report.done("port open");
  const MemoryPlan expected = plan_before_loading(options.engine, engine_config(options));
  print("\n" + budget_table(expected) + "\n");
  flush_output();
  const std::shared_ptr<const Model> model = load_model(
      options.engine, [&server](int64_t done, int64_t total) { server.tell_loading(done, total); });
  report.done("model read");
  tell_evaluation(options.engine.model);
  GrammarCache grammars(*model);
  const MemoryPlan plan = plan_memory(*model, engine_config(options));
  Engine engine(model, plan.config, fault_exit.hooks(log));
  report.done("tables and cache made");
  engine.warm_up();
  report.done("warmed up");
  if (plan.num_pages < expected.num_pages)
    print_note("the model took more memory than its files: the cache is smaller\n" + budget_table(plan));
  const ApiServices services = make_api_services(options, *model, engine.config(), grammars);
  ShutdownSignals signals;
  server.serve(engine, services, gpu_metrics(engine.config().device == DeviceKind::kCuda));
  print(ready_text(server.url(), services.model_name, *model, config.keys.required(), report.total_s()));
  flush_output();
  const int signal = signals.wait();
  print_note(format("signal {}: finishing what runs; a second signal ends at once", signal));
  server.drain(std::chrono::milliseconds(static_cast<int64_t>(options.shutdown_timeout_s * 1e3)));
  server.stop();
  return 0;
}

}  // namespace

void add_serve(CLI::App& root, Action& action) {
  auto* command =
      root.add_subcommand("serve", "Serve a model over HTTP: the OpenAI and Anthropic APIs, metrics, a page");
  auto options = std::make_shared<ServeOptions>();
  auto settings = std::make_shared<Settings>(serve_settings(*options));
  auto file = std::make_shared<std::string>();
  auto print_only = std::make_shared<bool>(false);
  settings->add_flags(*command);
  command->add_option("--config", *file, "TOML file with settings named like the flags");
  command->add_flag("--print-config", *print_only, "print every setting and where it comes from, and stop");
  command->footer(kExamples);
  command->callback([=, &action] {
    action = [=] {
      settings->resolve(*file, [](const char* name) { return std::getenv(name); });
      if (*print_only) {
        print(settings->print());
        return 0;
      }
      options->port_given = settings->given("port");
      options->address_given = options->port_given || settings->given("host");
      if (in_cluster(options->cluster)) return run_node(*options);
      return loads_on_demand(*options) ? run_pool(*options) : run_serve(*options);
    };
  });
}

}  // namespace cheetah
