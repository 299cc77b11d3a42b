// SPDX-License-Identifier: MIT
#include "serve/server.h"

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "base/time.h"
#include "net/otlp_sender.h"
#include "serve/model_pool.h"
#include "serve/service.h"

namespace cheetah {
namespace {

double milliseconds(ServeTime from, ServeTime to) {
  if (from == ServeTime{} || to == ServeTime{}) return 0;
  return std::chrono::duration<double, std::milli>(to - from).count();
}

// What happened to a call; never what was said in it.
void log_run(EventLog& log, const ApiRun& run) {
  const RunSummary& s = run.summary();
  const LogLevel level = s.status >= 500 ? LogLevel::kWarning : LogLevel::kInfo;
  if (!log.wants(level)) return;
  std::vector<LogField> fields = {
      {"request_id", s.id}, {"path", printable(run.request().path(), 256)}, {"status", s.status}};
  if (!s.tenant.empty()) fields.push_back({"tenant", s.tenant});
  if (!s.error_code.empty()) fields.push_back({"code", s.error_code});
  if (s.requests > 0) {
    fields.insert(fields.end(),
        {{"stream", s.stream ? "yes" : "no"}, {"finish", s.finish}, {"prompt_tokens", s.prompt_tokens},
            {"cached_tokens", s.cached_tokens}, {"completion_tokens", s.completion_tokens},
            {"parse_ms", milliseconds(s.start, s.parsed)},
            {"ttft_ms", milliseconds(s.start, s.first_token)}});
  }
  fields.push_back({"duration_ms", milliseconds(s.start, s.end)});
  log.write(level, "call", fields);
}

// One after another, to the end of the call: a cluster tells how long each took, not when it began.
std::vector<TracePhase> phases_of(const RunSummary& summary, int64_t end_unix_ns) {
  if (!summary.cluster) return {};
  const ClusterTimes& times = *summary.cluster;
  const auto ns = [](std::chrono::microseconds time) { return int64_t{1000} * time.count(); };
  std::vector<TracePhase> phases = {{"queue", ns(times.queued), ""},
      {"prefill", ns(times.prefill), times.prefill_worker},
      {"transfer", ns(times.transfer), times.prefill_worker},
      {"decode", ns(times.decode), times.decode_worker}};
  int64_t end = end_unix_ns;
  for (auto phase = phases.rbegin(); phase != phases.rend(); ++phase) {
    phase->end_unix_ns = end;
    phase->start_unix_ns = end -= phase->duration_ns;
  }
  return phases;
}

TraceRecord trace_of(const ApiRun& run) {
  const RunSummary& s = run.summary();
  // Steady times become wall times by their distance from now.
  const auto steady = std::chrono::steady_clock::now();
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  const auto unix_ns = [&](ServeTime at) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(wall - (steady - at)).count();
  };
  return {.context = s.trace,
      .span_id = s.span_id,
      .request = s.traced,
      .request_id = s.id,
      .route = "/v1" + s.path,
      .finish = s.finish,
      .error_code = s.error_code,
      .status = s.status,
      .prompt_tokens = s.prompt_tokens,
      .cached_tokens = s.cached_tokens,
      .completion_tokens = s.completion_tokens,
      .start_unix_ns = unix_ns(s.start),
      .end_unix_ns = unix_ns(s.end),
      .first_token_unix_ns = s.first_token == ServeTime{} ? 0 : unix_ns(s.first_token),
      .phases = phases_of(s, unix_ns(s.end))};
}

}  // namespace

struct Server::State {
  explicit State(const ServerConfig& settings)
      : config(settings),
        log(config.log),
        shared(config, log),
        parsers(static_cast<size_t>(std::max(1, config.parse_threads))),
        jobs(shared),
        service(shared, jobs),
        http(config.listen, service) {
    shared.parse_elsewhere = [this](
                                 std::function<void()> work) { boost::asio::post(parsers, std::move(work)); };
    service.use_threads(http.threads());
    if (!config.otlp_endpoint.empty()) start_traces();
    if (!config.responses.path.empty()) {
      responses = std::make_unique<ResponseStore>(config.responses, log);
      shared.archive = shared.responses = responses.get();
    }
    service.on_run_ended([this](const ApiRun& run) { on_ended(run); });
    http.start();
  }

  void start_traces() {
    const TraceResource resource{.service_name = config.service_name,
        .service_version = config.version,
        .server_address = config.listen.host,
        .server_port = http.port()};
    const Url collector = parse_otlp_endpoint(config.otlp_endpoint);
    traces = std::make_unique<TraceExporter>(collector.host_header(), otlp_sender(collector), resource, log);
  }

  void on_ended(const ApiRun& run) {
    log_run(log, run);
    if (!traces) return;
    if (run.summary().trace.sampled) traces->add(trace_of(run));
  }

  // Parsers hand results to the network threads, so they end first.
  void stop() {
    jobs.stop();
    parsers.join();
    http.stop();
  }

  ServerConfig config;
  EventLog log;
  ServerShared shared;
  std::unique_ptr<TraceExporter> traces;
  std::unique_ptr<ResponseStore> responses;
  boost::asio::thread_pool parsers;
  BatchJobs jobs;
  Service service;
  std::unique_ptr<Backend> backend;
  HttpServer http;
};

Server::Server(const ServerConfig& config) : state_(std::make_unique<State>(config)) {}

Server::~Server() { stop(); }

uint16_t Server::port() const { return state_->http.port(); }

std::string Server::url() const {
  const ListenConfig& listen = state_->config.listen;
  if (!listen.tcp) return "unix:" + listen.uds;
  std::string host = listen.host == "0.0.0.0" || listen.host == "::" ? "localhost" : listen.host;
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return format("{}://{}:{}", listen.tls_cert.empty() ? "http" : "https", host, port());
}

void Server::tell_loading(int64_t read_bytes, int64_t total_bytes) {
  ReadProgress& loading = state_->shared.loading;
  loading.total_bytes = total_bytes;
  loading.read_bytes = read_bytes;
}

void Server::serve(GenerationBackend& engine, ApiServices services, std::function<std::string()> more_metrics,
    std::vector<ApiServices> more_models, AdminHandler admin) {
  state_->shared.more_metrics = std::move(more_metrics);
  state_->backend = std::make_unique<Backend>(
      Backend{engine, std::move(services), std::move(more_models), std::move(admin)});
  state_->shared.backend = state_->backend.get();
  state_->shared.state = ServerState::kReady;
}

void Server::serve(ModelPool& pool, std::function<std::string()> more_metrics) {
  state_->shared.more_metrics = std::move(more_metrics);
  state_->shared.pool = &pool;
  state_->shared.state = ServerState::kReady;
}

std::vector<std::shared_ptr<const Backend>> ServerShared::backends() const {
  if (const ModelPool* const models = pool) return models->loaded();
  if (const Backend* const one = backend)
    return {std::shared_ptr<const Backend>(std::shared_ptr<void>(), one)};  // nobody owns it
  return {};
}

void Server::drain(std::chrono::milliseconds limit) {
  const SteadyTime end = std::chrono::steady_clock::now() + limit;
  ServerCounters& counters = state_->shared.counters;
  state_->shared.state = ServerState::kDraining;
  state_->log.write(LogLevel::kInfo, "draining", {{"in_flight", int64_t{counters.in_flight}}});
  // Calls whose bodies are being parsed were promised an answer too.
  counters.parsing.wait_for_none(end);
  const auto left = std::max(std::chrono::milliseconds(0),
      std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()));
  if (state_->backend) state_->backend->engine.drain(left);
  if (ModelPool* const pool = state_->shared.pool) pool->drain(left);
  state_->http.wind_down();
  // The last answers are on their way; a client that does not read them is not waited for.
  const SteadyTime flushed = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  counters.in_flight.wait_for_none(flushed);
  state_->http.wait_for_answers(flushed);
}

void Server::stop() { state_->stop(); }

TraceExporter* Server::traces() { return state_->traces.get(); }
const ServerCounters& Server::counters() const { return state_->shared.counters; }

}  // namespace cheetah
