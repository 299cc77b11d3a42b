// SPDX-License-Identifier: MIT
#include "cluster/services/service_fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <list>

#include "base/error.h"
#include "base/format.h"
#include "base/free_port.h"
#include "base/run_tool.h"

namespace cheetah::cluster {
namespace {

constexpr int kMostStarts = 5;  // another process may take a port between our look and the service's

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int listening_socket(uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const sockaddr_in address = loopback(port);
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket, 64) != 0) {
    ::close(socket);
    throw Error(format("cannot listen on port {}", port));
  }
  return socket;
}

uint16_t port_of(int socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

int connected_socket(uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return socket;
  ::close(socket);
  return -1;
}

const char* program_of(ServiceProcess::Kind kind) {
  return kind == ServiceProcess::Kind::kEtcd ? "etcd" : "nats-server";
}

}  // namespace

ServiceProcess::ServiceProcess(Kind kind, ServerTls tls) : kind_(kind), tls_(std::move(tls)) {
  for (int i = 0; i < kMostStarts; ++i) {
    port_ = free_port();
    second_port_ = free_port();
    if (try_start()) return;
  }
  throw Error(format("{} did not start {} times", program_of(kind), kMostStarts));
}

ServiceProcess::~ServiceProcess() { kill_hard(); }

bool ServiceProcess::is_installed(Kind kind) {
  return run_tool({program_of(kind), "--version"}, {.time = std::chrono::seconds(20)}).started;
}

std::vector<std::string> ServiceProcess::arguments() const {
  const bool secure = !tls_.certificate.empty();
  const std::string data = folder_.path("data");
  if (kind_ == Kind::kNats) {
    std::vector<std::string> words = {
        program_of(kind_), "-a", "127.0.0.1", "-p", std::to_string(port_), "-js", "-sd", data};
    if (secure)
      for (const std::string& word : {std::string("--tlsverify"), "--tlscert=" + tls_.certificate,
               "--tlskey=" + tls_.key, "--tlscacert=" + tls_.certificate})
        words.push_back(word);
    return words;
  }
  const std::string client = format("{}://127.0.0.1:{}", secure ? "https" : "http", port_);
  const std::string peer = format("http://127.0.0.1:{}", second_port_);
  std::vector<std::string> words = {program_of(kind_), "--data-dir=" + data, "--listen-client-urls=" + client,
      "--advertise-client-urls=" + client, "--listen-peer-urls=" + peer,
      "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
      "--heartbeat-interval=20",  // alone, it elects itself after the time-out: short starts the tests sooner
      "--election-timeout=200"};
  if (secure)
    for (const std::string& word : {std::string("--client-cert-auth"), "--cert-file=" + tls_.certificate,
             "--key-file=" + tls_.key, "--trusted-ca-file=" + tls_.certificate})
      words.push_back(word);
  return words;
}

bool ServiceProcess::try_start() {
  const std::vector<std::string> words = arguments();
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const std::string log = folder_.path("log");
  const int parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(out, 1), ::dup2(out, 2);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  for (const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
       std::chrono::steady_clock::now() < deadline;
       std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      return false;
    }
    if (answers()) return true;
  }
  kill_hard();
  return false;
}

// A port that is open is enough: the user of the service must cope with one that is not ready.
bool ServiceProcess::answers() const {
  const int socket = connected_socket(port_);
  if (socket >= 0) ::close(socket);
  return socket >= 0;
}

void ServiceProcess::kill_hard() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void ServiceProcess::start() {
  for (int i = 0; i < kMostStarts; ++i)
    if (try_start()) return;
  throw Error(format("{} did not start again", program_of(kind_)));
}

void ServiceProcess::pause(bool paused) { ::kill(pid_, paused ? SIGSTOP : SIGCONT); }

void ServiceProcess::wipe() { std::filesystem::remove_all(folder_.path("data")); }

struct CuttableLink::State {
  struct Pair {
    int client = -1, service = -1;
  };

  uint16_t to_port = 0, port = 0;
  int listener = -1;
  std::atomic<bool> is_cut{false}, is_stalled{false};
  std::list<Pair> pairs;
  std::jthread thread;  // last: ends before the rest

  static bool pass_on(int from, int to) {
    char bytes[16384];
    const ssize_t got = ::recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    for (ssize_t sent = 0; sent < got;) {
      const ssize_t now = ::send(to, bytes + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
      if (now <= 0) return false;
      sent += now;
    }
    return got > 0;
  }
  static void close_pair(const Pair& pair) {
    ::close(pair.client);
    ::close(pair.service);
  }
  void accept_one() {
    const int client = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    const int service = is_cut ? -1 : connected_socket(to_port);
    if (service < 0)
      ::close(client);
    else
      pairs.push_back({client, service});
  }
  void turn() {
    std::vector<pollfd> polled{{listener, POLLIN, 0}};
    if (!is_stalled)
      for (const Pair& pair : pairs) {
        polled.push_back({pair.client, POLLIN, 0});
        polled.push_back({pair.service, POLLIN, 0});
      }
    ::poll(polled.data(), polled.size(), 5);
    if (is_cut) {
      for (const Pair& pair : pairs) close_pair(pair);
      pairs.clear();
    } else if (!is_stalled) {
      std::erase_if(pairs, [](const Pair& pair) {
        const bool alive = pass_on(pair.client, pair.service) && pass_on(pair.service, pair.client);
        if (!alive) close_pair(pair);
        return !alive;
      });
    }
    accept_one();
  }
};

CuttableLink::CuttableLink(uint16_t to_port) : state_(std::make_unique<State>()) {
  state_->to_port = to_port;
  state_->listener = listening_socket(0);
  state_->port = port_of(state_->listener);
  state_->thread = std::jthread([state = state_.get()](std::stop_token stop) {
    while (!stop.stop_requested()) state->turn();
    for (const auto& pair : state->pairs) State::close_pair(pair);
    ::close(state->listener);
  });
}

CuttableLink::~CuttableLink() = default;
uint16_t CuttableLink::port() const { return state_->port; }
void CuttableLink::cut() { state_->is_cut = true; }
void CuttableLink::mend() { state_->is_cut = false; }
void CuttableLink::stall(bool stalled) { state_->is_stalled = stalled; }

}  // namespace cheetah::cluster
