#include "cluster/registry/registry_worlds.h"

#include "cluster/registry/in_process_registry.h"

namespace cheetah::cluster {
namespace {

class InProcessWorld final : public RegistryWorld {
 public:
  std::unique_ptr<Registry> join() override { return std::make_unique<InProcessRegistry>(store_); }
  void stop_service() override { store_->set_up(false); }
  void start_service() override { store_->set_up(true); }
  void cut_off(Registry& node) override { dynamic_cast<InProcessRegistry&>(node).cut_off(); }
  void reconnect(Registry& node) override { dynamic_cast<InProcessRegistry&>(node).reconnect(); }

 private:
  std::shared_ptr<RegistryStore> store_ = std::make_shared<RegistryStore>(std::chrono::milliseconds(300));
};

}  // namespace

std::unique_ptr<RegistryWorld> in_process_registry_world() { return std::make_unique<InProcessWorld>(); }

}  // namespace cheetah::cluster
