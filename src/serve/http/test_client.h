// SPDX-License-Identifier: MIT
#pragma once
// A client that writes exactly the bytes a test wants and waits for answers with a deadline.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace cheetah {

struct TestResponse {
  int status = 0;  // 0: the connection ended first
  std::string head, body;
  bool whole = false;  // the body arrived in full

  std::string header(const std::string& lower_name) const {
    const size_t at = head.find("\r\n" + lower_name + ": ");
    if (at == std::string::npos) return "";
    const size_t begin = at + lower_name.size() + 4;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

class TestClient {
 public:
  static constexpr auto kPatience = std::chrono::seconds(60);

  explicit TestClient(uint16_t port, int receive_buffer = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0)
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~TestClient() { close(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool connected() const { return connected_; }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  void reset() {  // RST instead of FIN
    const linger how = {1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &how, sizeof how);
    close();
  }
  void shutdown_send() { ::shutdown(socket_, SHUT_WR); }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return true;
  }

  // Appends what arrives; false at the end of the stream or of the patience.
  bool receive(std::string& into, std::chrono::milliseconds patience = kPatience) {
    pollfd ready = {socket_, POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(patience.count())) <= 0) return false;
    char buffer[16384];
    const ssize_t count = ::recv(socket_, buffer, sizeof buffer, 0);
    if (count <= 0) return false;
    into.append(buffer, static_cast<size_t>(count));
    return true;
  }

  // Everything until the server closes.
  std::string read_all() {
    std::string all = std::exchange(pending_, {});
    while (receive(all)) {
    }
    return all;
  }

  bool read_until(const std::string& text) {
    while (pending_.find(text) == std::string::npos)
      if (!receive(pending_)) return false;
    return true;
  }

  TestResponse read_response(bool head_only = false) {
    TestResponse response;
    if (!read_until("\r\n\r\n")) return response;
    const size_t end = pending_.find("\r\n\r\n");
    response.head = pending_.substr(0, end + 2);
    pending_.erase(0, end + 4);
    response.status = std::atoi(response.head.c_str() + 9);
    if (response.status == 100) return read_response(head_only);
    if (head_only || response.status == 204 || response.status == 304) {
      response.whole = true;
    } else if (response.header("transfer-encoding") == "chunked") {
      read_chunks(response);
    } else {
      const size_t length = std::stoul("0" + response.header("content-length"));
      while (pending_.size() < length && receive(pending_)) {
      }
      response.whole = pending_.size() >= length;
      response.body = pending_.substr(0, length);
      pending_.erase(0, length);
    }
    return response;
  }

  TestResponse ask(const std::string& bytes) {
    send(bytes);
    return read_response();
  }

  // True when the server has closed its side (after what it sent).
  bool ended(std::chrono::milliseconds patience = kPatience) {
    std::string rest;
    const auto end = std::chrono::steady_clock::now() + patience;
    pollfd ready = {socket_, POLLIN, 0};
    while (std::chrono::steady_clock::now() < end) {
      if (::poll(&ready, 1, 50) <= 0) continue;
      char buffer[4096];
      if (::recv(socket_, buffer, sizeof buffer, 0) <= 0) return true;
    }
    return false;
  }

 private:
  void read_chunks(TestResponse& response) {
    for (;;) {
      if (!read_until("\r\n")) return;
      const size_t size = std::stoul(pending_, nullptr, 16);
      const size_t begin = pending_.find("\r\n") + 2;
      while (pending_.size() < begin + size + 2)
        if (!receive(pending_)) return;
      response.body += pending_.substr(begin, size);
      pending_.erase(0, begin + size + 2);
      if (size == 0) {
        response.whole = true;
        return;
      }
    }
  }

  int socket_;
  bool connected_ = false;
  std::string pending_;
};

}  // namespace cheetah
