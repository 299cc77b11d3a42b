// SPDX-License-Identifier: MIT
// cheetah cluster top: a cluster on one screen, drawn again and again.
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "base/table.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/cluster_admin.h"
#include "cli/output.h"
#include "cli/signals.h"

namespace cheetah {
namespace {

struct TopOptions {
  AdminTarget target;
  double interval_s = 1;
  bool once = false, json = false;
};

int terminal_rows(int descriptor) {
  winsize size = {};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

double number(const Json& object, const char* name) {
  const auto field = object.find(name);
  return field != object.end() && field->is_number() ? field->get<double>() : 0;
}

// Of counters that only grow; a router that was restarted begins again.
class Rates {
 public:
  Rates(const Json& now, const Json& before, double seconds)
      : now_(now), before_(before), seconds_(before.is_null() ? 0 : seconds) {}

  bool known() const { return seconds_ > 0; }
  double grown(const char* part, const char* name) const {
    return std::max(0.0, number(now_[part], name) - number(before_[part], name));
  }
  std::string per_second(const char* part, const char* name) const {
    return known() ? format("{:.1f}/s", grown(part, name) / seconds_) : "–";
  }
  // Of the time since the last look, or of all time where there was none.
  double mean_ms(const char* histogram) const {
    const Json& now = now_["requests"][histogram];
    double sum = number(now, "sum"), count = number(now, "count");
    if (known()) {
      const Json& before = before_["requests"][histogram];
      sum -= number(before, "sum");
      count -= number(before, "count");
    }
    return count > 0 ? 1e3 * sum / count : 0;
  }
  double share(const char* part, const char* of_whole) const {
    const double whole = known() ? grown("requests", of_whole) : number(now_["requests"], of_whole);
    const double some = known() ? grown("requests", part) : number(now_["requests"], part);
    return whole > 0 ? some / whole : 0;
  }

 private:
  const Json& now_;
  const Json& before_;
  double seconds_;
};

std::string service_word(const Json& state) {
  if (state.value("up", false)) return "up";
  return state.value("absent", false) ? "none" : "down: " + printable(state.value("why", ""), 200);
}

std::string breaker_word(double state) { return state == 0 ? "closed" : state == 1 ? "open" : "half open"; }

std::string summary(const Json& now, const Rates& rates) {
  const Json& requests = now["requests"];
  int64_t ready = 0;
  for (const Json& worker : now["workers"]) ready += worker["state"] == "ready";
  std::string text =
      format("requests  {:.0f} running   {} finished   {} failed   first token {:.0f} ms   token {:.1f} ms\n",
          number(requests, "running"), rates.per_second("requests", "finished"),
          rates.per_second("requests", "failed"), rates.mean_ms("ttft_s"), rates.mean_ms("itl_s"));
  text += format("tokens    {} out   {} in, {:.0f} % of them from caches\n",
      rates.per_second("requests", "generated_tokens"), rates.per_second("requests", "prompt_tokens"),
      100 * rates.share("cached_prompt_tokens", "prompt_tokens"));
  text += format("workers   {} of {} ready   prefill queue {:.0f}   imbalance {:.2f}   breakers {}, {}",
      ready, now["workers"].size(), number(now, "prefill_queue_depth"), number(now, "imbalance"),
      breaker_word(number(now["breakers"], "prefill")), breaker_word(number(now["breakers"], "decode")));
  for (const char* pool : {"prefill", "decode"})
    if (now["desired_replicas"].contains(pool))
      text += format("   desired {} {:.0f}", pool, number(now["desired_replicas"], pool));
  text += format("\nservices  registry {}   queue {}   plans {}\n", service_word(now["registry"]),
      service_word(now["queue"]), now.value("plans", false) ? "here" : "elsewhere");
  const Json& c = now["counters"];
  text += format("transfers {:.0f} prompts computed elsewhere ({}), {:.0f} fell back\n",
      number(c, "remote_prefills"), rates.per_second("counters", "remote_prefills"), number(c, "fallbacks"));
  text += format(
      "faults    {:.0f} workers lost   {:.0f} requests moved   {:.0f} found no worker   {:.0f} refused\n",
      number(c, "workers_lost"), number(c, "migrations"), number(c, "unavailable"),
      number(c, "requests_rejected"));
  std::string orders;
  for (const Json& order : now["orders"])
    orders += format("   {} {}", printable(order.value("subject", "")), printable(order.value("wish", "")));
  return text + (orders.empty() ? "" : "orders " + orders + "\n");
}

// The most important columns first: a narrow terminal shows fewer.
Table worker_table(const Json& workers, int columns, size_t most) {
  const size_t shown = columns == 0 || columns >= 110 ? 9 : columns >= 80 ? 7 : columns >= 60 ? 5 : 4;
  const auto first = [&](std::vector<std::string> cells) {
    cells.resize(std::min(cells.size(), shown));
    return cells;
  };
  Table table(first(
      {"worker", "role", "state", "running", "waiting", "pages used", "prefill tokens", "step", "sent at"}));
  for (size_t i = 0; i < std::min<size_t>(workers.size(), most); ++i) {
    const Json& w = workers[i];
    const double total = number(w, "pages_total"), sent = number(w, "transfer_bytes_per_s");
    table.add(first({printable(w.value("name", "")), w.value("role", ""),
        w.value("state", "") + (w.value("held_off", false) ? " (failed)" : ""),
        format("{:.0f}/{:.0f}", number(w, "running"), number(w, "max_sequences")),
        format("{:.0f}", number(w, "waiting")),
        total > 0 ? format("{:.0f} %", 100 * (1 - number(w, "pages_free") / total)) : "–",
        format("{:.0f}", number(w, "prefill_tokens")), format("{:.1f} ms", number(w, "decode_step_us") / 1e3),
        sent > 0 ? format("{:.2f} GB/s", sent / 1e9) : "–"}));
  }
  return table;
}

int run_top(const TopOptions& options) {
  std::optional<AdminClient> client(std::in_place, options.target);
  const bool live = !options.once && !options.json && stdout_is_terminal();
  ShutdownSignals signals;
  Json before;
  SteadyTime seen{};
  do {
    std::string text;
    try {
      Json now = client->get("cluster");
      const SteadyTime at = SteadyClock::now();
      text = options.json ? dump_json(now) + "\n"
                          : top_screen(now, before, seconds(at - seen), terminal_columns(STDOUT_FILENO),
                                live ? terminal_rows(STDOUT_FILENO) : 0);
      before = std::move(now);
      seen = at;
    } catch (const Error& error) {
      if (!live || before.is_null()) throw;
      text = error.what() + std::string("\n");  // it may come back
      client.emplace(options.target);
    }
    print((live ? "\033[H\033[2J" : "") + text + (options.once || options.json || live ? "" : "\n"));
    flush_output();
  } while (!options.once &&
           signals.wait_for(std::chrono::milliseconds(static_cast<int64_t>(options.interval_s * 1e3))) == 0);
  return 0;
}

}  // namespace

std::string top_screen(const Json& now, const Json& before, double seconds, int columns, int rows) {
  const Rates rates(now, before, seconds);
  std::string head =
      format("cluster of {}, {} workers\n", printable(now.value("router", "")), now["workers"].size());
  head += summary(now, rates);
  std::string screen;
  int lines = 0;
  for (const std::string_view line : lines_of(head)) {
    screen += (columns > 0 ? shortened(line, columns) : std::string(line)) + "\n";
    ++lines;
  }
  const Json& workers = now["workers"];
  size_t most = workers.size();
  constexpr int kAround = 4;  // an empty line, the table's head and rule, and the line for the rest
  if (rows > 0) most = std::min<size_t>(most, static_cast<size_t>(std::max(1, rows - lines - kAround)));
  screen += "\n" + worker_table(workers, columns, most).render(columns);
  if (most < workers.size()) screen += format("and {} more\n", workers.size() - most);
  return screen;
}

void add_cluster_top(CLI::App& cluster, Action& action) {
  auto* command = cluster.add_subcommand("top", "The cluster on one screen, drawn again every second");
  auto options = std::make_shared<TopOptions>();
  command->add_option("--interval", options->interval_s, "seconds between two looks")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_flag("--once", options->once, "look once");
  command->add_flag("--json", options->json, "print a JSON object for each look");
  add_admin_target(*command, options->target);
  command->footer(R"(
Examples:
  cheetah cluster top
  cheetah cluster top --router https://router:8000 --ca ca.pem --admin-key-file operator.key
  cheetah cluster top --once --json
)");
  command->callback([=, &action] { action = [=] { return run_top(*options); }; });
}

}  // namespace cheetah
