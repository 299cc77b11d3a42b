// SPDX-License-Identifier: MIT
// Nsight Systems' SQLite export (nsys export --type sqlite), opened for reading alone.
#include <sqlite3.h>

#include <memory>

#include "base/error.h"
#include "base/format.h"
#include "doctor/facts/profile.h"
#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

constexpr int64_t kMaxRows = 20'000'000;
constexpr int kMaxSteps = 2'000'000;  // of SQLite's machine between two looks at the budget

class Database {
 public:
  explicit Database(const std::string& path) : path_(path) {
    sqlite3* opened = nullptr;
    const int status =
        sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, nullptr);
    db_.reset(opened);
    if (status != SQLITE_OK) throw Error(format("{}: cannot be opened as SQLite", path));
    // The schema is the file's: views and triggers of a hostile one must not run functions of ours.
    sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_progress_handler(opened, kMaxSteps, &Database::count_steps, this);
  }

  bool has_table(const std::string& name) {
    bool found = false;
    each("SELECT 1 FROM sqlite_master WHERE type='table' AND name='" + name + "'",
        [&](sqlite3_stmt*) { found = true; });
    return found;
  }

  // A column of a table, or "0" in exports that lack it.
  std::string column_or_zero(const std::string& table, const std::string& column) {
    bool found = false;
    each("SELECT 1 FROM pragma_table_info('" + table + "') WHERE name='" + column + "'",
        [&](sqlite3_stmt*) { found = true; });
    return found ? column : "0";
  }

  template <class Row>
  void each(const std::string& query, Row row) {
    sqlite3_stmt* prepared = nullptr;
    if (sqlite3_prepare_v2(db_.get(), query.c_str(), -1, &prepared, nullptr) != SQLITE_OK)
      throw Error(
          format("{}: not an Nsight Systems export: {}", path_, printable(sqlite3_errmsg(db_.get()), 120)));
    const std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> statement(prepared, sqlite3_finalize);
    int status = SQLITE_ROW;
    for (int64_t rows = 0; rows < kMaxRows && (status = sqlite3_step(prepared)) == SQLITE_ROW; ++rows)
      row(prepared);
    if (status != SQLITE_ROW && status != SQLITE_DONE)
      throw Error(format("{}: cannot be read: {}", path_, printable(sqlite3_errmsg(db_.get()), 120)));
  }

 private:
  static int count_steps(void* self) { return ++static_cast<Database*>(self)->looks_ > 2000 ? 1 : 0; }
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close(db); }
  };
  std::string path_;
  std::unique_ptr<sqlite3, Close> db_;
  int looks_ = 0;
};

std::string text_at(sqlite3_stmt* row, int column) {
  const unsigned char* text = sqlite3_column_text(row, column);
  return text == nullptr ? "" : printable(reinterpret_cast<const char*>(text), 200);
}
double us_at(sqlite3_stmt* row, int column) {
  return static_cast<double>(sqlite3_column_int64(row, column)) / 1000;
}

constexpr int kHostToDevice = 1, kDeviceToHost = 2, kPageable = 1;  // CUPTI's numbers

std::string column_of_device(Database& database, const std::string& table) {
  return database.column_or_zero(table, "deviceId");
}

void read_gpu(Database& database, Timeline& timeline) {
  if (database.has_table("CUPTI_ACTIVITY_KIND_KERNEL"))
    database.each("SELECT k.start, k.end, s.value, " +
                      column_of_device(database, "CUPTI_ACTIVITY_KIND_KERNEL") +
                      " FROM CUPTI_ACTIVITY_KIND_KERNEL k LEFT JOIN StringIds s ON s.id = k.shortName",
        [&](sqlite3_stmt* row) {
          timeline.gpu.push_back({us_at(row, 0), us_at(row, 1), GpuWork::kKernel, text_at(row, 2), 0, false,
              sqlite3_column_int(row, 3)});
        });
  if (database.has_table("CUPTI_ACTIVITY_KIND_MEMCPY"))
    database.each("SELECT start, end, copyKind, bytes, srcKind, " +
                      column_of_device(database, "CUPTI_ACTIVITY_KIND_MEMCPY") +
                      " FROM CUPTI_ACTIVITY_KIND_MEMCPY",
        [&](sqlite3_stmt* row) {
          const int kind = sqlite3_column_int(row, 2);
          const GpuWork work = kind == kHostToDevice   ? GpuWork::kCopyIn
                               : kind == kDeviceToHost ? GpuWork::kCopyOut
                                                       : GpuWork::kCopyInside;
          timeline.gpu.push_back(
              {us_at(row, 0), us_at(row, 1), work, "copy", static_cast<double>(sqlite3_column_int64(row, 3)),
                  work == GpuWork::kCopyIn && sqlite3_column_int(row, 4) == kPageable,
                  sqlite3_column_int(row, 5)});
        });
}

void read_host(Database& database, Timeline& timeline) {
  if (database.has_table("CUPTI_ACTIVITY_KIND_RUNTIME")) {
    timeline.has_host = true;
    database.each(
        "SELECT r.start, r.end, s.value FROM CUPTI_ACTIVITY_KIND_RUNTIME r LEFT JOIN StringIds s ON s.id = "
        "r.nameId",
        [&](sqlite3_stmt* row) {
          timeline.host.push_back({us_at(row, 0), us_at(row, 1), text_at(row, 2)});
        });
  }
  if (database.has_table("NVTX_EVENTS"))
    database.each("SELECT start, end, text FROM NVTX_EVENTS WHERE end IS NOT NULL", [&](sqlite3_stmt* row) {
      timeline.ranges.push_back({us_at(row, 0), us_at(row, 1), text_at(row, 2)});
    });
  if (database.has_table("CUDA_UM_GPU_PAGE_FAULT_EVENTS"))
    database.each("SELECT sum(numberOfPageFaults) FROM CUDA_UM_GPU_PAGE_FAULT_EVENTS",
        [&](sqlite3_stmt* row) { timeline.page_faults = sqlite3_column_double(row, 0); });
}

}  // namespace

Timeline read_nsys_export(const std::string& path) {
  Database database(path);
  Timeline timeline;
  read_gpu(database, timeline);
  read_host(database, timeline);
  if (timeline.gpu.empty()) throw Error(format("{}: no GPU work in it", path));
  return timeline;
}

}  // namespace cheetah::doctor
