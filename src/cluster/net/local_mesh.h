// SPDX-License-Identifier: MIT
#pragma once
// A network inside one process: the same links without sockets, for a cluster of threads.
#include <memory>

#include "cluster/net/mesh.h"

namespace cheetah::cluster {

// One thread delivers everything, so what one worker sends another arrives in order.
class LocalNetwork {
 public:
  LocalNetwork();
  ~LocalNetwork();  // its meshes may live on: they then reach no peer

  // An id joins once at a time.
  std::unique_ptr<Mesh> join(WorkerId self);
  // Breaks the link between two workers and keeps it from being made until heal().
  void cut(WorkerId a, WorkerId b);
  void heal(WorkerId a, WorkerId b);

 private:
  class Delivery;
  std::shared_ptr<Delivery> delivery_;  // shared with the meshes
  friend class LocalMesh;
};

}  // namespace cheetah::cluster
