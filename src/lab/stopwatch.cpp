// SPDX-License-Identifier: MIT
#include "lab/stopwatch.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace cheetah::lab {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr double kMostLaunches = 4096;      // in a batch
constexpr double kMostGraphLaunches = 512;  // in a recorded one

}  // namespace

// The stream is drained after each launch: what is measured is how long the host must wait for it.
double Stopwatch::wall_clock(int launches) {
  double timed = 0;
  bool times_itself = false;
  if (subject_.stream) subject_.stream->wait();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < launches; ++i) {
    if (const auto seconds = subject_.trial.launch(subject_.variant, next_set())) {
      timed += *seconds;
      times_itself = true;
    }
    if (subject_.stream) subject_.stream->wait();
  }
  return times_itself ? timed : seconds_since(start);
}

double Stopwatch::events(int launches) {
  gpu::Event begin(gpu::Event::Timing::kTimed), end(gpu::Event::Timing::kTimed);
  double timed = 0;
  bool times_itself = false;
  begin.record(*subject_.stream);
  for (int i = 0; i < launches; ++i)
    if (const auto seconds = subject_.trial.launch(subject_.variant, next_set())) {
      timed += *seconds;
      times_itself = true;
    }
  end.record(*subject_.stream);
  subject_.stream->wait();
  return times_itself ? timed : gpu::milliseconds_between(begin, end) / 1e3;
}

double Stopwatch::graph() {
  gpu::Event begin(gpu::Event::Timing::kTimed), end(gpu::Event::Timing::kTimed);
  begin.record(*subject_.stream);
  graph_.launch(*subject_.stream);
  end.record(*subject_.stream);
  subject_.stream->wait();
  return gpu::milliseconds_between(begin, end) / 1e3;
}

void Stopwatch::record(int launches) {
  graph_ = gpu::Graph::record(*subject_.stream, [&] {
    for (int i = 0; i < launches; ++i) subject_.trial.launch(subject_.variant, next_set());
  });
}

double Stopwatch::total(int launches) {
  if (graph_) return graph();
  return subject_.timing == Timing::kWallClock ? wall_clock(launches) : events(launches);
}

void Stopwatch::prepare(double sample_s) {
  total(1);
  double once_s = total(1);
  for (int launches = 4; once_s * launches < sample_s / 4 && launches <= 64; launches *= 4)
    once_s = total(launches) / launches;
  const double wanted = std::ceil(sample_s / std::max(once_s, 1e-9));
  const bool records = subject_.timing == Timing::kGraphBatched && wanted > 1;
  // A recorded batch visits the same sets every time: it must visit all of them to outgrow the caches.
  batch_ = static_cast<int>(
      records ? std::clamp<double>(std::max<double>(wanted, subject_.trial.num_sets()), 1, kMostGraphLaunches)
              : std::clamp<double>(wanted, 1, kMostLaunches));
  if (records) record(batch_);
  total(batch_);
}

double Stopwatch::sample() {
  if (subject_.stream) return total(batch_) / batch_;
  // Others on the machine only ever take away: the best of a few pieces is what this code needs.
  constexpr int kPieces = 3;
  constexpr double kLong = 10e-3;  // a launch that long meets its neighbours every time
  double best_s = total(batch_);
  for (int i = 1; i < kPieces && best_s < kLong; ++i) best_s = std::min(best_s, total(batch_));
  return best_s / batch_;
}

}  // namespace cheetah::lab
