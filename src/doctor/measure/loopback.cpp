// SPDX-License-Identifier: MIT
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "base/statistics.h"
#include "doctor/measure.h"
#include "doctor/measure/timing.h"

namespace cheetah::doctor {
namespace {

constexpr double kSeconds = 0.3;

struct Pair {
  int client = -1, server = -1;
  ~Pair() {
    if (client >= 0) close(client);
    if (server >= 0) close(server);
  }
};

// Two ends of a TCP connection on 127.0.0.1; false when the machine has no loopback.
bool connect_pair(Pair& pair) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return false;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  bool ok = bind(listener, generic, size) == 0 && listen(listener, 1) == 0 &&
            getsockname(listener, generic, &size) == 0;
  pair.client = ok ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
  ok = ok && pair.client >= 0 && connect(pair.client, generic, size) == 0;
  if (ok) pair.server = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  close(listener);
  const int on = 1;
  const timeval limit{2, 0};
  for (const int fd : {pair.client, pair.server}) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }
  return ok && pair.server >= 0;
}

double stream_rate(const Pair& pair) {
  std::thread reader([&] {
    std::vector<char> buffer(size_t{1} << 20);
    while (recv(pair.server, buffer.data(), buffer.size(), 0) > 0) {
    }
  });
  const std::vector<char> buffer(size_t{1} << 20, 'x');
  double sent = 0;
  const auto begin = MeasureClock::now();
  while (seconds_since(begin) < kSeconds) {
    const ssize_t wrote = send(pair.client, buffer.data(), buffer.size(), MSG_NOSIGNAL);
    if (wrote <= 0) break;
    sent += static_cast<double>(wrote);
  }
  const double rate = sent / seconds_since(begin);
  shutdown(pair.client, SHUT_RDWR);
  reader.join();
  return rate;
}

std::vector<double> round_trips_us(const Pair& pair) {
  std::thread echo([&] {
    char byte = 0;
    while (recv(pair.server, &byte, 1, 0) == 1)
      if (send(pair.server, &byte, 1, MSG_NOSIGNAL) != 1) return;
  });
  std::vector<double> times;
  char byte = 'x';
  const auto begin = MeasureClock::now();
  while (seconds_since(begin) < 0.2) {
    const auto start = MeasureClock::now();
    if (send(pair.client, &byte, 1, MSG_NOSIGNAL) != 1 || recv(pair.client, &byte, 1, 0) != 1) break;
    times.push_back(seconds_since(start) * 1e6);
  }
  shutdown(pair.client, SHUT_RDWR);
  echo.join();
  return times;
}

}  // namespace

void measure_loopback(Results& results) {
  Pair stream, echo;
  if (!connect_pair(stream) || !connect_pair(echo))
    return results.skip("loopback.stream", "no loopback connection could be made");
  results.add("loopback.stream", stream_rate(stream));
  const auto times = round_trips_us(echo);
  results.add("loopback.round_trip_us.p50", quantile(times, 0.5));
  results.add("loopback.round_trip_us.p99", quantile(times, 0.99));
}

}  // namespace cheetah::doctor
