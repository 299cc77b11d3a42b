// SPDX-License-Identifier: MIT
#pragma once
// For tests: real services, started on free ports in folders of their own, killed and started again.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/temp_dir.h"

namespace cheetah::cluster {

// True as soon as `holds` is; false after 30 seconds, more than any loaded machine needs.
inline bool eventually(
    const std::function<bool()>& holds, std::chrono::milliseconds limit = std::chrono::seconds(30)) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}
// PEM files of a server that speaks TLS and asks its clients for the same certificate.
struct ServerTls {
  std::string certificate, key;
};

// One etcd or NATS server. Dies with the thread that starts it, however that ends: start it from the main
// one.
class ServiceProcess {
 public:
  enum class Kind : uint8_t { kEtcd, kNats };

  explicit ServiceProcess(Kind kind, ServerTls tls = {});  // started; throws Error when it does not come up
  ~ServiceProcess();
  ServiceProcess(const ServiceProcess&) = delete;
  ServiceProcess& operator=(const ServiceProcess&) = delete;

  static bool is_installed(Kind kind);
  uint16_t port() const { return port_; }
  void kill_hard();         // kill -9, and waits until it is gone
  void start();             // again: same port, same folder
  void pause(bool paused);  // SIGSTOP, SIGCONT
  void wipe();              // what it has stored; while it is dead

 private:
  bool try_start();
  std::vector<std::string> arguments() const;
  bool answers() const;

  Kind kind_;
  ServerTls tls_;
  TempDir folder_;
  uint16_t port_ = 0, second_port_ = 0;
  int pid_ = -1;
};

// Stands between a client and a service on the loopback, and can be cut.
class CuttableLink {
 public:
  explicit CuttableLink(uint16_t to_port);
  ~CuttableLink();
  uint16_t port() const;
  void cut();  // breaks what is open and refuses what comes
  void mend();
  void stall(bool stalled);  // accepts and keeps open, passes nothing on

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah::cluster
