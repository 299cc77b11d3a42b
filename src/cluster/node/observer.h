#pragma once
// Looks at a cluster from outside: who is in the registry, and what each says of itself over a link.
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/published.h"
#include "cluster/net/identity.h"
#include "cluster/net/mesh.h"
#include "cluster/registry/services.h"
#include "cluster/types.h"

namespace cheetah::cluster {

struct SeenWorker {
  WorkerDescriptor descriptor;
  WorkerLoad load;
  bool linked = false;
  Time load_at{};  // Time{}: it has said nothing yet
};

class Observer {
 public:
  Observer(const ClusterUrl& url, const Credentials& credentials);
  ~Observer();

  std::vector<SeenWorker> workers() const;  // by role and name
  ServiceState registry() const { return services_.registry->state(); }
  ServiceState queue() const { return services_.jobs->state(); }
  // "ADDRESS: why", of those that refused this observer or were refused by it.
  std::vector<std::string> refusals() const { return refusals_.copy(); }
  // Until the services have answered and every worker of the registry, or at every address of its list, has
  // said something, or the time is up.
  void wait(std::chrono::milliseconds limit) const;

 private:
  using Seen = std::map<WorkerId, SeenWorker>;
  void on_registry(const RegistryEvent& event);
  void on_message(WorkerId from, std::string_view bytes);
  bool all_heard() const;

  const bool has_queue_;
  std::atomic<bool> synced_ = false;  // the registry has told all it has
  Services services_;
  Published<Seen> seen_;
  Published<std::set<std::string>> addresses_;  // where somebody should be
  Published<std::vector<std::string>> refusals_;
  std::unique_ptr<Mesh> mesh_;
};

std::string workers_table(const std::vector<SeenWorker>& workers);
Json workers_json(const std::vector<SeenWorker>& workers);

}  // namespace cheetah::cluster
