// SPDX-License-Identifier: MIT
#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "base/error.h"

namespace cheetah {
namespace {

constexpr int kSpins = 4000;  // about 50 us: longer than the gap between two kernels of a step

// A job's word: generation in the high half, then whether workers may still enter, then how many are inside.
// Entering and closing are one atomic step each, so a late worker either counts or stays out.
constexpr uint64_t kOpen = uint64_t{1} << 31;
constexpr uint64_t kInside = kOpen - 1;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

template <class Done>
void wait_for(Done done) {
  for (int spins = 0; !done(); ++spins) {
    if (spins < kSpins)
      pause();
    else
      std::this_thread::yield();
  }
}

// The first sibling of each physical core, from sysfs; the core itself where sysfs does not say.
int first_sibling(int core) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(core) + "/topology/thread_siblings_list");
  int first = core;
  if (!(file >> first)) return core;
  return first;
}

// The cgroup v2 CPU quota in cores, or a large number.
double cgroup_quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 1e9;
  return std::max(1.0, std::atof(quota.c_str()) / period);
}

// Index in `cores` of the core each logical processor belongs to; 0 where it belongs to none of them.
std::vector<int> places_of_cpus(const std::vector<int>& cores) {
  std::vector<int> places(CPU_SETSIZE, 0);
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return places;
  std::map<int, int> place_of_core;
  for (size_t i = 0; i < cores.size(); ++i) place_of_core[first_sibling(cores[i])] = static_cast<int>(i);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    const auto found = place_of_core.find(first_sibling(cpu));
    if (found != place_of_core.end()) places[static_cast<size_t>(cpu)] = found->second;
  }
  return places;
}

}  // namespace

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  std::set<int> seen;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set) && seen.insert(first_sibling(core)).second) cores.push_back(core);
  const auto quota = static_cast<size_t>(std::min(1e6, std::ceil(cgroup_quota())));
  if (cores.size() > quota) cores.resize(quota);
  if (cores.empty()) cores.push_back(0);
  return cores;
}

ThreadPool::ThreadPool() : ThreadPool(Options{}) {}

ThreadPool::ThreadPool(Options options) {
  const std::vector<int> cores = usable_cores();
  num_threads_ = options.num_threads > 0 ? options.num_threads : static_cast<int>(cores.size());
  if (options.pin && num_threads_ <= static_cast<int>(cores.size())) {
    cores_ = cores;
    place_of_cpu_ = places_of_cpus(cores);
  }
  workers_.reserve(static_cast<size_t>(num_threads_ - 1));
  for (int worker = 1; worker < num_threads_; ++worker)
    workers_.emplace_back([this, worker] { loop(worker); });
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run_erased(Erased call, void* context, Join join) {
  if (num_threads_ == 1) return call(context, 0);
  CHEETAH_ASSERT(
      (job_.load(std::memory_order_relaxed) & (kOpen | kInside)) == 0, "two jobs at once in one thread pool");
  call_ = call;
  context_ = context;
  finished_.store(0, std::memory_order_relaxed);
  if (!cores_.empty()) {
    const int cpu = sched_getcpu();
    caller_place_ = cpu >= 0 && cpu < CPU_SETSIZE ? place_of_cpu_[static_cast<size_t>(cpu)] : 0;
  }
  const uint32_t generation = generation_.load(std::memory_order_relaxed) + 1;
  job_.store(uint64_t{generation} << 32 | kOpen, std::memory_order_release);
  generation_.store(generation, std::memory_order_release);
  generation_.notify_all();
  call(context, 0);
  if (join == Join::kAllWorkers)
    wait_for([this] { return finished_.load(std::memory_order_acquire) == num_threads_ - 1; });
  job_.fetch_and(~kOpen, std::memory_order_acq_rel);
  wait_for([this] { return (job_.load(std::memory_order_acquire) & kInside) == 0; });
}

std::optional<uint32_t> ThreadPool::enter_job() {
  uint64_t job = job_.load(std::memory_order_relaxed);
  while (job & kOpen)
    if (job_.compare_exchange_weak(job, job + 1, std::memory_order_acquire, std::memory_order_relaxed))
      return static_cast<uint32_t>(job >> 32);
  return std::nullopt;
}

// Moves a worker off the core that the system moved the caller to. Otherwise the two would take turns on that core
// for as long as a busy system does not part them.
void ThreadPool::keep_apart(int worker, int& place) const {
  const int wanted = (caller_place_ + worker) % static_cast<int>(cores_.size());
  if (wanted == place) return;
  place = wanted;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cores_[static_cast<size_t>(wanted)], &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);  // best effort
}

void ThreadPool::loop(int worker) {
  uint32_t seen = 0;
  int place = -1;  // in cores_, of this worker
  for (;;) {
    for (int spins = 0; spins < kSpins && generation_.load(std::memory_order_acquire) == seen; ++spins)
      pause();
    generation_.wait(seen, std::memory_order_acquire);
    seen = generation_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    const std::optional<uint32_t> entered = enter_job();
    if (!entered) continue;
    seen = *entered;  // it may be a newer job than the one that woke this worker: never run one twice
    if (!cores_.empty()) keep_apart(worker, place);
    call_(context_, worker);
    finished_.fetch_add(1, std::memory_order_release);
    job_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace cheetah
