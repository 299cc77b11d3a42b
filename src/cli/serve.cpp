// cheetah serve: a model behind the OpenAI and Anthropic APIs.
#include <CLI/CLI.hpp>
#include <cstdlib>

#include "base/format.h"
#include "base/table.h"
#include "cli/command.h"
#include "cli/gpu_readings.h"
#include "cli/output.h"
#include "cli/serve_node.h"
#include "cli/serve_options.h"
#include "cli/signals.h"
#include "cli/version.h"
#include "engine/memory_plan.h"
#include "serve/api/grammar_cache.h"
#include "serve/server.h"

namespace cheetah {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cheetah serve
  cheetah serve model.gguf --port 8080 --max-sequences 128
  cheetah serve ORG/NAME --host 0.0.0.0 --api-key-file keys.txt --tls-cert cert.pem --tls-key key.pem
  cheetah serve --config server.toml --print-config
  cheetah serve --role router --cluster etcd://e1,nats://q1 --secret-file secret --host 0.0.0.0 --api-key-file keys.txt
  cheetah serve --role prefill --cluster etcd://e1,nats://q1 --secret-file secret --cluster-host 10.0.0.2
  cheetah serve --role decode --cluster etcd://e1 --cluster-cert node.pem --cluster-key node.key --cluster-ca ca.pem

Every flag can also stand in a TOML file (--config FILE: max-queue = 64) and in the environment
(CHEETAH_MAX_QUEUE=64). A flag wins over the environment, the environment over the file.
)";

using Clock = std::chrono::steady_clock;

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

std::string ready_text(const Server& server, const std::string& model, double seconds) {
  return format(
      "\nready after {:.2f} s: {} at {}\n\n"
      "  open it     {}/\n"
      "  or try      curl {}/v1/chat/completions -H 'content-type: application/json' \\\n"
      "                -d '{{\"model\":\"{}\",\"messages\":[{{\"role\":\"user\",\"content\":\"Tell me a "
      "story.\"}}],\"stream\":true}}'\n"
      "  any OpenAI client works with the base URL {}/v1\n\n",
      seconds, model, server.url(), server.url(), server.url(), model, server.url());
}

int run_serve(const ServeOptions& options) {
  StartReport report;
  Server server(server_config(options, std::getenv("CHEETAH_API_KEY")));
  print(format("cheetah {} starts at {}\n", build_info().version, server.url()));
  report.done("port open");
  const std::shared_ptr<const Model> model = load_model(options.engine);
  report.done("model read");
  GrammarCache grammars(*model);
  const MemoryPlan plan = plan_memory(*model, engine_config(options));
  Engine engine(model, plan.config);
  report.done("tables and cache made");
  engine.warm_up();
  report.done("warmed up");
  print("\n" + budget_table(plan));
  const ApiServices services = make_api_services(options, *model, engine.config(), grammars);
  ShutdownSignals signals;
  server.serve(engine, services, gpu_metrics(engine.config().device == DeviceKind::kCuda));
  print(ready_text(server, services.model_name, report.total_s()));
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
      return in_cluster(options->cluster) ? run_node(*options) : run_serve(*options);
    };
  });
}

}  // namespace cheetah
