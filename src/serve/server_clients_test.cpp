// SPDX-License-Identifier: MIT
// Clients that leave, read slowly, stop sending, send again or cancel.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "serve/server_fixture.h"

namespace cheetah {
namespace {

using std::chrono::milliseconds;
using Fixture = ServerFixture;

TEST(Server, CancelsWhatADisconnectedClientWanted) {
  Fixture f;
  for (const bool stream : {false, true}) {
    {
      TestClient client(f.server.port());
      client.send(post("/v1/completions", completion(400, stream)));
      EXPECT_TRUE(eventually([&] { return f.stats()["running"] == 1 || f.stats()["finished_length"] > 0; }));
      if (stream) {
        EXPECT_TRUE(client.read_until("data: {"));
      }
    }
    EXPECT_TRUE(eventually([&] { return f.clean(); }));
  }
}

TEST(Server, AClientThatOnlyStoppedSendingGetsItsAnswer) {
  Fixture f;
  TestClient whole(f.server.port());
  const TestResponse expected = whole.ask(post("/v1/completions", completion(60)));
  for (const bool stream : {false, true}) {
    TestClient client(f.server.port());
    client.send(post("/v1/completions", completion(60, stream)));
    client.shutdown_send();
    std::string all = client.read_all();
    if (const size_t final = all.rfind("HTTP/1.1 "); final != std::string::npos) all.erase(0, final);
    EXPECT_TRUE(all.starts_with("HTTP/1.1 200")) << all;
    if (stream)
      EXPECT_NE(all.find("data: [DONE]"), std::string::npos) << all;
    else
      EXPECT_EQ(
          Json::parse(all.substr(all.find("\r\n\r\n")))["choices"], Json::parse(expected.body)["choices"]);
  }
  EXPECT_TRUE(eventually([&] { return f.clean(); }));
}

TEST(Server, AStreamWaitsForItsSlowReaderWhileOthersGoOn) {
  ServerConfig config = quiet();
  config.listen.limits.pause_bytes = 4096;
  config.listen.limits.socket_bytes = 4096;
  Fixture f(config);
  TestClient other(f.server.port());
  Json wanted = completion(400, true);
  const TestResponse expected = other.ask(post("/v1/completions", completion(400)));
  wanted["logprobs"] = 5;
  TestClient slow(f.server.port(), 4096);
  slow.send(post("/v1/completions", wanted));
  EXPECT_TRUE(eventually([&] { return f.stats()["paused"] == 1; }));
  EXPECT_EQ(other.ask(post("/v1/completions", completion(20))).status, 200) << "its place is free";
  EXPECT_EQ(f.stats()["paused"], 1) << "and it still waits";
  const std::string text = streamed_text(slow.read_response().body);
  EXPECT_EQ(text, Json::parse(expected.body)["choices"][0]["text"].get<std::string>());
  EXPECT_TRUE(eventually([&] { return f.clean(); }));
}

TEST(Server, AReaderThatTakesNothingIsCutOff) {
  ServerConfig config = quiet();
  config.listen.limits.pause_bytes = 4096;
  config.listen.limits.socket_bytes = 4096;
  config.listen.limits.write_stall = milliseconds(200);
  Fixture f(config);
  Json wanted = completion(400, true);
  wanted["logprobs"] = 5;
  TestClient slow(f.server.port(), 4096);
  slow.send(post("/v1/completions", wanted));
  EXPECT_TRUE(eventually([&] { return f.stats()["disconnects"] == 1; }));
  EXPECT_TRUE(eventually([&] { return f.clean(); }));
}

TEST(Server, ARequestSentAgainUnderItsKeyIsNotComputedAgain) {
  Fixture f;
  const std::string key = "Idempotency-Key: k1\r\n";
  TestClient client(f.server.port());
  EXPECT_EQ(client.ask(post("/v1/completions", completion(4), key)).status, 200);
  const int64_t generated = f.stats()["generated_tokens"];
  const TestResponse again = client.ask(post("/v1/completions", completion(4), key));
  EXPECT_EQ(again.status, 409);
  EXPECT_EQ(code_of(again), "idempotency_conflict");
  const TestResponse other = client.ask(post("/v1/completions", completion(5), key));
  EXPECT_EQ(other.status, 409);
  EXPECT_NE(other.body.find("another request"), std::string::npos);
  EXPECT_EQ(f.stats()["generated_tokens"], generated);
  EXPECT_EQ(
      client.ask(post("/v1/completions", Json{{"model", "cub"}}, "Idempotency-Key: k2\r\n")).status, 400);
  EXPECT_EQ(client.ask(post("/v1/completions", completion(4), "Idempotency-Key: k2\r\n")).status, 200)
      << "what was refused may be sent again";
}

TEST(Server, CancelsByIdForTheSameTenantOnly) {
  ServerConfig config = quiet();
  config.keys = ApiKeys::parse("one first-key\ntwo second-key\n", "keys", {});
  config.listen.threads = 2;
  Fixture f(config);
  const auto remove = [&](const std::string& id, const std::string& key) {
    TestClient client(f.server.port());
    return client.ask(format(
        "DELETE /v1/requests/{} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n", id, key));
  };
  TestClient client(f.server.port());
  client.send(post(
      "/v1/completions", completion(400, true), "X-Request-Id: mine\r\nAuthorization: Bearer first-key\r\n"));
  EXPECT_TRUE(client.read_until("data: {"));
  EXPECT_EQ(remove("mine", "second-key").status, 404);
  EXPECT_EQ(remove("other", "first-key").status, 404);
  const TestResponse removed = remove("cmpl-mine", "first-key");
  const TestResponse stream = client.read_response();
  EXPECT_TRUE(stream.whole);
  // It may have come to its end by itself before the cancellation arrived.
  EXPECT_TRUE(removed.status == 200 || removed.status == 404);
  EXPECT_EQ(remove("mine", "first-key").status, 404);
}

TEST(Server, AProbeWhileTheModelLoadsIsNoWarning) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  {
    ServerConfig config = quiet();
    config.log = {.level = LogLevel::kWarning, .format = LogFormat::kJson, .descriptor = ends[1]};
    Server server(config);
    TestClient client(server.port());
    for (const char* path : {"/health/ready", "/health", "/ready", "/health/engine"})
      EXPECT_EQ(client.ask(get(path)).status, 503);
  }
  close(ends[1]);
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
}

}  // namespace
}  // namespace cheetah
