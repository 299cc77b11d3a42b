// SPDX-License-Identifier: MIT
#include "cluster/transfer/bench_transfer.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "cluster/transfer/heap_arena.h"
#include "cluster/transfer/shared_arena.h"

namespace cheetah::cluster {
namespace {

using transfer::throw_system_error;

constexpr WorkerId kReceiver{1}, kSender{2};
constexpr int64_t kSlots = 4;
constexpr Duration kLimit = std::chrono::seconds(60);

struct Pipe {
  UniqueFd read, write;
};
Pipe make_pipe() {
  std::array<int, 2> ends;
  if (::pipe(ends.data()) != 0) throw_system_error("pipe");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void write_all(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(fd, at, bytes);
    if (written <= 0) throw_system_error("write");
    at += written;
    bytes -= static_cast<size_t>(written);
  }
}
void read_all(int fd, void* data, size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::read(fd, at, bytes);
    if (got <= 0) throw Error("transfer bench: the receiver ended early");
    at += got;
    bytes -= static_cast<size_t>(got);
  }
}
void write_text(int fd, const std::string& text) {
  const auto size = static_cast<uint32_t>(text.size());
  write_all(fd, &size, sizeof size);
  write_all(fd, text.data(), size);
}
std::string read_text(int fd) {
  uint32_t size = 0;
  read_all(fd, &size, sizeof size);
  std::string text(size, '\0');
  read_all(fd, text.data(), size);
  return text;
}

TransferConfig bench_config(
    TransferBackend backend, WorkerId self, int64_t message_bytes, const std::string& tls) {
  TransferConfig config;
  config.backend = backend;
  config.self = self;
  config.credentials = shared_secret("bench");
  config.slot_bytes = message_bytes;
  config.num_slots = kSlots;
  config.ucx_transports = tls;
  return config;
}

Time later() { return std::chrono::steady_clock::now() + kLimit; }

// The other process: always has a slot on offer, until the sender closes its pipe by leaving.
void receive_all(const TransferConfig& config, int to_sender, int64_t count) {
  const auto agent = make_transfer_agent(config);
  write_text(to_sender, agent->describe());
  int64_t offered = 0, arrived = 0;
  const auto offer = [&] {
    if (offered == count) return;
    const auto reserved = agent->reserve({RequestUid{1}, Attempt{1}}, 1, later());
    if (!reserved) throw Error("transfer bench: no free slot");
    write_text(to_sender, reserved->ticket);
    ++offered;
  };
  for (int64_t i = 0; i < kSlots; ++i) offer();
  std::vector<TransferEvent> events;
  for (const Time limit = later(); arrived < count || std::chrono::steady_clock::now() < limit;) {
    agent->wait_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
    events.clear();
    agent->poll(std::chrono::steady_clock::now(), events);
    for (const TransferEvent& event : events) {
      if (std::holds_alternative<TransferPeerDown>(event)) return;
      const auto* slab = std::get_if<SlabArrived>(&event);
      if (!slab) continue;
      ++arrived;
      agent->release(slab->reservation);
      offer();
    }
  }
}

double send_all(const TransferConfig& config, int from_receiver, int64_t warmup, int64_t count) {
  const transfer::HugeBuffer memory(config.slot_bytes);
  const std::span message(memory.data(), static_cast<size_t>(config.slot_bytes));
  for (size_t i = 0; i < message.size(); ++i) message[i] = static_cast<std::byte>(i * 2654435761u >> 24);
  const auto agent = make_transfer_agent(config);
  agent->register_memory(message, MemoryKind::kHost);
  agent->add_peer(kReceiver, read_text(from_receiver));
  std::vector<TransferEvent> events;
  int64_t sent = 0, done = 0;
  Time begin{};
  const Time limit = later();
  const auto send_one = [&] {
    if (sent == warmup + count) return;
    const std::string ticket = read_text(from_receiver);
    agent->push({.to = kReceiver, .ticket = ticket, .pieces = {message}});
    ++sent;
  };
  for (int64_t i = 0; i < kSlots; ++i) send_one();
  while (done < warmup + count) {
    const Time now = std::chrono::steady_clock::now();
    if (now >= limit) throw Error("transfer bench: took longer than a minute");
    agent->wait_until(now + std::chrono::milliseconds(100));
    events.clear();
    agent->poll(now, events);
    for (const TransferEvent& event : events) {
      const auto* ended = std::get_if<PushDone>(&event);
      if (!ended) continue;
      if (!ended->done) throw Error(ended->why);
      if (++done == warmup) begin = std::chrono::steady_clock::now();
      send_one();
    }
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

TransferBenchResult bench_transfer(
    TransferBackend backend, int64_t message_bytes, int64_t count, const std::string& ucx_transports) {
  if (backend == TransferBackend::kInProcess)
    throw Error("transfer bench: measures two processes, expected shm, tcp or ucx");
  if (message_bytes < 1 || count < 1)
    throw Error("transfer bench: expected at least one message of one byte");
  const int64_t warmup = std::max<int64_t>(2 * kSlots, count / 10);
  Pipe pipe = make_pipe();
  const pid_t child = ::fork();
  if (child < 0) throw_system_error("fork");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    pipe.read = {};
    int code = 0;
    try {
      receive_all(
          bench_config(backend, kReceiver, message_bytes, ucx_transports), pipe.write.get(), warmup + count);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      code = 1;
    }
    ::_exit(code);
  }
  pipe.write = {};
  const auto reap = [child] {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  };
  try {
    const double seconds = send_all(
        bench_config(backend, kSender, message_bytes, ucx_transports), pipe.read.get(), warmup, count);
    reap();
    return {message_bytes, count, seconds};
  } catch (...) {
    reap();
    throw;
  }
}

}  // namespace cheetah::cluster
