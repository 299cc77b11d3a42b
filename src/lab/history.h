// SPDX-License-Identifier: MIT
#pragma once
// Runs that were made, in a SQLite file.
#include <memory>
#include <optional>

#include "lab/run.h"

struct sqlite3;

namespace cheetah::lab {

struct RunEntry {
  int64_t id = 0;
  std::string time, hardware, commit;
  int64_t num_experiments = 0;
  int64_t num_wrong = 0;  // variants
};

// How one variant did in the runs of one machine, oldest first.
struct TimePoint {
  int64_t run_id = 0;
  std::string time, commit, size, variant, verdict;
  double median_s = 0, speedup = 0;
};

// Owns the open file. Several processes may use it at once: writers wait for each other.
class History {
 public:
  enum class Mode { kRead, kWrite };
  // To write: makes the file and its folder where they are missing. To read: changes nothing. Throws Error.
  explicit History(const std::string& path, Mode mode = Mode::kWrite);

  int64_t add(const LabRun& run);
  std::vector<RunEntry> runs(int64_t most) const;  // newest first
  LabRun run(int64_t id) const;                    // throws Error when there is none
  std::optional<int64_t> newest() const;
  std::vector<TimePoint> times(const std::string& experiment, const std::string& hardware) const;

 private:
  struct Close {
    void operator()(sqlite3* db) const;
  };
  std::string path_;
  std::unique_ptr<sqlite3, Close> db_;
};

}  // namespace cheetah::lab
