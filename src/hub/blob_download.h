// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <string>

#include "hub/http_fetch.h"
#include "hub/repository.h"

namespace cheetah::hub {

struct BlobPlan {
  std::string address;  // at the hub
  RepositoryFile file;
  std::string blob;  // where the whole file goes: .../blobs/ETAG
  std::string lock;  // other programs that download it hold this one
};

using Advance = std::function<void(int64_t bytes)>;  // negative: bytes that were thrown away

// Downloads into BLOB.incomplete, from where an earlier try ended, checks size and checksum, and only then gives the file
// its name. What came of an interrupted one stays. Tries again after cut connections and busy servers, as long as bytes
// come. Throws Error.
void download_blob(
    HttpFetch& fetch, const BlobPlan& plan, const HttpFetch::Stop& stop, const Advance& advance);

// Of the file that is still to come; a file whose bytes are all there may still have to be checked.
int64_t bytes_missing(const BlobPlan& plan);
bool is_complete(const BlobPlan& plan);

}  // namespace cheetah::hub
