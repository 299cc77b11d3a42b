// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hub/http_fetch.h"

namespace cheetah::hub {

struct RepositoryFile {
  std::string path;  // inside the repository: relative, plain
  int64_t bytes = 0;
  std::string etag;  // of its content, see Digest
};

// A repository at one revision.
struct Repository {
  std::string name;    // ORG/NAME
  std::string commit;  // 40 hexadecimal digits
  std::vector<RepositoryFile> files;
};

// From the hub's answer to /api/models/NAME/revision/REVISION?blobs=true, of which nothing is believed: files whose path
// leads elsewhere, without a size or a checksum are left out. Throws Error when it is no such answer.
Repository read_repository(const std::string& name, const std::string& json);

// Throws Transient, or Error with the hub's reason.
Repository ask_repository(HttpFetch& fetch, const std::string& name, const std::string& revision);

// "/ORG/NAME/resolve/COMMIT/PATH" with what a URL does not take escaped.
std::string file_address(const Repository& repository, const RepositoryFile& file);

}  // namespace cheetah::hub
