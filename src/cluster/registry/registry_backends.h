// SPDX-License-Identifier: MIT
#pragma once
// For tests: a registry of each kind, with the hand that breaks it.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "cluster/registry/etcd_registry.h"
#include "cluster/registry/registry.h"
#include "cluster/services/service_fixture.h"

namespace cheetah::cluster {

// One cluster, empty at first. A node is one process of it.
class RegistryBackend {
 public:
  virtual ~RegistryBackend() = default;
  virtual std::unique_ptr<Registry> join() = 0;
  virtual std::unique_ptr<Registry> join_cuttable() = 0;  // with a short lease
  virtual void stop_service() = 0;                        // kill -9
  virtual void start_service() = 0;
  virtual void cut_off(Registry& node) = 0;  // a cuttable one alone, until its lease has run out
  virtual void reconnect(Registry& node) = 0;
};

using MakeRegistryBackend = std::unique_ptr<RegistryBackend> (*)();

struct RegistryKind {
  const char* name;
  MakeRegistryBackend make;  // nullptr from it: the service is not installed
};

std::unique_ptr<RegistryBackend> in_process_registry_backend();
std::unique_ptr<RegistryBackend> etcd_registry_backend();

// One server for all tests of this program, and how a node reaches it.
ServiceProcess& shared_etcd();
EtcdConfig etcd_config(const std::string& cluster, uint16_t port);

}  // namespace cheetah::cluster
