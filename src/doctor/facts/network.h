// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "doctor/value.h"

namespace cheetah::doctor {

struct Nic {
  std::string name;
  Value<std::string> state, duplex;
  Value<int64_t> speed_mbps, mtu;
  std::string driver, pci;
  int64_t type = 1;          // as in if_arp.h: 1 Ethernet, 32 InfiniBand
  bool is_function = false;  // a virtual function: the host decides
  bool is_virtual = false, is_wireless = false;
  std::vector<std::string> subnets;  // "10.0.1.0/24"
  Value<bool> ecn;                   // congestion control of RoCE answers marks
  bool is_ib() const { return type == 32; }

  bool is_up() const { return state.is("up"); }
  // Fast enough to carry collectives or data: what the network checks are about.
  bool is_fast() const { return !is_virtual && is_up() && speed_mbps.value_or(0) >= 25000; }
};

struct RdmaPort {
  std::string device, port;
  Value<std::string> state, physical_state, rate, link_layer;
  std::vector<std::string> gids, gid_types;  // of the entries that are set
  std::string pci;
  std::string firmware, board;
  bool is_ethernet() const { return link_layer.is("Ethernet"); }
};

struct NetworkFacts {
  Value<std::vector<Nic>> nics;
  Value<std::vector<RdmaPort>> rdma;
  Value<std::vector<int64_t>> tcp_rmem, tcp_wmem, port_range;
  Value<int64_t> rmem_max, wmem_max, somaxconn, backlog;
  Value<std::string> congestion_control;
  Value<int64_t> time_wait;

  std::vector<const Nic*> fast_nics() const;
  bool has_rdma() const { return rdma && !rdma->empty(); }
};

NetworkFacts collect_network(const Source& source);

}  // namespace cheetah::doctor
