// SPDX-License-Identifier: MIT
#include "cluster/registry/registry_backends.h"

#include <map>

#include "base/format.h"
#include "cluster/registry/in_process_registry.h"

namespace cheetah::cluster {
namespace {

class InProcessCluster final : public RegistryBackend {
 public:
  std::unique_ptr<Registry> join() override { return std::make_unique<InProcessRegistry>(store_); }
  std::unique_ptr<Registry> join_cuttable() override { return join(); }
  void stop_service() override { store_->set_up(false); }
  void start_service() override { store_->set_up(true); }
  void cut_off(Registry& node) override { dynamic_cast<InProcessRegistry&>(node).cut_off(); }
  void reconnect(Registry& node) override { dynamic_cast<InProcessRegistry&>(node).reconnect(); }

 private:
  std::shared_ptr<RegistryStore> store_ = std::make_shared<RegistryStore>(std::chrono::milliseconds(300));
};

// All backends share one server and have a cluster each.
class EtcdBackend final : public RegistryBackend {
 public:
  explicit EtcdBackend(std::string cluster) : cluster_(std::move(cluster)) {}

  std::unique_ptr<Registry> join() override {
    return std::make_unique<EtcdRegistry>(etcd_config(cluster_, shared_etcd().port()));
  }
  std::unique_ptr<Registry> join_cuttable() override {
    auto link = std::make_unique<CuttableLink>(shared_etcd().port());
    EtcdConfig config = etcd_config(cluster_, link->port());
    config.lease_s = 2;
    auto node = std::make_unique<EtcdRegistry>(config);
    links_[node.get()] = std::move(link);
    return node;
  }
  void stop_service() override { shared_etcd().kill_hard(); }
  void start_service() override { shared_etcd().start(); }
  void cut_off(Registry& node) override { links_.at(&node)->cut(); }
  void reconnect(Registry& node) override { links_.at(&node)->mend(); }

 private:
  const std::string cluster_;
  std::map<Registry*, std::unique_ptr<CuttableLink>> links_;
};

}  // namespace

ServiceProcess& shared_etcd() {
  static ServiceProcess server(ServiceProcess::Kind::kEtcd);
  return server;
}

EtcdConfig etcd_config(const std::string& cluster, uint16_t port) {
  EtcdConfig config;
  config.hosts = {{"127.0.0.1", port}};
  config.cluster = cluster;
  config.request_limit = std::chrono::seconds(10);  // a loaded machine writes slowly
  return config;
}

std::unique_ptr<RegistryBackend> etcd_registry_backend() {
  static int backends = 0;
  if (!ServiceProcess::is_installed(ServiceProcess::Kind::kEtcd)) return nullptr;
  return std::make_unique<EtcdBackend>(format("backend{}", ++backends));
}

std::unique_ptr<RegistryBackend> in_process_registry_backend() {
  return std::make_unique<InProcessCluster>();
}

}  // namespace cheetah::cluster
