// SPDX-License-Identifier: MIT
#pragma once
// A connection to NATS that is made again whenever it breaks, and the thread that maintains what uses it.
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mailbox.h"
#include "base/published.h"
#include "cluster/service.h"

struct __natsConnection;  // natsConnection of <nats/nats.h>, which stays out of headers

namespace cheetah::cluster {

// Any thread may call. A queue and a bus of one process share it.
class NatsLink {
 public:
  // The present connection. It may be replaced by another one: when the server has closed it for good.
  using Connection = std::shared_ptr<__natsConnection>;
  // What is called when: soon after every change of the state, and every 50 ms; on the link's thread. It may
  // wait for the server a little.
  using Maintenance = std::function<void()>;
  enum class MaintenanceId : int64_t {};

  NatsLink(const std::vector<ServiceHost>& hosts, ServiceLogin login, std::string name);
  ~NatsLink();

  Connection connection() const { return connection_.copy(); }  // nullptr: none yet
  ServiceState state() const;
  // Counts up with every connection made: what the server was told before may be forgotten.
  int64_t generation() const;

  MaintenanceId add_maintenance(Maintenance maintenance);
  void remove_maintenance(MaintenanceId id);  // it is not called afterwards

 private:
  struct Told;  // what the library's own threads write
  struct Closure;

  void loop();
  void connect();
  void maintain();

  const std::vector<std::string> urls_;
  const ServiceLogin login_;
  const std::string name_;
  std::shared_ptr<Told> told_;  // with the library's callbacks
  Published<Connection> connection_;
  std::atomic<int64_t> next_maintenance_{1};
  std::map<MaintenanceId, Maintenance> maintenance_;  // the thread's own
  Mailbox<std::function<void()>> inbox_;
  std::jthread thread_;  // last: ends before the rest
};

}  // namespace cheetah::cluster
