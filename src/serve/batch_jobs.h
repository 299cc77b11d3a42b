// SPDX-License-Identifier: MIT
#pragma once
// /v1/files and /v1/batches: files of requests that clients upload, and the batches that answer them while the server
// has nothing more urgent to do. Kept in memory, per key, until deleted or the server ends.
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "base/mailbox.h"
#include "base/published.h"
#include "serve/backend.h"
#include "serve/batch_run.h"

namespace cheetah {

// Called on the network threads; a thread of its own runs one batch after another.
class BatchJobs {
 public:
  explicit BatchJobs(ServerShared& shared);
  ~BatchJobs();
  void stop();  // what runs ends without its answers

  // `id`: the rest of the path behind /files/ or /batches/, "" for the list.
  HttpResponse files(const HttpRequest& request, const std::string& tenant, const std::string& id);
  HttpResponse batches(const HttpRequest& request, const Tenant& tenant, const std::string& id);

 private:
  struct File {
    std::string tenant, name, purpose;
    int64_t created = 0;
    std::shared_ptr<const std::string> bytes;  // shared: with a batch that reads it after its deletion
  };
  struct Batch {
    std::string tenant, cache_salt, endpoint, input, output, errors, status = "validating", window;
    Json metadata;
    int64_t created = 0, started = 0, ended = 0;
    BatchCounts counts;
    bool cancelled = false;
  };
  struct Store {
    std::map<std::string, File> files;
    std::map<std::string, Batch> batches;
    int64_t bytes = 0;
    uint64_t next = 1;
  };
  static Json file_json(const std::string& id, const File& file);
  static Json batch_json(const std::string& id, const Batch& batch);
  HttpResponse upload(const HttpRequest& request, const std::string& tenant);
  HttpResponse create(const HttpRequest& request, const Tenant& tenant);
  std::string add_file(File file);  // "": the store is full
  void loop();
  void run_safely(const std::string& id);
  void run(const std::string& id);
  std::shared_ptr<const Backend> backend_for(const std::string& input);

  ServerShared& shared_;
  Published<Store> store_;
  Mailbox<std::string> queue_;  // ids of batches to run
  std::jthread thread_{[this] { loop(); }};
};

}  // namespace cheetah
