// SPDX-License-Identifier: MIT
// Tasks of very unequal length: split in advance, taken one by one, taken in pieces, stolen.
#include <atomic>
#include <cmath>

#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

// `rounds` steps of a sequence that cannot be shortened.
uint32_t work(int32_t rounds) {
  uint32_t state = static_cast<uint32_t>(rounds) + 1;
  for (int32_t i = 0; i < rounds; ++i) state = state * 1664525u + 1013904223u;
  return state;
}

// A thread's own tasks, [next, end): the owner takes from the front, and so do thieves, by the same counter.
struct alignas(128) Queue {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
};

void run_stealing(const Launch& at, const int32_t* rounds, uint32_t* out, int64_t n) {
  const int threads = at.threads().num_threads();
  std::vector<Queue> queues(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    queues[static_cast<size_t>(i)].next = n * i / threads;
    queues[static_cast<size_t>(i)].end = n * (i + 1) / threads;
  }
  at.threads().run([&](int worker) {
    for (int victim = 0; victim < threads; ++victim) {
      Queue& queue = queues[static_cast<size_t>((worker + victim) % threads)];
      for (int64_t task; (task = queue.next.fetch_add(1, std::memory_order_relaxed)) < queue.end;)
        out[task] = work(rounds[task]);
    }
  });
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  // The long tasks stand together: half of the work in the first sixteenth.
  const auto rounds = trial->input_from<int32_t>("rounds", n, [n](std::span<int32_t> to, uint64_t seed) {
    for (int64_t i = 0; i < n; ++i)
      to[static_cast<size_t>(i)] = static_cast<int32_t>(
          (i < n / 16 ? 3000 : 200) * (0.5 + uniform_at(seed, static_cast<uint64_t>(i))));
  });
  const auto out = trial->output<uint32_t>("out", n);
  trial->set_cost({.roof = Roof::kNone, .items = static_cast<double>(n), .item = "task"});
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < host[out].size(); ++i) host[out][i] = work(host[rounds][i]);
  });
  trial->variant("split in advance", [=](const Launch& at) {
    const int threads = at.threads().num_threads();
    at.threads().run([&](int worker) {
      for (int64_t i = n * worker / threads; i < n * (worker + 1) / threads; ++i)
        at[out][i] = work(at[rounds][i]);
    });
  });
  const auto shared = [&](std::string_view name, int64_t grain) {
    trial->variant(name, [=](const Launch& at) {
      at.threads().parallel_for(n, grain, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) at[out][i] = work(at[rounds][i]);
      });
    });
  };
  shared("shared, 1 a time", 1);
  shared("shared, 16 a time", 16);
  trial->variant("stealing", [=](const Launch& at) { run_stealing(at, at[rounds], at[out], n); });
  return trial;
}

const Registered kWorkSharing({
    .id = "cpu/work-sharing",
    .title = "Static split, shared queue, stealing",
    .question = "How should tasks of unequal length be shared out?",
    .mechanism =
        "Split in advance, the thread with the long tasks finishes last and the others wait. A shared counter "
        "evens it out at one atomic a piece; stealing does so only at the end.",
    .claim = {.text = "An atomic work queue keeps all SMs busy on irregular work where a static split leaves "
                      "them idle."},
    .domain = Domain::kCpu,
    .rotation = Rotation::kHot,
    .variants = {{"split in advance", "equal counts, one piece a thread"},
        {"shared, 1 a time", "an atomic counter, task by task"},
        {"shared, 16 a time", "an atomic counter, sixteen tasks a time"},
        {"stealing", "one's own share first, then the others'"}},
    .sizes = sizes_of({1 << 11, 1 << 14}),
    .quick = sizes_of({1 << 12}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
