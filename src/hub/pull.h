// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "hub/cache.h"
#include "hub/hub_settings.h"

namespace cheetah::hub {

struct PullOptions {
  int jobs = 4;  // files at once
};

struct PullPlan {
  Repository repository;
  std::vector<RepositoryFile> files{};
  int64_t bytes = 0;    // of all files
  int64_t missing = 0;  // still to come
};

struct PullWatch {
  std::function<bool()> stop;                   // ends the download, which can go on later
  std::function<void(const PullPlan&)> begins;  // what will be downloaded
  std::function<void(int64_t bytes)> advances;  // on the calling thread; negative: bytes thrown away
};

// Downloads the model that the reference names, several files at once, checks every one and then shows them in the cache.
// All or nothing; what has come of an interrupted one is used by the next. Throws Error.
PullPlan pull(const HubSettings& settings, const HubReference& reference, const PullOptions& options,
    const PullWatch& watch);

}  // namespace cheetah::hub
