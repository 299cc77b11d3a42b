// SPDX-License-Identifier: MIT
#include "serve/server.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "serve/routes.h"
#include "serve/server_fixture.h"

namespace cheetah {
namespace {

using std::chrono::milliseconds;
using Fixture = ServerFixture;

TEST(Server, StreamsTheTextItAnswersWhole) {
  Fixture f;
  TestClient client(f.server.port());
  const TestResponse whole = client.ask(post("/v1/completions", completion(24)));
  ASSERT_EQ(whole.status, 200) << whole.body;
  const std::string text = Json::parse(whole.body)["choices"][0]["text"];
  EXPECT_FALSE(text.empty());
  const TestResponse streamed = client.ask(post("/completions", completion(24, true)));
  EXPECT_EQ(streamed.status, 200);
  EXPECT_EQ(streamed.header("content-type").substr(0, 17), "text/event-stream");
  EXPECT_EQ(streamed_text(streamed.body), text);
  EXPECT_TRUE(streamed.body.ends_with("data: [DONE]\n\n"));
  EXPECT_TRUE(eventually([&] { return f.clean(); }));
}

TEST(Server, ServesManyStreamsAtOnceWithoutMixingThem) {
  ServerConfig config = quiet();
  config.listen.threads = 2;
  Fixture f(config);
  TestClient alone(f.server.port());
  const std::string text =
      Json::parse(alone.ask(post("/v1/completions", completion(16))).body)["choices"][0]["text"];
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(std::make_unique<TestClient>(f.server.port()));
    clients.back()->send(post("/v1/completions", completion(16, true)));
  }
  for (const auto& client : clients) EXPECT_EQ(streamed_text(client->read_response().body), text);
  EXPECT_TRUE(eventually([&] { return f.clean(); }));
}

TEST(Server, AnswersOldClientsWithoutChunks) {
  Fixture f;
  TestClient client(f.server.port());
  std::string request = post("/v1/completions", completion(4, true));
  request.replace(request.find("HTTP/1.1"), 8, "HTTP/1.0");
  client.send(request);
  const std::string all = client.read_all();
  EXPECT_EQ(all.find("transfer-encoding"), std::string::npos);
  EXPECT_TRUE(all.ends_with("data: [DONE]\n\n")) << all;
}

TEST(Server, AsksForKeysEverywhereButOnHealthChecksAndThePage) {
  ServerConfig config = quiet();
  config.keys = ApiKeys::parse("secret-key-1\n", "keys", {});
  config.admin_keys = ApiKeys::parse("operators-key-1\n", "keys", {});
  Fixture f(config);
  for (const Route& route : routes()) {
    const bool of_operators = route.access == Access::kAdmin;
    TestClient client(f.server.port());
    const std::string path =
        std::string(route.path) + (route.path.size() > 1 && route.path.ends_with('/') ? "x" : "");
    const bool open = route.access == Access::kPublic;
    for (const char* key : {"", "Authorization: Bearer\r\n", "Authorization: Bearer wrong-key-1\r\n",
             "Authorization: Basic secret-key-1\r\n", "X-Api-Key: wrong\r\n"}) {
      const TestResponse response =
          client.ask(format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", route.method, path, key));
      EXPECT_EQ(response.status == 401, !open) << route.method << ' ' << path << ' ' << key;
    }
    const TestResponse keyed =
        client.ask(format("{} {} HTTP/1.1\r\nHost: localhost\r\nauthorization: bearer secret-key-1\r\n\r\n",
            route.method, path));
    EXPECT_EQ(keyed.status == 401, of_operators) << path;
    const TestResponse operated = client.ask(
        format("{} {} HTTP/1.1\r\nHost: localhost\r\nauthorization: bearer operators-key-1\r\n\r\n",
            route.method, path));
    EXPECT_EQ(operated.status == 401, !open && !of_operators) << path;
  }
  TestClient unknown(f.server.port());
  EXPECT_EQ(unknown.ask(get("/nothing")).status, 401);
}

TEST(Server, TheAdminApiIsOffWithoutAKeyUnlessEveryoneHereIsAnOperator) {
  ServerConfig config = quiet();
  Fixture off(config);
  TestClient client(off.server.port());
  EXPECT_EQ(code_of(client.ask(get("/admin/cluster"))), "admin_off");
  config.admin_unlocked = true;
  Fixture on(config);
  TestClient local(on.server.port());
  EXPECT_EQ(code_of(local.ask(get("/admin/cluster"))), "not_a_router");
  EXPECT_EQ(code_of(local.ask(get("/admin/cluster", "Origin: http://localhost\r\n"))), "origin_not_allowed");
  EXPECT_EQ(
      local.ask("POST /admin/cordon HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}").status, 415)
      << "a form of a web page could send it";
}

TEST(Server, AnswersAllWrongKeysAlike) {
  ServerConfig config = quiet();
  config.keys = ApiKeys::parse("secret-key-1\n", "keys", {});
  Fixture f(config);
  TestClient client(f.server.port());
  const std::string none = client.ask(get("/v1/models")).body;
  EXPECT_EQ(client.ask(get("/v1/models", "Authorization: Bearer nope\r\n")).body, none);
  EXPECT_EQ(client.ask(get("/v1/models", "Authorization: Bearer secret-key-2\r\n")).body, none);
  EXPECT_EQ(none.find("secret"), std::string::npos);
}

TEST(Server, LimitsTheRateAndTheConcurrencyOfAKey) {
  ServerConfig config = quiet();
  config.keys = ApiKeys::parse(
      "slow slow-key-1 rpm=1\nnarrow narrow-key concurrent=1\nother other-key-1\n", "keys", {});
  EngineConfig one_at_a_time = small_engine();
  one_at_a_time.max_sequences = 1;
  Fixture f(config, one_at_a_time);
  TestClient client(f.server.port());
  const auto slow = [&] {
    return client.ask(post("/v1/completions", completion(1), "Authorization: Bearer slow-key-1\r\n"));
  };
  EXPECT_EQ(slow().status, 200);
  TestClient again(f.server.port());
  const TestResponse refused =
      again.ask(post("/v1/completions", completion(1), "Authorization: Bearer slow-key-1\r\n"));
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(code_of(refused), "rate_limit_exceeded");
  EXPECT_GE(std::stoi(refused.header("retry-after")), 1);
  TestClient first(f.server.port()), second(f.server.port());
  const std::string narrow = "X-Api-Key: narrow-key\r\n";
  TestClient holder(f.server.port());  // the first has to wait for it
  holder.send(post("/v1/completions", completion(480, true), "X-Api-Key: other-key-1\r\n"));
  EXPECT_TRUE(holder.read_until("data: {"));
  first.send(post("/v1/completions", completion(400, true), narrow));
  EXPECT_TRUE(eventually([&] { return f.server.counters().in_flight == 2; }));
  const TestResponse busy = second.ask(post("/v1/completions", completion(1), narrow));
  EXPECT_EQ(busy.status, 429);
  EXPECT_EQ(code_of(busy), "concurrency_limit_exceeded");
  first.close();
  holder.close();
  EXPECT_TRUE(eventually([&] {
    TestClient third(f.server.port());
    return third.ask(post("/v1/completions", completion(1), narrow)).status == 200;
  }));
}

TEST(Server, SpeaksEveryApi) {
  Fixture f;
  TestClient client(f.server.port());
  const Json messages = Json::array({{{"role", "user"}, {"content", "Hi"}}});
  const std::pair<const char*, Json> calls[] = {
      {"/v1/chat/completions", {{"messages", messages}, {"max_tokens", 3}}},
      {"/v1/responses", {{"input", "Hi"}, {"max_output_tokens", 16}}},
      {"/v1/messages", {{"messages", messages}, {"max_tokens", 3}}},
      {"/v1/messages/count_tokens", {{"messages", messages}}},
      {"/v1/embeddings", {{"input", "Hi"}}},
      {"/tokenize", {{"prompt", "Hi"}}},
      {"/detokenize", {{"tokens", {5, 6}}}},
  };
  for (auto [path, body] : calls) {
    body["model"] = "cub";
    const TestResponse response = client.ask(post(path, body));
    EXPECT_EQ(response.status, 200) << path << ' ' << response.body;
    EXPECT_TRUE(Json::parse(response.body).is_object()) << path;
  }
  const TestResponse refused = client.ask(post("/v1/messages", {{"model", "cub"}}));
  EXPECT_EQ(Json::parse(refused.body)["type"], "error");  // Anthropic's shape
  EXPECT_EQ(refused.header("request-id"), refused.header("x-request-id"));
}

TEST(Server, RefusesMoreThanTheQueueHolds) {
  EngineConfig small = small_engine();
  small.max_sequences = 1;
  small.max_queue = 1;
  Fixture f(quiet(), small);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<TestClient>(f.server.port()));
    clients.back()->send(post("/v1/completions", completion(300)));
  }
  int served = 0, refused = 0;
  for (const auto& client : clients) {
    const TestResponse response = client->read_response();
    served += response.status == 200;
    if (response.status != 503) continue;
    ++refused;
    EXPECT_EQ(code_of(response), "overloaded");
    EXPECT_GE(std::stoi(response.header("retry-after")), 1);
  }
  EXPECT_EQ(served + refused, 6);
  EXPECT_GE(served, 1);
  EXPECT_TRUE(eventually([&] { return f.clean(); }));
}

TEST(Server, ABurstWaitsUntilTheQueueIsFull) {
  ServerConfig config = quiet();
  config.max_parsing = 1;
  config.parse_threads = 1;
  Fixture f(config, small_engine());
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 40; ++i) clients.push_back(std::make_unique<TestClient>(f.server.port()));
  const std::string request = post("/v1/completions", completion(2));
  for (const auto& client : clients) client->send(request);
  for (const auto& client : clients) EXPECT_EQ(client->read_response().status, 200);
  EXPECT_TRUE(eventually([&] { return f.clean(); }));
}

TEST(Server, RefusesWhatIsNotJson) {
  Fixture f;
  const auto ask = [&](const std::string& headers) {
    TestClient client(f.server.port());
    return client.ask(format(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: 2\r\n\r\n{{}}", headers));
  };
  EXPECT_EQ(code_of(ask("")), "unsupported_media_type");
  EXPECT_EQ(code_of(ask("Content-Type: text/plain\r\n")), "unsupported_media_type");
  EXPECT_EQ(ask("Content-Type: text/plain\r\n").status, 415);
  EXPECT_EQ(code_of(ask("Content-Type: application/json\r\nContent-Encoding: gzip\r\n")),
      "unsupported_content_encoding");
  EXPECT_EQ(ask("Content-Type: application/json; charset=utf-8\r\n").status, 400);
}

TEST(Server, KnowsItsRoutes) {
  Fixture f;
  TestClient client(f.server.port());
  const TestResponse wrong_method = client.ask(get("/v1/chat/completions"));
  EXPECT_EQ(wrong_method.status, 405);
  EXPECT_EQ(wrong_method.header("allow"), "POST");
  EXPECT_EQ(client.ask("POST /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 405);
  for (const char* method : {"TRACE", "PUT", "PATCH"})
    EXPECT_EQ(client.ask(format("{} /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", method)).status, 405)
        << method;
  EXPECT_EQ(client.ask("CONNECT /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 405);
  const TestResponse near = client.ask(get("/v1/chat/completion"));
  EXPECT_EQ(near.status, 404);
  EXPECT_NE(near.body.find("/v1/chat/completions"), std::string::npos);
  for (const char* path : {"/v1//models", "/v1/%2e%2e/admin", "/v2/models", "/v1", "/.env", "/health/"})
    EXPECT_EQ(client.ask(get(path)).status, 404) << path;
  for (const char* path : {"/v1/models/..%2f..%2fetc", "/v1/models/%00", "/v1/models/unknown"})
    EXPECT_EQ(code_of(client.ask(get(path))), "model_not_found") << path;
  EXPECT_EQ(Json::parse(client.ask(get("/v1/models/cub")).body)["id"], "cub");
  EXPECT_EQ(Json::parse(client.ask(get("/models")).body)["data"].size(), 2u);
  EXPECT_EQ(Json::parse(client.ask(get("/version")).body)["version"], "1.2.3");
}

TEST(Server, AnswersOnlyToItsOwnNamesOnALoopbackAddress) {
  ServerConfig config = quiet();
  config.allowed_hosts = {"inner.example"};
  Fixture f(config);
  TestClient client(f.server.port());
  for (const char* host : {"localhost:1234", "127.0.0.1", "[::1]:80", "LOCALHOST", "inner.example:8000"})
    EXPECT_EQ(client.ask(format("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", host)).status, 200) << host;
  for (const char* host : {"evil.example", "localhost.evil.example", "10.0.0.1:80"}) {
    const TestResponse response = client.ask(format("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", host));
    EXPECT_EQ(response.status, 403) << host;
    EXPECT_EQ(code_of(response), "host_not_allowed");
  }
}

TEST(Server, AllowsOnlyNamedOrigins) {
  ServerConfig config = quiet();
  config.cors_origins = {"https://app.example"};
  Fixture allowing(config), silent;
  const auto origin = [](Fixture& f, const std::string& from) {
    TestClient client(f.server.port());
    return client.ask(get("/v1/models", "Origin: " + from + "\r\n")).header("access-control-allow-origin");
  };
  EXPECT_EQ(origin(allowing, "https://app.example"), "https://app.example");
  EXPECT_EQ(origin(allowing, "https://other.example"), "");
  EXPECT_EQ(origin(silent, "https://app.example"), "");
  TestClient client(allowing.server.port());
  const TestResponse preflight = client.ask(
      "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: "
      "https://app.example\r\nAccess-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_NE(preflight.header("access-control-allow-methods").find("POST"), std::string::npos);
}

TEST(Server, IsAliveButNotReadyWhileAModelLoads) {
  Server server(quiet());
  TestClient client(server.port());
  EXPECT_EQ(client.ask(get("/health/live")).status, 200);
  EXPECT_EQ(client.ask(get("/health")).status, 503);
  EXPECT_EQ(client.ask(get("/ready")).status, 503);
  EXPECT_EQ(client.ask(get("/health/engine")).status, 503);
  EXPECT_EQ(client.ask(get("/metrics")).status, 200);
  EXPECT_EQ(client.ask(get("/v1/stats")).status, 200);
  EXPECT_EQ(client.ask(get("/v1/models")).status, 200);
  EXPECT_EQ(client.ask(get("/v1/models/cub")).status, 404);
  EXPECT_EQ(code_of(client.ask(post("/v1/completions", completion(1)))), "model_loading");
}

Json asked(TestClient& client, const std::string& request) { return Json::parse(client.ask(request).body); }

TEST(Server, SaysHowFarTheModelIsRead) {
  Server server(quiet());
  TestClient client(server.port());
  EXPECT_EQ(asked(client, get("/v1/stats"))["loading"]["share"], 0);
  server.tell_loading(430, 1000);
  for (const char* path : {"/health", "/v1/stats"}) {
    const Json loading = asked(client, get(path))["loading"];
    EXPECT_EQ(loading["read_bytes"], 430) << path;
    EXPECT_EQ(loading["total_bytes"], 1000) << path;
    EXPECT_DOUBLE_EQ(loading["share"].get<double>(), 0.43) << path;
  }
}

TEST(Server, TellsTheDecisionsAboutOneRequest) {
  Fixture f;
  TestClient client(f.server.port());
  EXPECT_FALSE(asked(client, get("/v1/stats")).contains("loading"));
  EXPECT_FALSE(asked(client, get("/v1/stats")).contains("cluster"));
  Json body = completion(3);
  body["timings"] = true;
  const Json answer = asked(client, post("/v1/completions", body));
  const std::string path = format("/v1/decisions?request={}", answer["timings"]["request_id"].get<int64_t>());
  const Json told = asked(client, get(path));
  std::vector<std::string> kinds;
  for (const Json& decision : told["decisions"]) kinds.push_back(decision["kind"]);
  EXPECT_EQ(kinds, (std::vector<std::string>{"arrived", "admitted", "prefilled", "finished"}));
  EXPECT_TRUE(asked(client, get("/v1/decisions?request=987654"))["decisions"].empty());
  EXPECT_EQ(client.ask(get("/v1/decisions?request=x")).status, 400);
}

TEST(Server, DrainsWhatRunsAndRefusesWhatComes) {
  Fixture f;
  TestClient running(f.server.port());
  running.send(post("/v1/completions", completion(200, true)));
  EXPECT_TRUE(running.read_until("data: {"));
  std::thread drain([&] { f.server.drain(milliseconds(60'000)); });
  EXPECT_TRUE(eventually([&] {
    TestClient client(f.server.port());
    return client.ask(get("/health/ready")).status == 503;
  }));
  TestClient late(f.server.port());
  EXPECT_EQ(code_of(late.ask(post("/v1/completions", completion(1)))), "draining");
  const TestResponse stream = running.read_response();
  EXPECT_TRUE(stream.whole);
  EXPECT_TRUE(stream.body.ends_with("data: [DONE]\n\n"));
  drain.join();
}

TEST(Server, CutsWhatIsStillRunningWhenDrainingTakesTooLong) {
  Fixture f;
  TestClient running(f.server.port());
  running.send(post("/v1/completions", completion(500, true)));
  EXPECT_TRUE(running.read_until("data: {"));
  f.server.drain(milliseconds(0));
  const TestResponse stream = running.read_response();
  EXPECT_TRUE(stream.whole);
  EXPECT_EQ(f.server.counters().in_flight, 0);
}

TEST(Server, TellsTheEnginesHealth) {
  Fixture f;
  TestClient client(f.server.port());
  EXPECT_EQ(Json::parse(client.ask(get("/health/engine")).body)["status"], "ok");
  TestClient busy(f.server.port());
  busy.send(post("/v1/completions", completion(400, true)));
  EXPECT_TRUE(busy.read_until("data: {"));
  EXPECT_EQ(client.ask(get("/health/engine")).status, 200);
}

TEST(Server, EndsGenerationsAtTheirDeadline) {
  ServerConfig config = quiet();
  config.request_time = milliseconds(1);
  Fixture f(config);
  TestClient client(f.server.port());
  const TestResponse response = client.ask(post("/v1/completions", completion(500)));
  EXPECT_TRUE(response.whole);
  EXPECT_TRUE(eventually([&] { return f.clean(); }));
}

TEST(Server, KeepsSilentStreamsAliveWithComments) {
  ServerConfig config = quiet();
  config.stream_ping = milliseconds(20);
  config.listen.limits.header_time = milliseconds(40);  // so that ticks come every 10 ms
  EngineConfig narrow = small_engine();
  narrow.max_sequences = 1;
  Fixture f(config, narrow);
  TestClient first(f.server.port()), waiting(f.server.port());
  first.send(post("/v1/completions", completion(450, true)));
  EXPECT_TRUE(first.read_until("data: {"));
  waiting.send(post("/v1/completions", completion(2, true)));
  const TestResponse second = waiting.read_response();
  EXPECT_EQ(second.status, 200);
  EXPECT_TRUE(second.body.ends_with("data: [DONE]\n\n"));
  EXPECT_TRUE(first.read_response().whole);
}

TEST(Server, ServesThePageAndItsParts) {
  Fixture f;
  TestClient client(f.server.port());
  const TestResponse page = client.ask(get("/"));
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.header("content-type").substr(0, 9), "text/html");
  EXPECT_NE(page.header("content-security-policy").find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(client.ask(get("/", "If-None-Match: " + page.header("etag") + "\r\n")).status, 304);
  EXPECT_EQ(client.ask(get("/page.js")).status, 200);
}

TEST(Server, NeverTellsPathsOrAddressesInErrors) {
  Fixture f;
  TestClient client(f.server.port());
  for (const std::string& request : {get("/nothing"), post("/v1/completions", Json{{"model", 1}}),
           post("/v1/completions", Json::array())}) {
    const std::string body = client.ask(request).body;
    for (const char* secret : {"0x", "/home", "/work", ".cpp", "std::"})
      EXPECT_EQ(body.find(secret), std::string::npos) << body;
  }
}

TEST(Server, LogsCallsWithoutWhatWasSaid) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  {
    ServerConfig config = quiet();
    config.log = {.level = LogLevel::kDebug, .format = LogFormat::kJson, .descriptor = ends[1]};
    Fixture f(config);
    TestClient client(f.server.port());
    EXPECT_EQ(client.ask(post("/v1/completions", completion(2), "X-Request-Id: logged\r\n")).status, 200);
    EXPECT_TRUE(eventually([&] { return f.clean(); }));
  }
  close(ends[1]);
  std::string log(1 << 16, '\0');
  const ssize_t count = read(ends[0], log.data(), log.size());
  close(ends[0]);
  ASSERT_GT(count, 0);
  log.resize(static_cast<size_t>(count));
  const size_t at = log.find("\"request_id\":\"logged\"");
  ASSERT_NE(at, std::string::npos) << log;
  const size_t begin = log.rfind('\n', at) == std::string::npos ? 0 : log.rfind('\n', at) + 1;
  const Json line = Json::parse(log.substr(begin, log.find('\n', at) - begin));
  EXPECT_EQ(line["event"], "call");
  EXPECT_EQ(line["completion_tokens"], 2);
  EXPECT_EQ(line["path"], "/v1/completions") << "as it was asked, and as the line of the connection has it";
  EXPECT_EQ(log.find("Once upon"), std::string::npos);
}

}  // namespace
}  // namespace cheetah
