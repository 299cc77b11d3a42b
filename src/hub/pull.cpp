// SPDX-License-Identifier: MIT
#include "hub/pull.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "base/published.h"
#include "base/table.h"
#include "hub/blob_download.h"
#include "hub/file_choice.h"

namespace cheetah::hub {
namespace {

constexpr int kAskTries = 6;
constexpr std::chrono::milliseconds kTick{100};

std::string text_of(int64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

Repository ask_patiently(HttpFetch& fetch, const HubReference& reference, const PullWatch& watch) {
  auto wait = std::chrono::milliseconds(200);
  for (int tries = 1;; ++tries) {
    try {
      return ask_repository(fetch, reference.repository, reference.revision);
    } catch (const Transient& trouble) {
      if (tries == kAskTries || watch.stop())
        throw Error(format("{}: {}", reference.repository, trouble.why));
    }
    std::this_thread::sleep_for(wait);
    wait *= 2;
  }
}

std::vector<BlobPlan> blob_plans(const Cache& cache, const PullPlan& plan) {
  std::vector<BlobPlan> blobs;
  for (const RepositoryFile& file : plan.files) {
    const auto same = [&](const BlobPlan& other) { return other.file.etag == file.etag; };
    if (std::ranges::any_of(blobs, same)) continue;
    blobs.push_back({.address = file_address(plan.repository, file),
        .file = file,
        .blob = cache.blob_path(plan.repository.name, file.etag),
        .lock = cache.lock_path(plan.repository.name, file.etag)});
  }
  std::ranges::stable_sort(blobs, std::greater(), [](const BlobPlan& blob) { return blob.file.bytes; });
  return blobs;
}

void check_room(const Cache& cache, int64_t missing) {
  struct statvfs disk = {};
  if (statvfs(cache.folder().c_str(), &disk) != 0) return;
  const auto room = static_cast<int64_t>(disk.f_bavail * disk.f_frsize);
  if (missing > room)
    throw Error(format("{}: {} are to come and {} are free; free some, or set HF_HOME to another disk",
        cache.folder(), text_of(missing), text_of(room)));
}

// The workers' common state. A worker takes the next file until none is left or one has failed.
struct Progress {
  std::atomic<size_t> next = 0;
  std::atomic<int64_t> bytes = 0;
  std::atomic<int> running = 0;
  std::atomic<bool> failed = false;
  Published<std::optional<std::string>> why;
};

void work(const HubSettings& settings, const std::vector<BlobPlan>& blobs, const PullWatch& watch,
    Progress& progress) {
  const HttpFetch::Stop stop = [&] { return progress.failed.load() || watch.stop(); };
  try {
    HttpFetch fetch(settings, stop);
    for (size_t i = progress.next++; i < blobs.size() && !stop(); i = progress.next++)
      download_blob(fetch, blobs[i], stop, [&](int64_t bytes) { progress.bytes += bytes; });
  } catch (const std::exception& error) {
    const bool first = !progress.failed.exchange(true);
    if (first) progress.why.with([&](std::optional<std::string>& why) { why = error.what(); });
  }
  --progress.running;
}

void download(
    const HubSettings& settings, const std::vector<BlobPlan>& blobs, int jobs, const PullWatch& watch) {
  Progress progress;
  const size_t num = std::min(blobs.size(), static_cast<size_t>(jobs));
  progress.running = static_cast<int>(num);
  {
    std::vector<std::jthread> workers;
    for (size_t i = 0; i < num; ++i) workers.emplace_back([&] { work(settings, blobs, watch, progress); });
    while (progress.running > 0) {
      std::this_thread::sleep_for(kTick);
      watch.advances(progress.bytes.exchange(0));
    }
  }
  watch.advances(progress.bytes.exchange(0));
  if (const auto why = progress.why.copy()) throw Error(*why);
  if (watch.stop()) throw Error("interrupted");
}

}  // namespace

PullPlan pull(const HubSettings& settings, const HubReference& reference, const PullOptions& options,
    const PullWatch& watch) {
  if (settings.offline) throw Error("HF_HUB_OFFLINE is set: nothing is downloaded");
  const Cache cache(settings.cache);
  HttpFetch fetch(settings, watch.stop);
  PullPlan plan{.repository = ask_patiently(fetch, reference, watch)};
  plan.files = choose_files(plan.repository, reference);
  cache.prepare(plan.repository.name);
  std::vector<BlobPlan> blobs = blob_plans(cache, plan);
  for (const BlobPlan& blob : blobs) {
    plan.bytes += blob.file.bytes;
    plan.missing += bytes_missing(blob);
  }
  check_room(cache, plan.missing);
  watch.begins(plan);
  std::erase_if(blobs, [](const BlobPlan& blob) { return is_complete(blob); });
  download(settings, blobs, options.jobs, watch);
  cache.publish(plan.repository, plan.files, reference.revision);
  return plan;
}

}  // namespace cheetah::hub
