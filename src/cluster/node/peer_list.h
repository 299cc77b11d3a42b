// SPDX-License-Identifier: MIT
#pragma once
// A list of peers that changes while a node runs: whose line was taken off it finishes what it has and gets
// nothing new, also where it dials back by itself or is started again.
#include <map>
#include <string>
#include <string_view>

#include "cluster/node/registry_keys.h"
#include "cluster/types.h"

namespace cheetah::cluster {

class PeerList {
 public:
  // A line of the list, as the registry has it: "peers/HOST:PORT" and "ROLE NAME".
  void put(const std::string& key, const std::string& value) {
    taken_off_.erase(key);
    listed_[key] = name_in(value);
  }
  void remove(const std::string& key, const std::string& value) {
    listed_.erase(key);
    taken_off_[key] = name_in(value);
  }
  // By its address or, behind a proxy, by its name. One that stands in another line too is still listed.
  bool taken_off(const WorkerDescriptor& worker) const {
    return in(taken_off_, worker) && !in(listed_, worker);
  }
  // Whether this line is the worker's.
  bool lists(const std::string& key, const WorkerDescriptor& worker) const {
    const auto line = listed_.find(key);
    return line != listed_.end() && is(*line, worker);
  }

 private:
  using Lines = std::map<std::string, std::string>;  // key: name

  static std::string name_in(std::string_view value) {
    const size_t space = value.find(' ');
    return std::string(space == std::string_view::npos ? value : value.substr(space + 1));
  }
  static bool in(const Lines& lines, const WorkerDescriptor& worker) {
    for (const auto& line : lines)
      if (is(line, worker)) return true;
    return false;
  }
  static bool is(const Lines::value_type& line, const WorkerDescriptor& worker) {
    const auto address = peer_address(line.first);
    if (address && address->host == worker.host && address->port == worker.port) return true;
    return !worker.name.empty() && line.second == worker.name;
  }

  Lines listed_, taken_off_;
};

}  // namespace cheetah::cluster
