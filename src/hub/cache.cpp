// SPDX-License-Identifier: MIT
#include "hub/cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "hub/file_choice.h"

namespace cheetah::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";

std::string folder_name(const std::string& name) {
  std::string folder(kPrefix);
  for (const char c : name) c == '/' ? folder += "--" : folder += c;
  return folder;
}

std::string repository_name(std::string folder) {
  folder.erase(0, kPrefix.size());
  if (const size_t dashes = folder.find("--"); dashes != std::string::npos) folder.replace(dashes, 2, "/");
  return folder;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    entries.push_back(at->path());
  std::ranges::sort(entries);
  return entries;
}

// Files and links, at any depth.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error, ignored;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (!fs::is_directory(fs::symlink_status(at->path(), ignored))) files.push_back(at->path());
  std::ranges::sort(files);
  return files;
}

int64_t bytes_of(const fs::path& file) {
  struct stat info = {};
  return stat(file.c_str(), &info) == 0 ? info.st_size : 0;
}

std::string commit_in(const fs::path& ref) {
  std::error_code error;
  if (!fs::is_regular_file(ref, error) || bytes_of(ref) > 256) return "";
  return std::string(trimmed(MappedFile::open(ref.string()).text()));
}

std::vector<std::string> refs_to(const fs::path& home, const std::string& commit) {
  std::vector<std::string> refs;
  for (const fs::path& ref : files_below(home / "refs"))
    if (commit_in(ref) == commit) refs.push_back(ref.lexically_relative(home / "refs").string());
  return refs;
}

CachedModel model_at(const fs::path& home, const fs::path& snapshot) {
  CachedModel model{
      .name = repository_name(home.filename().string()), .commit = snapshot.filename().string()};
  model.refs = refs_to(home, model.commit);
  for (const fs::path& file : files_below(snapshot)) {
    model.files.push_back({file.lexically_relative(snapshot).string(), bytes_of(file)});
    model.bytes += model.files.back().bytes;
  }
  struct stat info = {};
  if (stat(snapshot.c_str(), &info) == 0) model.used_at = info.st_mtime;
  return model;
}

// A link made beside and renamed, so that none is ever half there.
void make_link(const fs::path& link, const fs::path& blob) {
  fs::create_directories(link.parent_path());
  const fs::path target = blob.lexically_relative(link.parent_path());
  const fs::path fresh = link.parent_path() / ("." + link.filename().string() + ".new");
  std::error_code ignored;
  fs::remove(fresh, ignored);
  fs::create_symlink(target, fresh);
  fs::rename(fresh, link);
}

// Removes blobs that no snapshot shows; downloads on their way stay unless nothing else does.
int64_t remove_unshown_blobs(const fs::path& home) {
  std::set<std::string> shown;
  for (const fs::path& file : files_below(home / "snapshots")) {
    std::error_code error;
    shown.insert(fs::read_symlink(file, error).filename().string());
  }
  int64_t freed = 0;
  for (const fs::path& blob : entries_of(home / "blobs")) {
    const std::string name = blob.filename().string();
    if (name.ends_with(".incomplete") || shown.contains(name)) continue;
    const int64_t bytes = bytes_of(blob);
    if (fs::remove(blob)) freed += bytes;
  }
  return freed;
}

int64_t remove_all(const fs::path& home, const fs::path& locks) {
  int64_t freed = 0;
  for (const fs::path& file : files_below(home)) {
    std::error_code error;
    if (!fs::is_symlink(file, error)) freed += bytes_of(file);
  }
  fs::remove_all(home);
  fs::remove_all(locks);
  return freed;
}

void remove_empty_folders(const fs::path& folder, const fs::path& top) {
  std::error_code error;
  for (fs::path at = folder; at != top && at.has_relative_path() && fs::is_empty(at, error);
       at = at.parent_path())
    fs::remove(at, error);
}

}  // namespace

std::string Cache::blob_path(const std::string& name, const std::string& etag) const {
  return (fs::path(folder_) / folder_name(name) / "blobs" / etag).string();
}

std::string Cache::lock_path(const std::string& name, const std::string& etag) const {
  return (fs::path(folder_) / ".locks" / folder_name(name) / (etag + ".lock")).string();
}

void Cache::prepare(const std::string& name) const {
  if (folder_.empty()) throw Error("no hub cache: HOME is not set; HF_HOME names a folder for it");
  for (const fs::path& folder :
      {fs::path(blob_path(name, "x")).parent_path(), fs::path(lock_path(name, "x")).parent_path()}) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw Error(format("{}: cannot be made: {}", folder.string(), error.message()));
  }
}

void Cache::publish(const Repository& repository, const std::vector<RepositoryFile>& files,
    const std::string& revision) const {
  const fs::path home = fs::path(folder_) / folder_name(repository.name), snapshots = home / "snapshots";
  const fs::path snapshot = snapshots / repository.commit;
  try {
    // A new snapshot is made beside and renamed; one that is there gets its files one by one, the first part last.
    const bool is_new = !fs::exists(snapshot);
    const fs::path into = is_new ? snapshots / ("." + repository.commit + ".new") : snapshot;
    if (is_new) fs::remove_all(into);
    fs::create_directories(into);
    for (auto file = files.rbegin(); file != files.rend(); ++file) {
      const fs::path blob = home / "blobs" / file->etag;
      make_link(into / file->path, blob);
    }
    if (is_new) fs::rename(into, snapshot);
    constexpr size_t kShortestCommit = 7;
    if (revision.size() >= kShortestCommit && repository.commit.starts_with(revision)) return;
    const fs::path ref = home / "refs" / revision;
    fs::create_directories(ref.parent_path());
    AtomicFile(ref.string()).write(repository.commit);
  } catch (const fs::filesystem_error& error) {
    throw Error(format("{}: {}", snapshot.string(), error.code().message()));
  }
}

std::vector<CachedModel> Cache::models() const {
  std::vector<CachedModel> models;
  if (folder_.empty()) return models;
  for (const fs::path& home : entries_of(folder_)) {
    if (!home.filename().string().starts_with(kPrefix)) continue;
    for (const fs::path& snapshot : entries_of(home / "snapshots"))
      if (!snapshot.filename().string().starts_with('.')) models.push_back(model_at(home, snapshot));
  }
  return models;
}

std::vector<Unfinished> Cache::unfinished() const {
  std::vector<Unfinished> all;
  if (folder_.empty()) return all;
  for (const fs::path& home : entries_of(folder_)) {
    if (!home.filename().string().starts_with(kPrefix)) continue;
    Unfinished one{.name = repository_name(home.filename().string())};
    for (const fs::path& blob : entries_of(home / "blobs"))
      if (blob.filename().string().ends_with(".incomplete")) one.bytes += bytes_of(blob);
    if (one.bytes > 0) all.push_back(one);
  }
  return all;
}

int64_t Cache::remove(const HubReference& reference, bool names_revision) const {
  const fs::path home = fs::path(folder_) / folder_name(reference.repository);
  std::error_code error;
  if (folder_.empty() || !fs::is_directory(home, error))
    throw Error(
        format("{}: not in the hub cache {}; 'cheetah list' shows what is", reference.repository, folder_));
  const bool names_files = !reference.quant.empty() || !reference.file.empty();
  try {
    if (!names_files && !names_revision)
      return remove_all(home, fs::path(lock_path(reference.repository, "x")).parent_path());
    HubReference whole = reference;
    whole.quant = whole.file = "";
    const fs::path snapshot = find_in_hub_cache(whole, folder_);
    if (names_files) {
      CachedModel model = model_at(home, snapshot);
      Repository shown{.name = reference.repository, .commit = model.commit, .files = {}};
      for (const CachedFile& file : model.files) shown.files.push_back({file.path, file.bytes, ""});
      for (const RepositoryFile& file : choose_files(shown, reference)) {
        fs::remove(snapshot / file.path);
        remove_empty_folders((snapshot / file.path).parent_path(), home / "snapshots");
      }
    } else {
      fs::remove_all(snapshot);
    }
    if (!fs::exists(snapshot))
      for (const std::string& ref : refs_to(home, snapshot.filename().string()))
        fs::remove(home / "refs" / ref);
    const int64_t freed = remove_unshown_blobs(home);
    if (entries_of(home / "snapshots").empty())
      return freed + remove_all(home, fs::path(lock_path(reference.repository, "x")).parent_path());
    return freed;
  } catch (const fs::filesystem_error& failure) {
    throw Error(format("{}: {}", failure.path1().string(), failure.code().message()));
  }
}

}  // namespace cheetah::hub
