// A blocking client for one GET, so that reading metrics does not pull a server's network stack in here.
#include "doctor/http_get.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/format.h"
#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

using Clock = std::chrono::steady_clock;

struct Address {
  std::string host, port, path;
};

Address parse_url(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  if (!starts_with(url, kScheme))
    throw Error(format("{}: expected http://HOST:PORT/metrics", printable(url)));
  const std::string rest = url.substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string authority = rest.substr(0, slash);
  Address address{authority, "80",
                  slash < rest.size() && rest.substr(slash) != "/" ? rest.substr(slash) : "/metrics"};
  const size_t colon = authority.rfind(':');
  if (colon != std::string::npos && authority.find(']', colon) == std::string::npos) {
    address.host = authority.substr(0, colon);
    address.port = authority.substr(colon + 1);
  }
  if (address.host.size() > 1 && address.host.front() == '[')
    address.host = address.host.substr(1, address.host.size() - 2);
  const bool clean = std::all_of(address.path.begin(), address.path.end(),
                                 [](unsigned char c) { return c > 32 && c < 127; });
  if (address.host.empty() || !to_integer(address.port) || !clean)
    throw Error(format("{}: expected http://HOST:PORT/metrics", printable(url)));
  return address;
}

class Connection {
 public:
  Connection(const Address& address, const std::string& url, Clock::time_point deadline)
      : url_(url), deadline_(deadline) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int error = getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found); error != 0)
      throw Error(format("{}: {}", printable(url), gai_strerror(error)));
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
    for (const addrinfo* at = found; at != nullptr; at = at->ai_next)
      if (connect_to(*at)) return;
    throw Error(format("{}: no connection: {}", printable(url), std::strerror(errno)));
  }
  ~Connection() { disconnect(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void send_all(std::string_view bytes) {
    while (!bytes.empty()) {
      wait(POLLOUT);
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (sent <= 0) throw Error(format("{}: the connection broke", printable(url_)));
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }

  std::string receive_all(size_t max_bytes) {
    std::string all;
    char buffer[65536];
    for (;;) {
      wait(POLLIN);
      const ssize_t got = recv(fd_, buffer, sizeof buffer, 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got < 0) throw Error(format("{}: the connection broke", printable(url_)));
      if (got == 0) return all;
      all.append(buffer, static_cast<size_t>(got));
      if (all.size() > max_bytes)
        throw Error(format("{}: the answer is larger than {} bytes", printable(url_), max_bytes));
    }
  }

 private:
  bool connect_to(const addrinfo& to) {
    fd_ = socket(to.ai_family, to.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to.ai_protocol);
    if (fd_ < 0) return false;
    if (connect(fd_, to.ai_addr, to.ai_addrlen) == 0) return true;
    if (errno == EINPROGRESS) {
      wait(POLLOUT);
      int error = 0;
      socklen_t size = sizeof error;
      getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
      if (error == 0) return true;
      errno = error;
    }
    const int why = errno;
    disconnect();
    errno = why;
    return false;
  }
  void wait(short events) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    pollfd waiting{fd_, events, 0};
    if (left <= 0 || poll(&waiting, 1, static_cast<int>(left)) == 0)
      throw Error(format("{}: no answer in time", printable(url_)));
  }
  void disconnect() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  std::string url_;
  Clock::time_point deadline_;
  int fd_ = -1;
};

std::string without_chunks(std::string_view body, const std::string& url) {
  std::string plain;
  for (;;) {
    const size_t end = body.find("\r\n");
    const std::string_view size_text = body.substr(0, std::min(end, body.find(';')));
    const auto size = to_integer("0x" + std::string(trimmed(size_text)));
    if (end == std::string_view::npos || !size || *size < 0 ||
        static_cast<uint64_t>(*size) > body.size() - end - 2)
      throw Error(format("{}: the answer is cut off", printable(url)));
    if (*size == 0) return plain;
    plain.append(body.substr(end + 2, static_cast<size_t>(*size)));
    body.remove_prefix(std::min(body.size(), end + 2 + static_cast<size_t>(*size) + 2));
  }
}

}  // namespace

std::string http_get(const std::string& url, std::chrono::milliseconds limit, size_t max_bytes) {
  const Address address = parse_url(url);
  Connection connection(address, url, Clock::now() + limit);
  connection.send_all(
      format("GET {} HTTP/1.1\r\nHost: {}\r\nAccept: text/plain\r\nUser-Agent: cheetah-doctor\r\nConnection: "
             "close\r\n\r\n",
             address.path, address.host));
  const std::string answer = connection.receive_all(max_bytes);
  const size_t end = answer.find("\r\n\r\n");
  const auto status = words_of(std::string_view(answer).substr(0, answer.find('\r')));
  if (end == std::string::npos || status.size() < 2 || !starts_with(status[0], "HTTP/1"))
    throw Error(format("{}: not an HTTP answer", printable(url)));
  std::string head = answer.substr(0, end);
  if (answer.substr(9, 3) != "200")
    throw Error(format("{}: answered {}", printable(url), printable(answer.substr(9, 3))));
  for (char& c : head) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::string body = answer.substr(end + 4);
  return contains(head, "transfer-encoding: chunked") ? without_chunks(body, url) : body;
}

}  // namespace cheetah::doctor
