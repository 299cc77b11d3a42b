// SPDX-License-Identifier: MIT
#pragma once
// The whole server: listens from the start, answers health checks while a model loads, serves once it has
// one.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "serve/backend.h"

namespace cheetah {

class ModelPool;      // serve/model_pool.h
class TraceExporter;  // observe/trace_exporter.h

class Server {
 public:
  // Binds the port and answers at once; generation is refused with 503 until serve().
  explicit Server(const ServerConfig& config);
  ~Server();

  uint16_t port() const;
  std::string url() const;  // "unix:PATH" without TCP
  // How far the model is read, for those who wait. Any thread.
  void tell_loading(int64_t read_bytes, int64_t total_bytes);
  // The engine and what `services` refers to must live until stop() returns.
  // `more_metrics`: further families for /metrics; called on network threads.
  // `more_models`: what clients may ask for beside the first; the engine learns the name from
  // RequestOrigin::model.
  // `admin`: answers operators, where the engine is a cluster.
  void serve(GenerationBackend& engine, ApiServices services, std::function<std::string()> more_metrics = {},
      std::vector<ApiServices> more_models = {}, AdminHandler admin = nullptr);
  // The same with models that are loaded on demand. The pool must live until stop() returns.
  void serve(ModelPool& pool, std::function<std::string()> more_metrics = {});
  // No new generations; waits until those that run are done, or the time is up and they were cancelled.
  void drain(std::chrono::milliseconds limit);
  // Closes all connections. The engine may be destroyed after this, the server after the engine.
  void stop();

  const ServerCounters& counters() const;
  TraceExporter* traces();  // for those who work for its calls; nullptr: no traces are wanted

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah
