#pragma once
// For tests: a registry of each kind, with the hand that breaks it.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "cluster/registry/registry.h"

namespace cheetah::cluster {

// One cluster, empty at first. A node is one process of it.
class RegistryWorld {
 public:
  virtual ~RegistryWorld() = default;
  virtual std::unique_ptr<Registry> join() = 0;
  virtual void stop_service() = 0;  // kill -9
  virtual void start_service() = 0;
  virtual void cut_off(Registry& node) = 0;  // the node alone, for longer than its lease
  virtual void reconnect(Registry& node) = 0;
};

using MakeRegistryWorld = std::unique_ptr<RegistryWorld> (*)();

struct RegistryKind {
  const char* name;
  MakeRegistryWorld make;  // nullptr from it: the service is not installed
};

std::unique_ptr<RegistryWorld> in_process_registry_world();
std::unique_ptr<RegistryWorld> etcd_registry_world();

}  // namespace cheetah::cluster
