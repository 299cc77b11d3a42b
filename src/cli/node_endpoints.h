// SPDX-License-Identifier: MIT
#pragma once
// A node of a cluster as the endpoint picker asks it: hosts of workers become "ip:port".
#include "cluster/node/node.h"
#include "serve/picker/endpoint_picker.h"

namespace cheetah {

class NodeEndpoints final : public EndpointSource {
 public:
  // `node` outlives it. `port`: at which workers take requests.
  NodeEndpoints(cluster::Node& node, uint16_t port) : node_(node), port_(port) {}

  void choose(EndpointQuestion question, std::function<void(EndpointAnswer)> tell) override;
  void used(const EndpointUse& use) override;
  bool ready() const override { return node_.status().num_decoders() > 0; }

 private:
  std::string endpoint_of(const std::string& host) const;
  // Of the endpoints that are at the workers' port.
  std::vector<std::string> hosts_of(const std::vector<std::string>& endpoints) const;

  cluster::Node& node_;
  const uint16_t port_;
};

}  // namespace cheetah
