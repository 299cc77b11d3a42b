// SPDX-License-Identifier: MIT
#include "net/http_channel.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "net/http_get.h"

namespace cheetah {
namespace {

constexpr auto kLimit = std::chrono::seconds(5);
constexpr auto kShort = std::chrono::milliseconds(50);

// Accepts connections one after another and gives each to the script, which ends it by returning.
class ScriptedServer {
 public:
  using Script = std::function<void(int socket)>;

  explicit ScriptedServer(std::vector<Script> scripts)
      : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.get(), generic, size), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    ::getsockname(listener_.get(), generic, &size);
    port_ = std::to_string(ntohs(address.sin_port));
    thread_ = std::jthread([this, scripts = std::move(scripts)] {
      for (const Script& script : scripts) {
        const UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!socket) return;
        script(socket.get());
      }
    });
  }
  ~ScriptedServer() { ::shutdown(listener_.get(), SHUT_RDWR); }

  Url url() const { return {.tls = false, .host = "127.0.0.1", .port = port_, .path = ""}; }

 private:
  UniqueFd listener_;
  std::string port_;
  std::jthread thread_;
};

void say(int socket, std::string_view bytes) { ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

// Reads up to the empty line after the head.
std::string hear(int socket) {
  std::string head;
  for (char c; !head.ends_with("\r\n\r\n") && ::recv(socket, &c, 1, 0) == 1;) head += c;
  return head;
}

void until_closed(int socket) {
  char byte;
  while (::recv(socket, &byte, 1, 0) > 0) continue;
}

std::string chunk(std::string_view text) {
  char size[16];
  std::snprintf(size, sizeof size, "%zx\r\n", text.size());
  return size + std::string(text) + "\r\n";
}

constexpr std::string_view kStreamHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

TEST(HttpChannel, KeepsTheConnectionBetweenRequests) {
  std::string heads[2];
  ScriptedServer server({[&](int socket) {
    for (std::string& head : heads) {
      head = hear(socket);
      say(socket, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
    until_closed(socket);
  }});
  HttpChannel channel({.url = server.url()});
  EXPECT_EQ(channel.send({.path = "/a"}, kLimit).body, "ok");
  EXPECT_EQ(channel.send({.method = "POST", .path = "/b", .headers = {{"X-One", "1"}}}, kLimit).status, 200);
  EXPECT_TRUE(heads[0].starts_with("GET /a HTTP/1.1\r\nHost: 127.0.0.1:")) << heads[0];
  EXPECT_NE(heads[1].find("X-One: 1\r\nContent-Length: 0\r\n"), std::string::npos) << heads[1];
}

TEST(HttpChannel, ConnectsAgainWhenTheServerHasClosed) {
  const auto once = [](int socket) {
    hear(socket);
    say(socket, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  };
  ScriptedServer server({once, once});
  HttpChannel channel({.url = server.url()});
  EXPECT_EQ(channel.send({}, kLimit).body, "ok");
  std::this_thread::sleep_for(kShort);  // its end arrives
  EXPECT_EQ(channel.send({}, kLimit).body, "ok");
}

TEST(HttpChannel, GivesEachLineOfAStreamThoughOneReadBringsSeveral) {
  ScriptedServer server({[](int socket) {
    hear(socket);
    // The first lines come together with the head; one line is cut in two.
    say(socket, std::string(kStreamHead) + chunk("one\ntwo\nthr") + chunk("ee\n\nfive\n"));
    std::this_thread::sleep_for(kShort);
    say(socket, chunk("six\nlast") + "0\r\n\r\n");
    until_closed(socket);
  }});
  HttpChannel channel({.url = server.url()});
  ASSERT_EQ(channel.open_stream({.method = "POST", .path = "/watch"}, kLimit), 200);
  for (const char* expected : {"one", "two", "three", "", "five", "six", "last"})
    EXPECT_EQ(channel.read_line(kLimit), expected);
  EXPECT_THROW(channel.read_line(kLimit), Error);
}

TEST(HttpChannel, LosesNoLineOfManyThatArriveTogether) {
  constexpr int kLines = 20'000;
  ScriptedServer server({[](int socket) {
    hear(socket);
    std::string all;
    for (int i = 0; i < kLines; ++i) all += std::to_string(i) + "\n";
    say(socket, std::string(kStreamHead) + chunk(all));
    until_closed(socket);
  }});
  HttpChannel channel({.url = server.url()});
  ASSERT_EQ(channel.open_stream({}, kLimit), 200);
  for (int i = 0; i < kLines; ++i) ASSERT_EQ(channel.read_line(kLimit), std::to_string(i));
  EXPECT_EQ(channel.read_line(kShort), std::nullopt);
}

TEST(HttpChannel, EndsAWaitThatTakesTooLong) {
  ScriptedServer server({[](int socket) { until_closed(socket); }});
  HttpChannel channel({.url = server.url()});
  const SteadyTime begin = SteadyClock::now();
  EXPECT_THROW(channel.send({}, kShort), Error);
  EXPECT_LT(seconds_since(begin), 2);
}

TEST(HttpChannel, EndsWhenItIsInterruptedFromAnotherThread) {
  ScriptedServer server({[](int socket) { until_closed(socket); }});
  HttpChannel channel({.url = server.url()});
  std::jthread other([&] {
    std::this_thread::sleep_for(kShort);
    channel.interrupt();
  });
  const SteadyTime begin = SteadyClock::now();
  EXPECT_THROW(channel.send({}, std::chrono::minutes(1)), Error);
  EXPECT_LT(seconds_since(begin), 10);
  EXPECT_THROW(channel.send({}, kLimit), Error);
}

TEST(HttpChannel, RefusesABodyAboveItsLimit) {
  ScriptedServer server({[](int socket) {
    hear(socket);
    say(socket, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + std::string(1000, 'x'));
    until_closed(socket);
  }});
  HttpChannel channel({.url = server.url()});
  EXPECT_THROW(channel.send({}, kLimit, 999), Error);
}

TEST(HttpChannel, SaysWhatIsWrong) {
  ScriptedServer server({[](int socket) {
    hear(socket);
    say(socket, "SSH-2.0-OpenSSH\r\n\r\n");
  }});
  HttpChannel channel({.url = server.url()});
  try {
    channel.send({}, kLimit);
    FAIL() << "not HTTP";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("not HTTP"), std::string::npos) << error.what();
  }
  EXPECT_THROW(HttpChannel({.url = {.tls = true, .host = "localhost", .port = "1", .path = ""},
                   .tls = {.ca_file = "/nowhere.pem"}}),
      Error);
}

TEST(HttpGet, GivesTheBodyOrTheStatus) {
  const auto answer = [](std::string_view text) {
    return [text](int socket) {
      hear(socket);
      say(socket, text);
    };
  };
  ScriptedServer server({answer("HTTP/1.1 200 OK\r\n\r\nto the end"),
      answer("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")});
  EXPECT_EQ(http_get(server.url()), "to the end");
  EXPECT_THROW(http_get(server.url()), Error);
}

}  // namespace
}  // namespace cheetah
