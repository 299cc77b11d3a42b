// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hub/repository.h"
#include "model/files/hub_cache.h"

namespace cheetah::hub {

struct CachedFile {
  std::string path;  // inside the repository
  int64_t bytes = 0;
};

// One revision of a repository in the cache.
struct CachedModel {
  std::string name;  // ORG/NAME
  std::string commit;
  std::vector<std::string> refs{};  // branches and tags that mean it
  std::vector<CachedFile> files{};
  int64_t bytes = 0;
  int64_t used_at = 0;  // last written, seconds since 1970
};

struct Unfinished {
  std::string name;
  int64_t bytes = 0;
};

// Hugging Face's download cache: models--ORG--NAME/{blobs,refs,snapshots/COMMIT} and .locks beside. Python's libraries use
// the same one.
class Cache {
 public:
  explicit Cache(std::string folder) : folder_(std::move(folder)) {}
  const std::string& folder() const { return folder_; }

  std::string blob_path(const std::string& name, const std::string& etag) const;
  std::string lock_path(const std::string& name, const std::string& etag) const;
  // Makes the folders that a download needs. Throws Error.
  void prepare(const std::string& name) const;
  // Shows the files in the commit's snapshot and sets the revision to it. A new snapshot appears whole. Throws Error.
  void publish(const Repository& repository, const std::vector<RepositoryFile>& files,
      const std::string& revision) const;

  std::vector<CachedModel> models() const;
  std::vector<Unfinished> unfinished() const;

  // Removes the reference's files, its revision, or the whole repository, and every blob that nothing shows any more.
  // Returns the bytes that became free. Throws Error when there is no such thing.
  int64_t remove(const HubReference& reference, bool names_revision) const;

 private:
  std::string folder_;
};

}  // namespace cheetah::hub
