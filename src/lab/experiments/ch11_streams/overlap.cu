// SPDX-License-Identifier: MIT
// Copies beside kernels: a batch goes to the card, is worked on, and comes back, in pieces over several
// streams.
#include <algorithm>

#include "gpu/launch.cuh"
#include "lab/array_trial.h"
#include "lab/experiments/device_scratch.h"
#include "lab/experiments/side_streams.h"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256, kRounds = 768;  // about as long on the card as the copies there

__global__ __launch_bounds__(kThreads) void work(const float* x, float* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  for (int round = 0; round < kRounds; ++round) v = fmaf(v, 0.75f, x[i]);  // tends to 4 x
  y[i] = v;
}

// Host and device buffers of a pipeline. The harness's input lies on the device; the first launch after new
// inputs, never a timed one, brings it to the host, and afterwards the host's results to the checked output.
struct Batch {
  Batch(const Setup& setup, int64_t n)
      : pinned_in(n * 4),
        pinned_out(n * 4),
        pageable_in(static_cast<size_t>(n)),
        pageable_out(static_cast<size_t>(n)),
        device_in(setup, n),
        device_out(setup, n),
        streams(setup, 3) {}
  gpu::PinnedBuffer pinned_in, pinned_out;
  std::vector<float> pageable_in, pageable_out;
  DeviceScratch<float> device_in, device_out;
  SideStreams streams;
  int generation = 0;  // counts fills
};

struct Way {
  bool pinned = true;
  int pieces = 1;
  int streams = 1;
};

void run_pieces(Batch& batch, const Way& way, int64_t n, gpu::Stream& main) {
  const float* in = way.pinned ? batch.pinned_in.as<float>() : batch.pageable_in.data();
  float* out = way.pinned ? batch.pinned_out.as<float>() : batch.pageable_out.data();
  const int64_t piece = n / way.pieces;
  batch.streams.fork(main, way.streams);
  for (int p = 0; p < way.pieces; ++p) {
    gpu::Stream& stream = batch.streams[p % way.streams];
    const int64_t at = p * piece;
    float *device_in = batch.device_in.data() + at, *device_out = batch.device_out.data() + at;
    gpu::copy_to_device(device_in, in + at, piece * 4, stream);
    gpu::launch({.kernel = "work", .grid = {(piece + kThreads - 1) / kThreads}, .block = {kThreads}}, stream,
        work, device_in, device_out, piece);
    gpu::copy_to_host(out + at, device_out, piece * 4, stream);
  }
  batch.streams.join(main, way.streams);
}

void add_way(ArrayTrial& trial, const char* name, const std::shared_ptr<Batch>& batch, Array<float> x,
    Array<float> y, const Way& way) {
  const auto seen = std::make_shared<int>(-1);
  trial.variant(name, [=](const Launch& at) {
    const int64_t n = x.count;
    const bool fresh = *seen != batch->generation;
    if (fresh) {
      gpu::copy_to_host(batch->pinned_in.data(), at[x], n * 4, at.stream());
      at.stream().wait();
      std::copy_n(batch->pinned_in.as<float>(), n, batch->pageable_in.begin());
      std::fill_n(batch->pinned_out.as<float>(), n, 0.f);
      std::fill(batch->pageable_out.begin(), batch->pageable_out.end(), 0.f);
      *seen = batch->generation;
    }
    run_pieces(*batch, way, n, at.stream());
    if (fresh) {
      at.stream().wait();
      gpu::copy_to_device(
          at[y], way.pinned ? batch->pinned_out.as<float>() : batch->pageable_out.data(), n * 4, at.stream());
      at.stream().wait();
    }
  });
}

struct Declared {
  std::unique_ptr<ArrayTrial> trial;
  std::shared_ptr<Batch> batch;
  Array<float> x, y;
};
Declared declare(const Setup& setup, int64_t n) {
  Declared d{std::make_unique<ArrayTrial>(setup), std::make_shared<Batch>(setup, n), {}, {}};
  d.x = d.trial->input_from<float>("x", n, [batch = d.batch](std::span<float> values, uint64_t seed) {
    ++batch->generation;
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(uniform_at(seed, i));
  });
  d.y = d.trial->output<float>("y", n);
  d.trial->set_cost({.flops = 2.0 * n * kRounds, .bytes = 4.0 * n, .roof = Roof::kHostLink});
  d.trial->reference([x = d.x, y = d.y](const HostArrays& host) {
    for (size_t i = 0; i < host[y].size(); ++i) host[y][i] = 4 * host[x][i];
  });
  return d;
}

std::unique_ptr<Trial> make_overlap(const Setup& setup) {
  Declared d = declare(setup, setup.dim(0));
  add_way(*d.trial, "pageable", d.batch, d.x, d.y, {.pinned = false});
  add_way(*d.trial, "pinned", d.batch, d.x, d.y, {});
  add_way(*d.trial, "two-streams", d.batch, d.x, d.y, {.pieces = 8, .streams = 2});
  add_way(*d.trial, "three-streams", d.batch, d.x, d.y, {.pieces = 8, .streams = 3});
  return std::move(d.trial);
}

const Registered kOverlap({
    .id = "ch11/copy-compute-overlap",
    .title = "Copies in, kernel, copies out",
    .question = "How much of the copies can hide behind the kernel and behind each other?",
    .mechanism = "Copy engines for each direction and the SMs work at the same time, if the host memory is "
                 "page-locked and the "
                 "pieces are in different streams: three equal parts overlap to a third and the ends. "
                 "Pageable memory is staged "
                 "by the driver and holds the host up.",
    .claim = {.text = "Three-way overlap runs the kernel of batch i beside the copies of i+1 and i-1; no "
                      "number is given."},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .variants = {{.name = "pageable", .idea = "one stream, ordinary host memory"},
        {.name = "pinned", .idea = "one stream, page-locked host memory"},
        {.name = "two-streams", .idea = "eight pieces over two streams"},
        {.name = "three-streams", .idea = "eight pieces over three streams"}},
    .sizes = sizes_of({1 << 18, 1 << 22, 1 << 25}),
    .quick = sizes_of({1 << 18}),
    .tolerance = {.relative = 1e-4, .absolute = 1e-5},
    .make = make_overlap,
});

std::unique_ptr<Trial> make_pieces(const Setup& setup) {
  Declared d = declare(setup, setup.dim(0));
  add_way(*d.trial, "1-piece", d.batch, d.x, d.y, {.pieces = 1, .streams = 3});
  add_way(*d.trial, "4-pieces", d.batch, d.x, d.y, {.pieces = 4, .streams = 3});
  add_way(*d.trial, "16-pieces", d.batch, d.x, d.y, {.pieces = 16, .streams = 3});
  add_way(*d.trial, "64-pieces", d.batch, d.x, d.y, {.pieces = 64, .streams = 3});
  add_way(*d.trial, "256-pieces", d.batch, d.x, d.y, {.pieces = 256, .streams = 3});
  return std::move(d.trial);
}

const Registered kPieces({
    .id = "ch11/chunk-size",
    .title = "How finely to cut a pipelined batch",
    .question = "Into how many pieces should a batch be cut for three-way overlap?",
    .mechanism = "Few pieces leave long ends where only one engine works; many small ones pay a launch and "
                 "two copies of fixed cost "
                 "each, and small copies do not reach the link's rate.",
    .claim = {.text = "Too small pieces under-use the engines, too large ones stall: tune the size."},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .variants = {{.name = "1-piece", .idea = "no overlap"},
        {.name = "4-pieces", .idea = "over three streams"},
        {.name = "16-pieces", .idea = "over three streams"},
        {.name = "64-pieces", .idea = "over three streams"},
        {.name = "256-pieces", .idea = "over three streams"}},
    .sizes = sizes_of({1 << 20, 1 << 24}),
    .quick = sizes_of({1 << 20}),
    .tolerance = {.relative = 1e-4, .absolute = 1e-5},
    .make = make_pieces,
});

}  // namespace
}  // namespace cheetah::lab
