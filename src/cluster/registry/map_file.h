// SPDX-License-Identifier: MIT
#pragma once
// The last known map of a cluster in a file, for processes that start while the registry is away. What it says are
// hints, as the registry's own words are: the node reached at an address proves itself over its link.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/mailbox.h"
#include "cluster/registry/registry.h"

namespace cheetah::cluster {

// Workers and configuration alone: seats are owned by processes. An older file or one of another cluster says nothing.
inline constexpr int64_t kMapFileSeconds = 24 * 3600;
std::string map_file_text(const Registry::Entries& entries, const std::string& cluster, int64_t now_s);
// Nothing where there is no file, or none that can be understood.
Registry::Entries read_map_file(const std::string& path, const std::string& cluster, int64_t now_s);

// Writes what a registry says, soon after each change and now and then without one.
class MapFileWriter {
 public:
  // `entries` is asked on the writer's thread: nothing is written for nullopt, while the registry is away.
  // A folder that takes no file is no reason to stop.
  MapFileWriter(
      std::string path, std::string cluster, std::function<std::optional<Registry::Entries>()> entries);
  ~MapFileWriter();
  void changed() { changes_.post(0); }

 private:
  void loop();
  void write(const Registry::Entries& entries);

  const std::string path_, cluster_;
  const std::function<std::optional<Registry::Entries>()> entries_;
  Mailbox<char> changes_;
  std::jthread thread_;  // last: ends before the rest
};

}  // namespace cheetah::cluster
