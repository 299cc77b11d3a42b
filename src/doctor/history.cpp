// SPDX-License-Identifier: MIT
#include "doctor/history.h"

#include <sqlite3.h>

#include <algorithm>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "base/statistics.h"
#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS counters (host TEXT, time REAL, name TEXT, value REAL);"
    "CREATE INDEX IF NOT EXISTS counters_by_name ON counters (host, name, time);"
    "CREATE TABLE IF NOT EXISTS findings (host TEXT, time REAL, id TEXT, found TEXT);"
    "CREATE INDEX IF NOT EXISTS findings_by_time ON findings (host, time);"
    "CREATE TABLE IF NOT EXISTS measured (host TEXT, time REAL, name TEXT, value REAL);"
    "CREATE TABLE IF NOT EXISTS looks (host TEXT, time REAL);";

// What grows when something breaks; bytes and packets are left out.
bool is_error_counter(std::string_view name) {
  if (starts_with(name, "disk.")) return false;
  for (const char* part : {"_error", "errors", "link_downed", "discards", "out_of_sequence", "timeout",
           "retry", "throttled", "oom_kill", "dropped", "slow_restart"})
    if (contains(name, part)) return true;
  return false;
}

}  // namespace

std::vector<Trend> parse_trends(std::string_view text) {
  std::vector<Trend> trends;
  for (const std::string_view line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.size() < 3) continue;
    const auto hours = to_number(words[1]), added = to_number(words[2]);
    if (hours && added) trends.push_back({printable(words[0], 200), *added, *hours});
  }
  return trends;
}

std::map<std::string, double> error_counters(const Facts& facts) {
  std::map<std::string, double> counters;
  for (const auto& [name, reading] : facts.counters.after)
    if (is_error_counter(name)) counters[name] = reading.value;
  for (const Gpu& gpu : facts.gpu.gpus.value_or({}))
    for (const char* name :
        {"pcie.replays", "nvlink.errors", "ecc.uncorrected.volatile", "ecc.corrected.volatile"})
      if (const auto value = gpu.number(name)) counters[format("gpu.{}.{}", gpu.address(), name)] = *value;
  for (const MemoryController& controller : facts.memory.controllers) {
    if (controller.corrected)
      counters["memory." + controller.name + ".corrected"] = static_cast<double>(*controller.corrected);
    if (controller.uncorrected)
      counters["memory." + controller.name + ".uncorrected"] = static_cast<double>(*controller.uncorrected);
  }
  for (const PciDevice& device : facts.pci.devices.value_or({})) {
    if (device.replays)
      counters["pcie." + device.address + ".replays"] = static_cast<double>(*device.replays);
    if (device.fatal_errors)
      counters["pcie." + device.address + ".fatal"] = static_cast<double>(*device.fatal_errors);
  }
  return counters;
}

struct History::Database {
  sqlite3* db = nullptr;
  std::string path;

  [[noreturn]] void fail(const char* doing) const {
    throw Error(format("{}: {}: {}", path, doing, printable(sqlite3_errmsg(db), 200)));
  }
  void run(const char* sql) const {
    if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail("cannot be used as a history");
  }
  // Binds texts and numbers in order, and gives each row to `row`.
  void each(const char* sql, const std::vector<std::string>& texts, const std::vector<double>& numbers,
      const std::function<void(sqlite3_stmt*)>& row) const {
    sqlite3_stmt* prepared = nullptr;
    if (sqlite3_prepare_v2(db, sql, -1, &prepared, nullptr) != SQLITE_OK) fail("not a history");
    const std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> statement(prepared, sqlite3_finalize);
    int place = 0;
    for (const std::string& text : texts)
      sqlite3_bind_text(prepared, ++place, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
    for (const double number : numbers) sqlite3_bind_double(prepared, ++place, number);
    int status = SQLITE_ROW;
    while ((status = sqlite3_step(prepared)) == SQLITE_ROW) row(prepared);
    if (status != SQLITE_DONE) fail("cannot be read or written");
  }
  void put(const char* sql, const std::vector<std::string>& texts, const std::vector<double>& numbers) const {
    each(sql, texts, numbers, [](sqlite3_stmt*) {});
  }
};

namespace {

std::string text_at(sqlite3_stmt* row, int column) {
  const unsigned char* text = sqlite3_column_text(row, column);
  return text == nullptr ? "" : printable(reinterpret_cast<const char*>(text), 4000);
}

}  // namespace

History::History(const std::string& path) : database_(std::make_unique<Database>()) {
  database_->path = path;
  if (sqlite3_open_v2(path.c_str(), &database_->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr) !=
      SQLITE_OK) {
    const std::string why = printable(sqlite3_errmsg(database_->db), 200);
    sqlite3_close(database_->db);
    throw Error(format("{}: {}: expected a file that may be written", path, why));
  }
  try {
    sqlite3_db_config(database_->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_busy_timeout(database_->db, 5000);
    database_->run(kSchema);
  } catch (...) {
    sqlite3_close(database_->db);
    throw;
  }
}

History::~History() { sqlite3_close(database_->db); }

std::vector<FindingChange> History::add(const std::string& host, double time_s,
    const std::map<std::string, double>& counters, const Report& report) {
  std::map<std::string, std::string> before, now;
  database_->each(
      "SELECT id, found FROM findings WHERE host = ?1 AND time = (SELECT max(time) FROM looks WHERE host = ?1)",
      {host}, {}, [&](sqlite3_stmt* row) { before[text_at(row, 0)] = text_at(row, 1); });
  for (const Finding& finding : report.findings)
    if (finding.risk > 0) now[std::string(finding.check->id)] = finding.outcome.found;
  database_->run("BEGIN IMMEDIATE");
  database_->put("INSERT INTO looks VALUES (?, ?)", {host}, {time_s});
  for (const auto& [name, value] : counters)
    database_->put(
        "INSERT INTO counters (host, name, time, value) VALUES (?, ?, ?, ?)", {host, name}, {time_s, value});
  for (const auto& [id, found] : now)
    database_->put(
        "INSERT INTO findings (host, id, found, time) VALUES (?, ?, ?, ?)", {host, id, found}, {time_s});
  database_->run("COMMIT");
  std::vector<FindingChange> changes;
  for (const auto& [id, found] : now)
    if (before.find(id) == before.end()) changes.push_back({id, found, true});
  for (const auto& [id, found] : before)
    if (now.find(id) == now.end()) changes.push_back({id, found, false});
  return changes;
}

std::vector<Trend> History::trends(const std::string& host, double since_s) const {
  struct Track {
    double first = 0, last = 0, value = 0, added = 0;
    bool any = false;
  };
  std::map<std::string, Track> tracks;
  database_->each("SELECT name, time, value FROM counters WHERE host = ? AND time >= ? ORDER BY time", {host},
      {since_s}, [&](sqlite3_stmt* row) {
        Track& track = tracks[text_at(row, 0)];
        const double time = sqlite3_column_double(row, 1), value = sqlite3_column_double(row, 2);
        if (!track.any) track.first = time;
        // A counter that went back was reset: it counts from zero.
        if (track.any) track.added += value >= track.value ? value - track.value : value;
        track.last = time;
        track.value = value;
        track.any = true;
      });
  std::vector<Trend> trends;
  for (const auto& [name, track] : tracks)
    trends.push_back({name, track.added, (track.last - track.first) / 3600});
  std::stable_sort(
      trends.begin(), trends.end(), [](const Trend& a, const Trend& b) { return a.per_day() > b.per_day(); });
  return trends;
}

void History::add_measured(const std::string& host, double time_s, const MeasuredFacts& measured) {
  database_->run("BEGIN IMMEDIATE");
  for (const auto& [name, text] : measured.values)
    if (const auto value = to_number(text))
      database_->put("INSERT INTO measured (host, name, time, value) VALUES (?, ?, ?, ?)", {host, name},
          {time_s, *value});
  database_->run("COMMIT");
}

std::map<std::string, double> History::usual(const std::string& host) const {
  std::map<std::string, std::vector<double>> all;
  database_->each("SELECT name, value FROM measured WHERE host = ?", {host}, {},
      [&](sqlite3_stmt* row) { all[text_at(row, 0)].push_back(sqlite3_column_double(row, 1)); });
  std::map<std::string, double> medians;
  for (const auto& [name, values] : all) medians[name] = median(values);
  return medians;
}

void History::forget_before(double time_s) {
  for (const char* sql : {"DELETE FROM counters WHERE time < ?", "DELETE FROM findings WHERE time < ?",
           "DELETE FROM looks WHERE time < ?", "DELETE FROM measured WHERE time < ?"})
    database_->put(sql, {}, {time_s});
}

}  // namespace cheetah::doctor
