// SPDX-License-Identifier: MIT
#pragma once
// A router's admin API, as the commands of an operator use it.
#include <memory>
#include <string>

#include "base/json.h"
#include "cli/command.h"
#include "net/http_channel.h"

namespace cheetah {

struct AdminTarget {
  std::string router = "http://127.0.0.1:8000";
  std::string key_file, ca_file;
};

void add_admin_target(CLI::App& command, AdminTarget& target);

// One connection. Throws UsageError for a key or address that cannot be used, Error for what the router refuses.
class AdminClient {
 public:
  explicit AdminClient(const AdminTarget& target);
  Json get(const std::string& path) { return ask("GET", path, ""); }
  Json post(const std::string& path, const Json& body) { return ask("POST", path, dump_json(body)); }
  const std::string& router() const { return router_; }

 private:
  Json ask(const std::string& method, const std::string& path, const std::string& body);

  std::string router_, key_;
  HttpChannel channel_;
};

// cordon, uncordon, drain, role, scale, trace
void add_cluster_admin(CLI::App& cluster, Action& action);
void add_cluster_top(CLI::App& cluster, Action& action);

// One screen, `columns` wide (0: without limit) and of at most `rows` lines (0: all). `before`: the answer of
// `seconds` ago, for rates; null: none.
std::string top_screen(const Json& now, const Json& before, double seconds, int columns, int rows);
// What `cheetah cluster trace` prints of one answer.
std::string trace_text(const Json& answer);

}  // namespace cheetah
