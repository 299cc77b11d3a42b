// SPDX-License-Identifier: MIT
#include "cli/serve_options.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/format.h"
#include "cli/output.h"
#include "cli/version.h"
#include "net/otlp_sender.h"

namespace cheetah {
namespace {

constexpr double kDeviceStepTimeout_s = 120;  // far beyond any step: only a device that hangs takes so long

constexpr int64_t kMost = int64_t{1} << 30;

uint32_t file_mode(const std::string& where, const std::string& text) {
  char* end = nullptr;
  const auto mode = std::strtoul(text.c_str(), &end, 8);
  if (text.empty() || *end != '\0' || mode > 0777 || (mode & 0600) != 0600)
    throw UsageError(format("{}: '{}' is not a mode such as 0600, 0660 or 0666", where, printable(text)));
  return static_cast<uint32_t>(mode);
}

std::chrono::milliseconds to_ms(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

void add_engine_settings(Settings& s, ServeOptions& o) {
  s.add({"model", "", "model folder, GGUF file, name, or ORG/NAME of the hub cache",
      [&o](const std::string&, const std::string& text) { o.engine.model = text; }, false,
      "MODEL,-m,--model-path"});
  s.add_list("served-model-name", o.served_names, "what clients call the model", "--alias");
  s.add({"models", "", "further models, loaded when a request names them, separated by commas",
      [&o](const std::string&, const std::string& text) { o.more_models = split_list(text); }, false, "MORE",
      "LIST", true});
  s.add_text("models-dir", o.models_dir,
      "serve each model folder and GGUF file of this folder, loaded when a request names it");
  s.add_count("models-max", o.models_max, 0, 4096,
      "models in memory at once; 0: as many as fit. The one not asked for longest makes room");
  s.add({"keep-alive", "", "unload a model that nobody asks for this long (default: it stays)",
      [&o](const std::string& where, const std::string& text) {
        o.keep_alive_s = text == "-1" ? -1 : parse_seconds(where, text, 0.01, 1e9);
      },
      false, "", "TIME"});
  s.add_switch("enable-sleep-mode", o.sleep_mode,
      "let clients unload a single model too: /sleep, /wake_up, /models/unload, keep_alive");
  s.add_list("also-serve", o.also_serve,
      "further models, of other workers of the cluster, that clients of this node may ask for");
  s.add_choice("generation-config", o.generation_config, {"auto", "none"},
      "sampling of requests that leave it open; auto: what the model's generation_config.json says");
  s.add_int("threads", o.engine.threads, 1, 1024, "threads to compute with (default: one per core)", "-t");
  s.add({"dtype", "", "hold the weights in this type: " + weight_type_names(),
      [&o](const std::string& where, const std::string& text) {
        if (!weight_dtype(text))
          throw UsageError(format("{}: '{}' is not a type of weights", where, printable(text)));
        o.engine.dtype = text;
      }});
  s.add({"kv-dtype", "", "type of cached keys and values: f32, bf16, f16, fp8, int8",
      [&o](const std::string& where, const std::string& text) {
        if (!cache_type_from_name(text))
          throw UsageError(
              format("{}: '{}' is not one of f32, bf16, f16, fp8, int8", where, printable(text)));
        o.engine.kv_dtype = text;
      },
      false, "--kv-cache-dtype"});
  s.add_choice("compute", o.engine.compute, {"native", "exact"}, "arithmetic");
  s.add_choice(
      "device", o.engine.device, {"auto", "cuda", "cpu"}, "what computes; auto: cuda where there is one");
  s.add_count("ctx-size", o.config.max_context, 1, kMost,
      "tokens of context a request may use (default: the model's, or what fits)",
      "-c,--max-model-len,--context-length,--max-seq-len");
  s.add_bytes("kv-memory", o.config.kv_bytes,
      "memory for cached keys and values, e.g. 8GiB (default: from what is free)");
  s.add_count("page-tokens", o.config.page_tokens, 8, 128, "tokens per page of the cache",
      "--block-size,--page-size");
  s.add_count("max-sequences", o.config.max_sequences, 1, 65536, "sequences decoded at once",
      "--max-num-seqs,--parallel,--max-running-requests,--max-batch-size");
  s.add_count("max-batch-tokens", o.config.max_batch_tokens, 1, kMost, "most tokens computed in one step",
      "--max-num-batched-tokens,--max-num-tokens");
  s.add_number(
      "step-target-ms", o.config.step_target_ms, 0.1, 1e5, "how long a step with prompts in it may take");
  s.add_count("max-queue", o.config.max_queue, 1, kMost, "requests that may wait; more are refused with 503");
  s.add_switch("no-prefix-cache", o.no_prefix_cache, "compute every prompt anew");
  s.add_choice("speculate", o.speculate, {"auto", "off"},
      "verify several drafted tokens in one step where that is faster (auto: on the CPU); the tokens are the same");
  s.add_count("draft-max", o.draft_max, 1, 32, "tokens drafted per sequence and step",
      "--draft,--draft-n,--num-speculative-tokens");
  s.add_choice("preemption", o.preemption, {"recompute", "swap"}, "what to do with a preempted sequence");
  s.add_choice("policy", o.policy, {"continuous", "dynamic", "static"}, "how batches form");
  s.add_number("ageing", o.config.ageing_s, 1e-3, 1e6, "seconds of waiting worth one level of priority");
}

void add_access_settings(Settings& s, ServeOptions& o) {
  s.add_text("host", o.server.listen.host, "address to listen on");
  s.add_int("port", o.port, 0, 65535, "port to listen on; 0 picks a free one");
  s.add_text("uds", o.server.listen.uds,
      "Unix socket to listen on, in place of host and port unless one of them is given");
  s.add_text("uds-mode", o.uds_mode, "who may use it, as chmod writes it: 0600, 0660, 0666");
  s.add_text("api-key-file", o.api_key_file,
      "file with one key per line: [NAME] KEY [rpm=N] [concurrent=N]; one key may also stand in CHEETAH_API_KEY");
  s.add_number("key-rpm", o.key_limits.requests_per_minute, 0, 1e9,
      "requests per minute of a key without its own limit; 0: unlimited");
  s.add_count("key-concurrency", o.key_limits.concurrent, 0, kMost,
      "requests at once of a key without its own limit; 0: unlimited");
  s.add_switch("insecure", o.insecure, "listen beyond this machine without keys");
  s.add_list("allowed-host", o.server.allowed_hosts, "names a loopback server answers to beside localhost");
  s.add_list("cors-origin", o.server.cors_origins,
      "web origins that may use the server from a browser; * allows all of them");
  s.add_text("tls-cert", o.server.listen.tls_cert, "certificate chain (PEM): speak HTTPS");
  s.add_text("tls-key", o.server.listen.tls_key, "its private key (PEM)");
}

void add_limit_settings(Settings& s, ServeOptions& o) {
  HttpLimits& limits = o.server.listen.limits;
  s.add_int("network-threads", o.server.listen.threads, 1, 64, "threads for connections");
  s.add_int("parse-threads", o.server.parse_threads, 1, 64,
      "threads that read bodies, tokenize and compile grammars");
  s.add_bytes("max-body", limits.body_bytes, "largest body of a request");
  s.add_bytes("max-header-bytes", limits.header_bytes, "largest headers of a request");
  s.add_count("max-headers", limits.headers, 1, 256, "headers of a request");
  s.add_count("max-connections", limits.connections, 1, 1 << 20, "open connections");
  s.add_count("max-connections-per-address", limits.connections_per_address, 1, 1 << 20,
      "open connections of one address (this machine's own are not counted)");
  s.add_bytes("pause-at", limits.pause_bytes,
      "bytes kept for a client that reads too slowly at which its generation is paused");
  s.add_bytes("max-unsent", limits.unsent_bytes,
      "bytes kept for a client that reads too slowly before it is cut off");
  s.add_seconds("header-timeout", o.header_timeout_s, 0.01, 3600, "time for a request's headers");
  s.add_seconds("body-timeout", o.body_timeout_s, 0.01, 3600, "time for a whole request to arrive");
  s.add_seconds("idle-timeout", o.idle_timeout_s, 0.01, 86400, "time between two requests of a connection");
  s.add_seconds(
      "write-timeout", o.write_timeout_s, 0.01, 3600, "how long a client may read nothing of its answer");
  s.add_seconds(
      "request-timeout", o.request_timeout_s, 0, 1e6, "how long a generation may take; 0: unlimited");
  s.add_seconds("shutdown-timeout", o.shutdown_timeout_s, 0, 1e6, "time for running requests after SIGTERM");
  s.add_seconds("stream-ping", o.ping_s, 0.01, 3600, "a comment goes out on a stream silent this long");
  s.add_seconds("engine-stall", o.stall_s, 0.01, 3600,
      "/health/engine fails when queued work makes no step in this time");
  s.add_seconds("step-timeout", o.config.step_timeout_s, 0, 86400,
      "a step that takes longer means that the device hangs, and ends the server with exit code 70 (0: 120 on CUDA, never on the CPU)");
  s.add_text("response-store", o.server.responses.path,
      "SQLite file that keeps /v1/responses for previous_response_id and GET /v1/responses/ID");
  s.add_bytes("response-store-size", o.server.responses.bytes, "most that it keeps; the oldest go first");
  s.add_seconds("response-store-age", o.server.responses.age_s, 1, 1e9, "how long it keeps a response");
  s.add_switch("strict-fields", o.strict_fields, "refuse requests with fields the API does not know");
}

void add_report_settings(Settings& s, ServeOptions& o) {
  s.add_choice(
      "log-level", o.log_level, {"debug", "info", "warning", "error", "off"}, "lowest level that is logged");
  s.add_choice("log-format", o.log_format, {"auto", "json", "text"},
      "form of the log on standard error (auto: text on a terminal)");
  s.add_text(
      "log-file", o.log_file.path, "file for all output of this server (default: standard output and error)");
  s.add_bytes(
      "log-max-size", o.log_file.max_bytes, "size at which --log-file becomes FILE.1 and a new one is begun");
  s.add_int("log-keep", o.log_file.keep, 0, 1000, "full log files that are kept");
  s.add_text("crash-dir", o.config.crash_dir,
      "folder for the bundle that a fatal fault of the engine or its device leaves behind");
  s.add_text("otlp-endpoint", o.server.otlp_endpoint,
      "OpenTelemetry collector for traces, e.g. http://localhost:4318");
  s.add_text("service-name", o.server.service_name, "what traces call this server");
}

std::string read_key_file(const char* flag, const std::string& path) {
  struct stat info = {};
  std::ifstream file(path, std::ios::binary);
  if (!file || stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > (1 << 20))
    throw UsageError(format("{} {}: cannot be read as a file of keys", flag, printable(path, 256)));
  if (info.st_mode & S_IROTH)
    print_note(
        format("{}: every user of this machine can read the keys; chmod 600 it", printable(path, 256)));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

LogLevel level_of(const std::string& name) {
  return name == "debug"     ? LogLevel::kDebug
         : name == "info"    ? LogLevel::kInfo
         : name == "warning" ? LogLevel::kWarning
         : name == "error"   ? LogLevel::kError
                             : LogLevel::kOff;
}

// A client's key does not make an operator. Without keys of either kind, processes of this machine are both.
void add_admin_keys(const ServeOptions& options, ServerConfig& config) {
  const std::string& path = options.cluster.admin_key_file;
  if (!path.empty()) {
    if (!in_cluster(options.cluster))
      throw UsageError("--admin-key-file: only a cluster is operated: add --role");
    config.admin_keys = ApiKeys::parse(read_key_file("--admin-key-file", path), path, {});
    if (config.admin_keys.shares_a_key_with(config.keys))
      throw UsageError(format("--admin-key-file {}: a key in it is a client's too", printable(path, 256)));
  }
  config.admin_unlocked = path.empty() && is_loopback_host(config.listen.host) && !config.keys.required();
}

}  // namespace

Settings serve_settings(ServeOptions& options) {
  Settings settings;
  add_engine_settings(settings, options);
  add_access_settings(settings, options);
  add_limit_settings(settings, options);
  add_report_settings(settings, options);
  add_cluster_settings(settings, options.cluster);
  return settings;
}

EngineConfig engine_config(const ServeOptions& options) {
  EngineConfig config = options.config;
  config.threads = options.engine.threads;
  config.precision = precision_of(options.engine.compute);
  config.kv_dtype = cache_dtype(options.engine);
  config.device = uses_cuda(options.engine.device) ? DeviceKind::kCuda : DeviceKind::kCpu;
  if (config.device == DeviceKind::kCuda && config.step_timeout_s == 0)
    config.step_timeout_s = kDeviceStepTimeout_s;
  config.prefix_cache = !options.no_prefix_cache;
  if (options.speculate == "auto" && config.device == DeviceKind::kCpu) config.max_draft = options.draft_max;
  config.preemption = options.preemption == "swap" ? Preemption::kSwap : Preemption::kRecompute;
  config.policy = options.policy == "static"    ? BatchPolicy::kStatic
                  : options.policy == "dynamic" ? BatchPolicy::kDynamic
                                                : BatchPolicy::kContinuous;
  return config;
}

std::unique_ptr<LogFile> open_log_file(const ServeOptions& options) {
  if (options.log_file.path.empty()) return nullptr;
  const int file = open(options.log_file.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0 && errno != ENOSPC && errno != EDQUOT)  // a full disk is waited for
    throw UsageError(format(
        "--log-file {}: cannot be written: {}", printable(options.log_file.path, 256), strerror(errno)));
  if (file >= 0) close(file);
  flush_output();
  return std::make_unique<LogFile>(options.log_file);
}

ServerConfig server_config(const ServeOptions& options, const char* api_key) {
  ServerConfig config = options.server;
  config.listen.port = static_cast<uint16_t>(options.port);
  config.listen.tcp = config.listen.uds.empty() || options.address_given;
  config.listen.uds_mode = file_mode("--uds-mode", options.uds_mode);
  if (!options.api_key_file.empty())
    config.keys = ApiKeys::parse(
        read_key_file("--api-key-file", options.api_key_file), options.api_key_file, options.key_limits);
  if (api_key && *api_key) {
    if (std::string_view(api_key).size() < 8)
      throw UsageError("CHEETAH_API_KEY: a key must have at least 8 characters");
    config.keys.add("default", api_key, options.key_limits);
  }
  add_admin_keys(options, config);
  if (config.listen.tls_cert.empty() != config.listen.tls_key.empty())
    throw UsageError("--tls-cert and --tls-key: both are needed for HTTPS");
  if (!is_loopback_host(config.listen.host) && !config.keys.required() && !options.insecure)
    throw UsageError(
        format("refusing to listen on {} without --api-key-file or CHEETAH_API_KEY (or --insecure)",
            printable(config.listen.host)));
  if (!config.otlp_endpoint.empty()) parse_otlp_endpoint(config.otlp_endpoint);  // refused now, not later
  HttpLimits& limits = config.listen.limits;
  limits.header_time = to_ms(options.header_timeout_s);
  limits.request_time = to_ms(options.body_timeout_s);
  limits.idle_time = to_ms(options.idle_timeout_s);
  limits.write_stall = to_ms(options.write_timeout_s);
  config.request_time = to_ms(options.request_timeout_s);
  config.stream_ping = to_ms(options.ping_s);
  config.engine_stall = to_ms(options.stall_s);
  config.log.level = level_of(options.log_level);
  const bool as_text = options.log_format == "text" || (options.log_format == "auto" && stderr_is_terminal());
  config.log.format = as_text ? LogFormat::kText : LogFormat::kJson;
  config.version = build_info().version;
  config.commit = build_info().commit;
  return config;
}

}  // namespace cheetah
