// SPDX-License-Identifier: MIT
// A short job on all cores: threads started for it, or workers that wait for it.
#include <thread>

#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n);
  const auto y = trial->output<float>("y", n);
  trial->set_cost({.roof = Roof::kNone, .items = 1, .item = "job"});
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < host[x].size(); ++i) host[y][i] = host[x][i] + 1;
  });
  const auto piece = [=](const Launch& at, int worker, int threads) {
    for (int64_t i = n * worker / threads; i < n * (worker + 1) / threads; ++i) at[y][i] = at[x][i] + 1;
  };
  trial->variant("threads", [=](const Launch& at) {
    const int threads = at.threads().num_threads();
    std::vector<std::jthread> started;
    for (int worker = 1; worker < threads; ++worker)
      started.emplace_back([&, worker] { piece(at, worker, threads); });
    piece(at, 0, threads);
  });
  trial->variant("pool", [=](const Launch& at) {
    const int threads = at.threads().num_threads();
    at.threads().run([&](int worker) { piece(at, worker, threads); });
  });
  trial->variant("this thread", [=](const Launch& at) { piece(at, 0, 1); });
  return trial;
}

const Registered kThreadStart({
    .id = "cpu/thread-start",
    .title = "Starting threads",
    .question = "From what size on is a job worth other threads?",
    .mechanism = "Starting a thread costs tens of microseconds, waking a worker one or two, doing it here "
                 "nothing. The "
                 "twin of launch overhead: small jobs belong together or stay where they are.",
    .claim = {.text = "Launch overhead dominates small kernels: batch them, or keep one running."},
    .domain = Domain::kCpu,
    .rotation = Rotation::kHot,
    .variants = {{"threads", "started and joined each time"}, {"pool", "workers that wait for jobs"},
        {"this thread", "no other thread at all"}},
    .sizes = sizes_of({1 << 10, 1 << 14, 1 << 18}),
    .quick = sizes_of({1 << 13}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
