// SPDX-License-Identifier: MIT
#pragma once
// The settings of `cheetah serve`, and what they mean for the engine and the server.
#include <memory>
#include <string>
#include <vector>

#include "cli/cluster_options.h"
#include "cli/engine_options.h"
#include "cli/settings.h"
#include "engine/engine.h"
#include "observe/log_file.h"
#include "serve/server_config.h"

namespace cheetah {

struct ServeOptions {
  EngineOptions engine;
  std::vector<std::string> served_names;  // the first is what answers say
  std::vector<std::string> also_serve;    // models of other workers of the cluster
  std::vector<std::string> more_models;   // beside the first, loaded when asked for
  std::string models_dir;
  int64_t models_max = 4;
  double keep_alive_s = -1;
  bool sleep_mode = false;
  EngineConfig config;
  std::string preemption = "recompute", policy = "continuous";
  std::string speculate = "auto";
  int64_t draft_max = 8;
  bool no_prefix_cache = false;
  bool strict_fields = false;
  std::string generation_config = "auto";

  ServerConfig server;
  ClusterOptions cluster;
  int port = 8000;
  bool port_given = false;
  bool address_given = false;  // the host or the port
  std::string uds_mode = "0600";
  std::string api_key_file;
  KeyLimits key_limits;
  bool insecure = false;
  double request_timeout_s = 0, shutdown_timeout_s = 30, ping_s = 15, stall_s = 5;
  double header_timeout_s = 10, body_timeout_s = 60, idle_timeout_s = 30, write_timeout_s = 30;
  std::string log_level = "info", log_format = "auto";
  LogFileConfig log_file;  // no path: standard error
};

// Lists every setting, bound to the fields of `options`, which must outlive it.
Settings serve_settings(ServeOptions& options);

EngineConfig engine_config(const ServeOptions& options);
// Where the process's output goes from now on; nullptr: where it goes already. Throws UsageError.
std::unique_ptr<LogFile> open_log_file(const ServeOptions& options);
// Models are loaded and unloaded while the server runs.
inline bool loads_on_demand(const ServeOptions& options) {
  return !options.more_models.empty() || !options.models_dir.empty() || options.sleep_mode;
}
// Reads the keys (file, and `api_key` of the environment). Throws UsageError when the server would be open to
// the network without one.
ServerConfig server_config(const ServeOptions& options, const char* api_key);

}  // namespace cheetah
