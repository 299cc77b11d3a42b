// SPDX-License-Identifier: MIT
#pragma once
// For tests: a server with a small engine, the requests they send it and what they read from its answers.
#include <chrono>
#include <string>
#include <thread>

#include "base/format.h"
#include "base/json.h"
#include "engine/engine.h"
#include "serve/api/api_fixture.h"
#include "serve/http/test_client.h"
#include "serve/server.h"

namespace cheetah {

inline ServerConfig quiet() {
  ServerConfig config;
  config.listen.port = 0;
  config.log.level = LogLevel::kOff;
  config.version = "1.2.3";
  return config;
}

inline EngineConfig small_engine() {
  EngineConfig config;
  config.threads = 1;
  config.max_context = 512;
  config.max_sequences = 8;
  config.max_queue = 64;
  config.kv_bytes = 8 << 20;
  return config;
}

// A server with a real engine behind it.
struct ServerFixture {
  explicit ServerFixture(
      const ServerConfig& config = quiet(), const EngineConfig& engine_config = small_engine())
      : server(config), engine(small_model(), engine_config) {
    server.serve(engine, small_services());
  }
  ~ServerFixture() { server.stop(); }
  Json stats() {
    TestClient client(server.port());
    return Json::parse(client.ask("GET /v1/stats HTTP/1.1\r\nHost: localhost\r\n\r\n").body);
  }
  // Nothing runs, nothing waits, every page is free or only cached.
  bool clean() {
    const Json s = stats();
    return s["running"] == 0 && s["waiting"] == 0 && s["in_flight"] == 0 && s["parsing"] == 0 &&
           s["pages_free"].get<int64_t>() + s["pages_cached"].get<int64_t>() == s["pages_total"];
  }
  Server server;
  Engine engine;
};

template <class Condition>
bool eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + TestClient::kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

inline std::string get(const std::string& path, const std::string& headers = "") {
  return format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", path, headers);
}

inline std::string post(const std::string& path, const Json& body, const std::string& headers = "") {
  const std::string text = dump_json(body);
  return format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{}Content-Length: "
      "{}\r\n\r\n{}",
      path, headers, text.size(), text);
}

inline Json completion(int64_t tokens, bool stream = false) {
  return {{"model", "cub"}, {"prompt", "Once upon a time"}, {"max_tokens", tokens}, {"temperature", 0},
      {"ignore_eos", true}, {"stream", stream}};
}

inline std::string code_of(const TestResponse& response) {
  const Json body = Json::parse(response.body, nullptr, false);
  return body.is_object() && body.contains("error") ? body["error"].value("code", "") : "";
}

// The text of the chunks of a stream.
inline std::string streamed_text(const std::string& body) {
  std::string text;
  for (size_t at = 0; (at = body.find("data: {", at)) != std::string::npos;) {
    const size_t end = body.find("\n\n", at);
    const Json chunk = Json::parse(body.substr(at + 6, end - at - 6));
    if (!chunk["choices"].empty()) text += chunk["choices"][0]["text"].get<std::string>();
    at = end;
  }
  return text;
}

}  // namespace cheetah
