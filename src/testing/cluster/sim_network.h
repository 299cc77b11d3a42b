// SPDX-License-Identifier: MIT
#pragma once
// Links between the processes of a simulation: they break, come back, and lose, repeat and delay messages.
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "cluster/wire/message.h"
#include "testing/cluster/simulation.h"

namespace cheetah::cluster::simulation {

class SimCluster;

class SimNetwork {
 public:
  // `through_codec`: messages are encoded and decoded on their way.
  SimNetwork(SimCluster& cluster, bool through_codec);

  void send(WorkerId from, WorkerId to, const Message& message);
  void link_up(WorkerId a, WorkerId b);
  void link_down(WorkerId a, WorkerId b);
  void link_later(WorkerId a, WorkerId b, Duration delay);
  void cut(WorkerId a, WorkerId b);  // down until mend()
  void mend(WorkerId a, WorkerId b);
  void go_deaf(WorkerId a, WorkerId b);  // one way, and neither end is told
  void heal(WorkerId a, WorkerId b, Duration delay);
  void process_died(WorkerId id);  // its peers hear of it

 private:
  struct Link {
    bool up = false, wanted = true;
    uint64_t life = 0;
    Time told{};                    // when both ends know that it is down
    bool deaf[2] = {false, false};  // one way is cut
    Time last[2] = {};
  };
  Link& link(WorkerId a, WorkerId b);
  std::optional<Message> on_the_wire(WorkerId from, WorkerId to, const Message& message);
  void deliver(WorkerId from, WorkerId to, const Message& message, Duration delay);

  SimCluster& cluster_;
  Simulation& simulation_;
  const bool through_codec_;
  std::map<std::pair<WorkerId, WorkerId>, Link> links_;
};

}  // namespace cheetah::cluster::simulation
