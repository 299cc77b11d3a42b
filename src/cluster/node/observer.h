// SPDX-License-Identifier: MIT
#pragma once
// Looks at a cluster from outside: who is in the registry, and what each says of itself over a link.
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/mailbox.h"
#include "base/published.h"
#include "cluster/net/credentials.h"
#include "cluster/net/mesh.h"
#include "cluster/node/knock.h"
#include "cluster/node/order_book.h"
#include "cluster/services/services.h"
#include "cluster/types.h"

namespace cheetah::cluster {

struct SeenWorker {
  WorkerDescriptor descriptor;
  WorkerLoad load;
  bool linked = false;
  Time load_at{};  // Time{}: it has said nothing yet
  Cordon cordon = Cordon::kNone;
  std::optional<Knock> knock{};  // at its address, where it has no link
  Time heard_at{};               // the last message; of a router, which sends no load, the link
  bool introduced = false;       // by its own Hello
};

class Observer {
 public:
  Observer(const ClusterUrl& url, const Credentials& credentials);
  ~Observer();

  // By role and name; an address of the list at which nothing answers is a member that is not linked.
  std::vector<SeenWorker> workers() const;
  ServiceState registry() const { return services_.registry->state(); }
  ServiceState queue() const { return services_.jobs->state(); }
  // "ADDRESS: why", of those that refused this observer or were refused by it.
  std::vector<std::string> refusals() const { return refusals_.copy(); }
  // What operators want, as the members say.
  OrderBook orders() const { return orders_.copy(); }
  // Until the services have answered and every worker of the registry, or at every address of its list, has
  // said something, or the time is up.
  void wait(std::chrono::milliseconds limit) const;

 private:
  struct Change {};
  using Seen = std::map<WorkerId, SeenWorker>;
  void on_registry(const RegistryEvent& event);
  void on_message(WorkerId from, std::string_view bytes);
  bool all_heard() const;
  void changed();  // wakes wait()

  const bool has_queue_;
  std::atomic<bool> synced_ = false;  // the registry has told all it has
  Services services_;
  Published<Seen> seen_;
  Published<std::map<std::string, std::string>> addresses_;  // of a list of peers, and what it says of each
  Published<std::vector<std::string>> refusals_;
  Published<OrderBook> orders_;
  mutable std::atomic<bool> waits_ = false;
  mutable Mailbox<Change> changes_;  // wait() sleeps on it
  std::unique_ptr<Mesh> mesh_;
};

// Whether those without a link are dead or hang: asks at their addresses, each for `limit` at most.
void knock_at_silent(std::vector<SeenWorker>& workers, std::chrono::milliseconds limit);
// "ready", "cordoned", "hung", "dead", …: its state in one word.
std::string_view standing_of(const SeenWorker& worker);
// Every member of the map answers, and one of them decodes.
bool healthy(const std::vector<SeenWorker>& workers);
std::string workers_table(const std::vector<SeenWorker>& workers);
Json workers_json(const std::vector<SeenWorker>& workers);

}  // namespace cheetah::cluster
