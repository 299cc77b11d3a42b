// SPDX-License-Identifier: MIT
#include "lab/history.h"

#include <sqlite3.h>

#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "lab/result_json.h"

namespace cheetah::lab {
namespace {

constexpr const char* kSchema = R"(
CREATE TABLE IF NOT EXISTS runs (
  id INTEGER PRIMARY KEY, time TEXT NOT NULL, hardware TEXT NOT NULL, commit_id TEXT NOT NULL,
  experiments INTEGER NOT NULL, wrong INTEGER NOT NULL, json TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS times (
  run_id INTEGER NOT NULL REFERENCES runs(id), experiment TEXT NOT NULL, size TEXT NOT NULL, variant TEXT NOT NULL,
  verdict TEXT NOT NULL, median_s REAL NOT NULL, speedup REAL NOT NULL);
CREATE INDEX IF NOT EXISTS times_by_experiment ON times(experiment, run_id);
)";

// A prepared statement; values are bound by position from 1.
class Statement {
 public:
  Statement(sqlite3* db, const std::string& path, const char* sql) : db_(db), path_(path) {
    if (sqlite3_prepare_v2(db, sql, -1, &handle_, nullptr) != SQLITE_OK) fail();
  }
  ~Statement() { sqlite3_finalize(handle_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(int index, const std::string& value) {
    if (sqlite3_bind_text(handle_, index, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT) !=
        SQLITE_OK)
      fail();
    return *this;
  }
  Statement& bind(int index, int64_t value) {
    if (sqlite3_bind_int64(handle_, index, value) != SQLITE_OK) fail();
    return *this;
  }
  Statement& bind(int index, double value) {
    if (sqlite3_bind_double(handle_, index, value) != SQLITE_OK) fail();
    return *this;
  }
  bool step() {  // true: there is a row
    const int status = sqlite3_step(handle_);
    if (status != SQLITE_ROW && status != SQLITE_DONE) fail();
    return status == SQLITE_ROW;
  }
  std::string text(int column) const {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
    return text == nullptr ? ""
                           : std::string(text, static_cast<size_t>(sqlite3_column_bytes(handle_, column)));
  }
  int64_t integer(int column) const { return sqlite3_column_int64(handle_, column); }
  double number(int column) const { return sqlite3_column_double(handle_, column); }

 private:
  [[noreturn]] void fail() const {
    throw Error(format("{}: {}", path_, printable(sqlite3_errmsg(db_), 120)));
  }
  sqlite3* db_;
  const std::string& path_;
  sqlite3_stmt* handle_ = nullptr;
};

void execute(sqlite3* db, const std::string& path, const char* sql) {
  if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) != SQLITE_OK)
    throw Error(format("{}: {}", path, printable(sqlite3_errmsg(db), 120)));
}

int64_t count_wrong(const LabRun& run) {
  int64_t wrong = 0;
  for (const ExperimentResult& experiment : run.experiments)
    for (const SizeResult& size : experiment.sizes)
      for (const VariantResult& variant : size.variants) wrong += variant.verdict == Verdict::kWrong ? 1 : 0;
  return wrong;
}

}  // namespace

void History::Close::operator()(sqlite3* db) const { sqlite3_close(db); }

History::History(const std::string& path, Mode mode) : path_(path) {
  const bool writes = mode == Mode::kWrite;
  std::error_code ignored;  // opening says what is wrong
  if (!writes && !std::filesystem::exists(path, ignored))
    throw Error(format("{}: no run is kept yet; 'cheetah lab run' makes one", path));
  if (const auto folder = std::filesystem::path(path).parent_path(); writes && !folder.empty())
    std::filesystem::create_directories(folder, ignored);
  sqlite3* opened = nullptr;
  const int flags = writes ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  const int status = sqlite3_open_v2(path.c_str(), &opened, flags, nullptr);
  db_.reset(opened);
  if (status != SQLITE_OK) throw Error(format("{}: cannot be opened as the lab's history", path));
  sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  constexpr int kPatienceMs = 10000;
  sqlite3_busy_timeout(opened, kPatienceMs);
  if (writes) execute(opened, path_, kSchema);
}

int64_t History::add(const LabRun& run) {
  execute(db_.get(), path_, "BEGIN IMMEDIATE");
  try {
    Statement insert(db_.get(), path_,
        "INSERT INTO runs(time, hardware, commit_id, experiments, wrong, json) VALUES(?,?,?,?,?,?)");
    insert.bind(1, run.provenance.time)
        .bind(2, run.provenance.hardware)
        .bind(3, run.provenance.commit)
        .bind(4, static_cast<int64_t>(run.experiments.size()))
        .bind(5, count_wrong(run))
        .bind(6, dump_json(run_json(run)));
    insert.step();
    const int64_t id = sqlite3_last_insert_rowid(db_.get());
    for (const ExperimentResult& experiment : run.experiments)
      for (const SizeResult& size : experiment.sizes)
        for (const VariantResult& variant : size.variants) {
          Statement time(db_.get(), path_, "INSERT INTO times VALUES(?,?,?,?,?,?,?)");
          time.bind(1, id).bind(2, experiment.id).bind(3, size.label).bind(4, variant.name);
          time.bind(5, std::string(name_of(variant.verdict)))
              .bind(6, variant.median_s)
              .bind(7, variant.speedup.ratio);
          time.step();
        }
    execute(db_.get(), path_, "COMMIT");
    return id;
  } catch (...) {
    sqlite3_exec(db_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

std::vector<RunEntry> History::runs(int64_t most) const {
  Statement query(db_.get(), path_,
      "SELECT id, time, hardware, commit_id, experiments, wrong FROM runs ORDER BY id DESC LIMIT ?");
  query.bind(1, most);
  std::vector<RunEntry> entries;
  while (query.step())
    entries.push_back({.id = query.integer(0),
        .time = query.text(1),
        .hardware = query.text(2),
        .commit = query.text(3),
        .num_experiments = query.integer(4),
        .num_wrong = query.integer(5)});
  return entries;
}

LabRun History::run(int64_t id) const {
  Statement query(db_.get(), path_, "SELECT json FROM runs WHERE id = ?");
  query.bind(1, id);
  if (!query.step())
    throw Error(format("{}: there is no run {}; 'cheetah lab history' lists them", path_, id));
  const std::string what = format("{}: run {}", path_, id);
  return run_from_json(parse_json(query.text(0), what), what);
}

std::optional<int64_t> History::newest() const {
  Statement query(db_.get(), path_, "SELECT max(id) FROM runs HAVING max(id) IS NOT NULL");
  if (!query.step()) return std::nullopt;
  return query.integer(0);
}

std::vector<TimePoint> History::times(const std::string& experiment, const std::string& hardware) const {
  Statement query(db_.get(), path_,
      "SELECT t.run_id, r.time, r.commit_id, t.size, t.variant, t.verdict, t.median_s, t.speedup "
      "FROM times t "
      "JOIN runs r ON r.id = t.run_id WHERE t.experiment = ? AND r.hardware = ? "
      "ORDER BY t.size, t.variant, t.run_id");
  query.bind(1, experiment).bind(2, hardware);
  std::vector<TimePoint> points;
  while (query.step())
    points.push_back({.run_id = query.integer(0),
        .time = query.text(1),
        .commit = query.text(2),
        .size = query.text(3),
        .variant = query.text(4),
        .verdict = query.text(5),
        .median_s = query.number(6),
        .speedup = query.number(7)});
  return points;
}

}  // namespace cheetah::lab
