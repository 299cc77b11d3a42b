// SPDX-License-Identifier: MIT
#include "serve/http/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "serve/http/framing_cases.h"
#include "serve/http/test_client.h"

namespace cheetah {
namespace {

using std::chrono::milliseconds;

// Answers /echo with the body, /stream with pieces without end, and /wait never.
class EchoHandler final : public HttpHandler {
 public:
  class Endless final : public ExchangeListener,
                        public Notified,
                        public std::enable_shared_from_this<Endless> {
   public:
    Endless(std::shared_ptr<Exchange> exchange, EchoHandler& handler)
        : exchange_(std::move(exchange)), handler_(handler) {}
    void on_gone() override { ++handler_.gone; }
    void on_tick(ServeTime) override {}
    void on_notified() override {
      if (!exchange_->open()) return;
      exchange_->write(std::string(64 << 10, 'x'));
      exchange_->flush();
      ++handler_.pieces;
      exchange_->thread().notify(shared_from_this());
    }

   private:
    std::shared_ptr<Exchange> exchange_;
    EchoHandler& handler_;
  };

  std::optional<HttpResponse> check_head(HttpRequest& request) override {
    ++heads;
    if (request.path() != "/refused") return std::nullopt;
    HttpResponse response;
    response.status = 404;
    return response;
  }
  void handle(HttpRequest&& request, std::shared_ptr<Exchange> exchange) override {
    ++handled;
    if (request.path() == "/stream") {
      exchange->begin({});
      auto stream = std::make_shared<Endless>(exchange, *this);
      exchange->listen(stream);
      exchange->thread().notify(stream);
    } else if (request.path() == "/wait") {
      exchange->listen(std::make_shared<Endless>(exchange, *this));
    } else {
      exchange->respond({.status = 200, .body = request.body, .content_type = "text/plain", .headers = {}});
    }
  }
  HttpResponse refuse(const HttpRequest&, const HttpError& error) override {
    return {.status = error.status, .body = error.code, .content_type = "text/plain", .headers = {}};
  }
  std::string new_request_id() override { return format("id-{}", ++ids); }
  void on_finished(const ExchangeRecord& record) override {
    ++finished;
    if (record.cut_off) ++cut_off;
  }
  void on_connections(int64_t open) override { connections = open; }

  std::atomic<int> heads = 0, handled = 0, ids = 0, finished = 0, cut_off = 0, gone = 0, pieces = 0;
  std::atomic<int64_t> connections = 0;
};

struct Fixture {
  explicit Fixture(const HttpLimits& limits = {}, int threads = 1)
      : server(config(limits, threads), handler) {
    server.start();
  }
  static ListenConfig config(const HttpLimits& limits, int threads) {
    ListenConfig listen;
    listen.port = 0;
    listen.threads = threads;
    listen.limits = limits;
    return listen;
  }
  EchoHandler handler;
  HttpServer server;
};

template <class Condition>
bool eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + TestClient::kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

const std::string kGet = "GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n";

std::string post(const std::string& body) {
  return format("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
}

TEST(HttpServer, MeetsEveryCaseOfTheFramingTableOverASocket) {
  Fixture f;
  for (const FramingCase& each : framing_cases()) {
    TestClient client(f.server.port());
    client.send(each.bytes);
    const TestResponse response = client.read_response();
    EXPECT_EQ(response.status, each.status) << each.name;
    EXPECT_EQ(response.body, each.code) << each.name;
    if (each.status == 200) continue;
    EXPECT_EQ(response.header("connection"), "close") << each.name;
    EXPECT_TRUE(client.ended()) << each.name;
  }
  TestClient client(f.server.port());
  EXPECT_EQ(client.ask(post("still here")).body, "still here");
}

TEST(HttpServer, AnswersRequestAfterRequestOnOneConnection) {
  Fixture f;
  TestClient client(f.server.port());
  for (int i = 0; i < 20; ++i) {
    const TestResponse response = client.ask(post(format("body {}", i)));
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, format("body {}", i));
    EXPECT_EQ(response.header("connection"), "keep-alive");
  }
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  Fixture f;
  TestClient client(f.server.port());
  std::string all;
  for (int i = 0; i < 50; ++i) all += post(format("{}", i));
  client.send(all);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(client.read_response().body, format("{}", i));
}

TEST(HttpServer, RunsNothingThatFollowsABadRequest) {
  Fixture f;
  TestClient client(f.server.port());
  client.send("GET / HTTP/1.1\r\n\r\n" + kGet + kGet);
  EXPECT_EQ(client.read_response().status, 400);
  EXPECT_TRUE(client.ended());
  EXPECT_EQ(f.handler.handled, 0);
}

TEST(HttpServer, RunsNothingWhoseBodyDoesNotArrive) {
  Fixture f;
  {
    TestClient client(f.server.port());
    client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf");
    EXPECT_TRUE(eventually([&] { return f.handler.connections == 1; }));
  }
  EXPECT_TRUE(eventually([&] { return f.handler.connections == 0; }));
  EXPECT_EQ(f.handler.handled, 0);
}

TEST(HttpServer, AnswersAClientThatHasStoppedSending) {
  Fixture f;
  TestClient client(f.server.port());
  client.send(kGet);
  client.shutdown_send();
  EXPECT_EQ(client.read_response().status, 200);
  EXPECT_TRUE(client.ended());
}

TEST(HttpServer, LeavesTheBodyOutForHead) {
  Fixture f;
  TestClient client(f.server.port());
  client.send("HEAD /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc");
  const TestResponse response = client.read_response(true);
  EXPECT_EQ(response.header("content-length"), "3");
  EXPECT_EQ(client.ask(post("next")).body, "next");
}

TEST(HttpServer, ContinuesOnlyWhenTheHeadIsTaken) {
  Fixture f;
  TestClient client(f.server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_TRUE(client.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  client.send("ok");
  EXPECT_EQ(client.read_response().body, "ok");
  TestClient large(f.server.port());
  EXPECT_EQ(large
                .ask("POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: "
                     "99999999\r\n\r\n")
                .status,
      413);
  TestClient other(f.server.port());
  EXPECT_EQ(other.ask("POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: magic\r\nContent-Length: 2\r\n\r\n")
                .status,
      417);
  TestClient refused(f.server.port());
  EXPECT_EQ(refused
                .ask("POST /refused HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: "
                     "2\r\n\r\n")
                .status,
      404);
}

TEST(HttpServer, KeepsTheConnectionAfterARefusalWithoutABody) {
  Fixture f;
  TestClient client(f.server.port());
  EXPECT_EQ(client.ask("GET /refused HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 404);
  EXPECT_EQ(client.ask(kGet).status, 200);
}

TEST(HttpServer, EchoesGoodRequestIdsAndReplacesOthers) {
  Fixture f;
  TestClient client(f.server.port());
  const std::string refused = "GET /refused HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: ";
  EXPECT_EQ(client.ask(refused + "abc-1\r\n\r\n").header("x-request-id"), "abc-1");
  EXPECT_EQ(client.ask(refused + "a b\r\n\r\n").header("x-request-id").substr(0, 3), "id-");
  EXPECT_EQ(
      client.ask(refused + std::string(200, 'a') + "\r\n\r\n").header("x-request-id").substr(0, 3), "id-");
}

TEST(HttpServer, TellsAClientTooSlowWithItsHeadersOrBody) {
  HttpLimits limits;
  limits.header_time = milliseconds(60);
  limits.body_grace = milliseconds(60);
  Fixture f(limits);
  TestClient headers(f.server.port()), body(f.server.port());
  headers.send("GET /ech");
  body.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nx");
  for (TestClient* client : {&headers, &body}) {
    const TestResponse response = client->read_response();
    EXPECT_EQ(response.status, 408);
    EXPECT_EQ(response.body, "request_timeout");
    EXPECT_TRUE(client->ended());
  }
  EXPECT_EQ(f.handler.handled, 0);
}

TEST(HttpServer, ClosesIdleConnections) {
  HttpLimits limits;
  limits.idle_time = milliseconds(500);
  Fixture f(limits);
  TestClient silent(f.server.port()), used(f.server.port());
  EXPECT_EQ(used.ask(kGet).status, 200);
  EXPECT_TRUE(used.ended());
  EXPECT_TRUE(silent.ended());
}

TEST(HttpServer, NoticesAClientThatLeavesWhileItsAnswerIsMade) {
  Fixture f;
  for (const bool by_reset : {false, true}) {
    const int before = f.handler.gone;
    TestClient client(f.server.port());
    client.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_TRUE(eventually([&] { return f.handler.connections == 1; }));
    by_reset ? client.reset() : client.close();
    EXPECT_TRUE(eventually([&] { return f.handler.gone == before + 1; }));
    EXPECT_TRUE(eventually([&] { return f.handler.connections == 0; }));
  }
}

TEST(HttpServer, CutsOffAReaderThatCannotKeepUp) {
  HttpLimits limits;
  limits.unsent_bytes = 256 << 10;
  Fixture f(limits);
  TestClient client(f.server.port(), 4096);
  client.send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return f.handler.gone == 1; }));
  EXPECT_TRUE(eventually([&] { return f.handler.connections == 0; }));
  EXPECT_EQ(f.handler.cut_off, 1);
}

TEST(HttpServer, CutsOffAReaderThatTakesNothing) {
  HttpLimits limits;
  limits.write_stall = milliseconds(100);
  Fixture f(limits);
  TestClient client(f.server.port(), 4096);
  client.send(post(std::string(12 << 20, 'x')));  // echoed: more than the sockets hold
  EXPECT_TRUE(eventually([&] { return f.handler.cut_off == 1; }));
  EXPECT_TRUE(eventually([&] { return f.handler.connections == 0; }));
}

TEST(HttpServer, TakesNoMoreConnectionsThanItMay) {
  HttpLimits limits;
  limits.connections = 2;
  Fixture f(limits);
  TestClient first(f.server.port()), second(f.server.port());
  EXPECT_EQ(first.ask(kGet).status, 200);
  EXPECT_EQ(second.ask(kGet).status, 200);
  TestClient third(f.server.port());
  EXPECT_TRUE(third.ended());
  first.close();
  EXPECT_TRUE(eventually([&] { return f.handler.connections == 1; }));
  TestClient fourth(f.server.port());
  EXPECT_EQ(fourth.ask(kGet).status, 200);
}

TEST(HttpServer, CountsConnectionsOfAnAddress) {
  HttpLimits limits;
  limits.connections_per_address = 1;
  limits.spare_loopback = false;
  Fixture f(limits);
  TestClient first(f.server.port());
  EXPECT_EQ(first.ask(kGet).status, 200);
  TestClient second(f.server.port());
  EXPECT_TRUE(second.ended());
}

TEST(HttpServer, ServesManyConnectionsOnSeveralThreads) {
  Fixture f({}, 3);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 200; ++i) clients.push_back(std::make_unique<TestClient>(f.server.port()));
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < clients.size(); ++i) clients[i]->send(post(format("{}.{}", round, i)));
    for (size_t i = 0; i < clients.size(); ++i)
      EXPECT_EQ(clients[i]->read_response().body, format("{}.{}", round, i));
  }
  clients.clear();
  EXPECT_TRUE(eventually([&] { return f.handler.connections == 0; }));
}

TEST(HttpServer, WindsDownIdleConnectionsAtOnceAndBusyOnesAfterTheirAnswer) {
  Fixture f;
  TestClient idle(f.server.port()), half(f.server.port());
  EXPECT_EQ(idle.ask(kGet).status, 200);
  half.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nab");
  EXPECT_TRUE(eventually([&] { return f.handler.heads == 2; }));
  f.server.wind_down();
  EXPECT_TRUE(idle.ended());
  half.send("cd");
  const TestResponse response = half.read_response();
  EXPECT_EQ(response.body, "abcd");
  EXPECT_EQ(response.header("connection"), "close");
  EXPECT_TRUE(half.ended());
}

TEST(HttpServer, SaysThatAPortIsTaken) {
  Fixture f;
  ListenConfig same = Fixture::config({}, 1);
  same.port = f.server.port();
  EchoHandler handler;
  try {
    HttpServer second(same, handler);
    FAIL() << "two servers on one port";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("is in use"), std::string::npos) << error.what();
  }
}

TEST(HttpServer, KnowsWhichHostsAreThisMachine) {
  for (const char* host : {"localhost", "127.0.0.1", "127.8.9.1", "::1"})
    EXPECT_TRUE(is_loopback_host(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "192.168.0.1", "example.org", ""})
    EXPECT_FALSE(is_loopback_host(host)) << host;
}

}  // namespace
}  // namespace cheetah
