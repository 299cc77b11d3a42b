// SPDX-License-Identifier: MIT
#pragma once
// The KV pages of a simulated process: memory that others write to, and its own writes to theirs.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cluster/core/worker_ports.h"
#include "testing/cluster/simulation.h"

namespace cheetah::cluster::simulation {

class SimCluster;
class SimNode;

class SimPages {
 public:
  SimPages(SimCluster& cluster, SimNode& node);

  // Receiving.
  void execute(const LookUpCache& output);
  void execute(const ReserveSpace& output);
  void execute(const ImportSlab& output);
  void execute(const Quarantine& output);
  void execute(const FenceReservation& output);
  void execute(const FreeReservation& output);
  // Sending.
  void execute(const StartExport& output);
  void execute(const ReleaseExport& output);
  void execute(const PostSlab& output);
  void execute(const FenceWrites& output);

  // Called by the writing side: the bytes reach this process's memory, whatever the process does.
  enum class Landing { kLanded, kRefused };
  Landing land(WorkerId writer, ReservationId reservation, int64_t first_token, std::vector<uint64_t> pages);

  std::string what_is_left() const;  // empty: nothing

 private:
  struct Memory {
    int64_t first_token = 0;
    std::vector<uint64_t> pages;
    bool quarantined = false;
  };
  struct Write {
    RequestKey key;
    PostSlab slab;
  };
  void finish_import(const ImportSlab& output);

  SimCluster& cluster_;
  Simulation& simulation_;
  SimNode& node_;
  std::map<ReservationId, Memory> memory_;
  std::set<ReservationId> fenced_;
  uint64_t next_reservation_ = 1, next_write_ = 1;
  std::map<uint64_t, Write> writes_;  // of ours, not answered
  std::map<RequestKey, std::vector<uint64_t>> export_names_;
};

}  // namespace cheetah::cluster::simulation
