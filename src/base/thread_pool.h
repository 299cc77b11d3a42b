// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <vector>

namespace cheetah {

// Fork-join workers for kernels. The calling thread is worker 0; workers 1.. wait between jobs, spinning
// briefly (a decode step is dozens of jobs, microseconds apart) and then sleeping, so that an idle pool costs
// nothing. One thread at a time may call run() or parallel_for().
class ThreadPool {
 public:
  struct Options {
    int num_threads = 0;  // 0: one per physical core this process may use
    bool pin = true;      // bind each worker to a core of its own, other than the caller's
  };
  ThreadPool();
  explicit ThreadPool(Options options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }

  // Calls work(worker) once on every worker and returns when all are done. work must not throw.
  template <class Work>
  void run(Work&& work) {
    using Target = std::remove_reference_t<Work>;
    run_erased([](void* context, int worker) { (*static_cast<Target*>(context))(worker); },
        const_cast<void*>(static_cast<const void*>(&work)), Join::kAllWorkers);
  }

  // Splits [0, count) into pieces of `grain` that workers take as they become free: work(begin, end, worker).
  // Does not wait for a worker that has not woken by the time all pieces are taken: on a busy machine the
  // caller does the work.
  template <class Work>
  void parallel_for(int64_t count, int64_t grain, Work&& work) {
    if (count <= 0) return;
    if (num_threads_ == 1 || count <= grain) {
      work(int64_t{0}, count, 0);
      return;
    }
    next_.store(0, std::memory_order_relaxed);
    auto take_pieces = [&](int worker) {
      for (;;) {
        const int64_t begin = next_.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= count) return;
        work(begin, begin + grain < count ? begin + grain : count, worker);
      }
    };
    using Target = decltype(take_pieces);
    run_erased([](void* context, int worker) { (*static_cast<Target*>(context))(worker); }, &take_pieces,
        Join::kWorkersInside);
  }

 private:
  using Erased = void (*)(void*, int);
  enum class Join { kAllWorkers, kWorkersInside };
  void run_erased(Erased call, void* context, Join join);
  void loop(int worker);
  std::optional<uint32_t> enter_job();  // the generation of the open job this worker is now in
  void keep_apart(int worker, int& place) const;

  int num_threads_ = 1;
  std::vector<int> cores_;         // to bind workers to; empty: none are bound
  std::vector<int> place_of_cpu_;  // index in cores_ of each logical processor's core
  int caller_place_ = 0;           // of the job's caller
  Erased call_ = nullptr;
  void* context_ = nullptr;
  alignas(64) std::atomic<uint32_t> generation_{0};  // bumped to start a job
  alignas(64) std::atomic<uint64_t> job_{0};  // generation, open bit, workers inside: see thread_pool.cpp
  alignas(64) std::atomic<int> finished_{0};  // workers done with the job
  alignas(64) std::atomic<int64_t> next_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> workers_;  // last: started when everything above is ready
};

// Cores this process may run on (affinity and cgroup quota respected), one per physical core where known.
std::vector<int> usable_cores();

}  // namespace cheetah
