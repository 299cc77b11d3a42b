// SPDX-License-Identifier: MIT
#pragma once
// Responses in an SQLite file, each its tenant's alone. Bounded by size and age: the oldest go first, of the tenant
// that has most.
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "base/mailbox.h"
#include "observe/event_log.h"
#include "serve/api/response_archive.h"

struct sqlite3;

namespace cheetah {

struct ResponseStoreConfig {
  std::string path;  // "": responses are not kept
  int64_t bytes = int64_t{256} << 20;
  double age_s = 30 * 86400.0;
};

// One thread has the file; others ask it. A write is whole or not there, whatever ends the process.
class ResponseStore final : public ResponseArchive {
 public:
  // Throws Error for a file that is not one of these.
  ResponseStore(const ResponseStoreConfig& config, EventLog& log);
  ~ResponseStore() override;

  void keep(const std::string& tenant, KeptResponse response) override;
  std::optional<OrderedJson> conversation(const std::string& tenant, const std::string& id) override;

  // Called back on the store's thread. failed: the disk did not answer.
  struct Found {
    std::optional<KeptResponse> response;
    bool failed = false;
  };
  void find(std::string tenant, std::string id, std::function<void(Found)> done);
  void erase(std::string tenant, std::string id, std::function<void(Found)> done);  // what there was

 private:
  struct Close {
    void operator()(sqlite3* file) const;
  };
  using Task = std::function<void()>;
  void open();
  void loop();
  void execute(const char* sql) const;
  void insert(const std::string& tenant, const KeptResponse& response);
  void trim();
  std::optional<KeptResponse> read(const std::string& tenant, const std::string& id) const;
  void remove(const std::string& tenant, const std::string& id);

  const ResponseStoreConfig config_;
  EventLog& log_;
  std::unique_ptr<sqlite3, Close> file_;
  int64_t bytes_ = 0;
  Mailbox<Task> inbox_;
  std::thread thread_;
};

}  // namespace cheetah
