// SPDX-License-Identifier: MIT
// The same fork-join work on threads that stay on their core and on threads that may move.
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

void scale_pieces(ThreadPool& pool, const float* x, float* y, int64_t n) {
  const int threads = pool.num_threads();
  pool.run([&](int worker) {
    for (int64_t i = n * worker / threads; i < n * (worker + 1) / threads; ++i) y[i] = 2 * x[i];
  });
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n);
  const auto y = trial->output<float>("y", n);
  const auto count = static_cast<double>(n);
  trial->set_cost({.flops = count, .bytes = 8 * count, .roof = Roof::kNone, .items = 1, .item = "job"});
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < host[x].size(); ++i) host[y][i] = 2 * host[x][i];
  });
  const auto add = [&](std::string_view name, bool pin) {
    const auto pool = std::make_shared<ThreadPool>(ThreadPool::Options{.num_threads = 0, .pin = pin});
    trial->variant(name, [=](const Launch& at) { scale_pieces(*pool, at[x], at[y], n); });
  };
  add("free", false);
  add("pinned", true);
  return trial;
}

const Registered kPinning({
    .id = "cpu/pinning",
    .title = "Pinned threads",
    .question = "Does it help to bind workers to cores?",
    .mechanism =
        "A worker that stays where its share of the data was last keeps it in that core's cache and memory "
        "node. Free threads move when the system is busy; on an idle machine of one node they rarely do.",
    .claim = {.text = "Pin workers to cores and NUMA nodes near their data: 5 to 10 % is typical."},
    .domain = Domain::kCpu,
    .rotation = Rotation::kHot,
    .variants = {{"free", "the kernel places the workers"}, {"pinned", "worker i stays on core i"}},
    .sizes = sizes_of({1 << 15, 1 << 18}),
    .quick = sizes_of({1 << 16}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
