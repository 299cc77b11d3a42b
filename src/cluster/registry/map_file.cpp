// SPDX-License-Identifier: MIT
#include "cluster/registry/map_file.h"

#include <chrono>
#include <filesystem>
#include <system_error>

#include "base/atomic_file.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "base/time.h"
#include "cluster/registry/keys.h"

namespace cheetah::cluster {
namespace {

constexpr int64_t kVersion = 1;
constexpr size_t kMostEntries = 4096;
constexpr int64_t kMostBytes = int64_t{8} << 20;
// Changes that come together are written together; without any the file is to stay young.
constexpr std::chrono::milliseconds kGather{300};
constexpr std::chrono::seconds kAgain{600};

bool belongs(std::string_view key) {
  return key.starts_with(kWorkersPrefix) || key.starts_with(kConfigPrefix);
}

}  // namespace

std::string map_file_text(const Registry::Entries& entries, const std::string& cluster, int64_t now_s) {
  Json kept = Json::array();
  for (const auto& [key, entry] : entries)
    if (belongs(key) && kept.size() < kMostEntries)
      kept.push_back({{"key", key}, {"value", base64_of(entry.value)}, {"revision", entry.revision}});
  return dump_json(
      Json{{"version", kVersion}, {"cluster", cluster}, {"saved", now_s}, {"entries", std::move(kept)}}, 1);
}

Registry::Entries read_map_file(const std::string& path, const std::string& cluster, int64_t now_s) {
  Registry::Entries entries;
  std::error_code missing;
  if (path.empty() || !std::filesystem::exists(path, missing)) return entries;
  try {
    const Json whole = read_json_file(path, {.max_bytes = kMostBytes, .max_depth = 8});
    const JsonFields file(whole, path);
    const int64_t saved = file.integer("saved", 0, INT64_MAX);
    if (file.integer("version", 0, INT64_MAX) != kVersion || file.string("cluster") != cluster)
      return entries;
    if (saved > now_s || now_s - saved > kMapFileSeconds) return entries;
    const Json* list = file.find("entries");
    if (list == nullptr || !list->is_array() || list->size() > kMostEntries) return entries;
    for (const Json& one : *list) {
      const JsonFields fields(one, path);
      RegistryEntry entry{
          .key = fields.string("key"), .value = "", .revision = fields.integer("revision", 1, INT64_MAX)};
      const auto value = from_base64(fields.string("value"));
      if (!value || !belongs(entry.key)) continue;
      entry.value = *value;
      entries.insert_or_assign(entry.key, entry);
    }
  } catch (const Error&) {
    entries.clear();  // half a map is none
  }
  return entries;
}

MapFileWriter::MapFileWriter(
    std::string path, std::string cluster, std::function<std::optional<Registry::Entries>()> entries)
    : path_(std::move(path)),
      cluster_(std::move(cluster)),
      entries_(std::move(entries)),
      thread_([this] { loop(); }) {}

MapFileWriter::~MapFileWriter() {
  changes_.close();
  thread_.join();
}

void MapFileWriter::loop() {
  std::vector<char> news;
  while (!changes_.closed()) {
    changes_.wait_until(std::chrono::steady_clock::now() + kAgain);
    if (changes_.closed()) return;
    const auto until = std::chrono::steady_clock::now() + kGather;
    changes_.take_all(news);
    while (std::chrono::steady_clock::now() < until && !changes_.closed()) {
      changes_.wait_until(until);
      changes_.take_all(news);
    }
    if (const auto entries = entries_()) write(*entries);
  }
}

void MapFileWriter::write(const Registry::Entries& entries) {
  try {
    const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
    if (!folder.empty()) std::filesystem::create_directories(folder);
    AtomicFile(path_).write(map_file_text(entries, cluster_, unix_seconds()));
  } catch (const std::exception&) {
    // A full disk: the old file stays, and the cluster needs none.
  }
}

}  // namespace cheetah::cluster
