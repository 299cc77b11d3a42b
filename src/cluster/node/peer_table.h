// SPDX-License-Identifier: MIT
#pragma once
// Which workers this one keeps links to. One thread.
#include <map>
#include <optional>
#include <string>

#include "cluster/net/mesh.h"
#include "cluster/node/peer_list.h"
#include "cluster/types.h"

namespace cheetah::cluster {

struct KnownPeer {
  WorkerDescriptor descriptor{};
  bool registered = false;
  bool linked = false;
  bool wanted = false;  // a link to it
};

// A link is kept while there is a use for it and the registry has the peer; one that is open when the peer's
// lease ends is kept until it breaks. An id is one life of a process, so one that is gone does not come back.
class PeerTable {
 public:
  // `takes_clients`: it sends requests to decode workers.
  PeerTable(Mesh& mesh, WorkerId self, Role role, bool takes_clients);

  void put(const WorkerDescriptor& descriptor);
  void heard(const WorkerDescriptor& descriptor);  // over a link; the registry may not have it
  void gone(WorkerId peer);
  void up(WorkerId peer);
  void down(WorkerId peer);
  void set_role(Role role);

  const KnownPeer* find(WorkerId peer) const;
  const std::map<WorkerId, KnownPeer>& peers() const { return peers_; }
  std::string name_of(WorkerId peer) const;  // for people
  // Cores know workers by their ids only: one at the end becomes a name.
  std::string with_names(const std::string& what) const;
  PeerList& list() { return list_; }  // where there is one

 private:
  bool useful(const WorkerDescriptor& descriptor) const;
  void update(WorkerId id);

  Mesh& mesh_;
  WorkerId self_;
  Role role_;
  bool takes_clients_;
  std::map<WorkerId, KnownPeer> peers_;
  PeerList list_;
};

}  // namespace cheetah::cluster
