// SPDX-License-Identifier: MIT
// Order between streams, and between the card and the host: the default stream's barriers, host waits or
// events, and ways for the host to take part in a stream.
#include <atomic>
#include <chrono>

#include "gpu/launch.cuh"
#include "lab/array_trial.h"
#include "lab/experiments/side_streams.h"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 64, kStreams = 4;

// Adds one after waiting about `cycles`.
__global__ void add_later(uint32_t* value, int64_t cycles) {
  if (threadIdx.x != 0) return;
  const int64_t begin = clock64();
  while (clock64() - begin < cycles) {
  }
  atomicAdd(value, 1);
}

// Streams of one kind, destroyed at the end.
class PlainStreams {
 public:
  explicit PlainStreams(unsigned flags) {
    for (cudaStream_t& stream : streams_) gpu::check(cudaStreamCreateWithFlags(&stream, flags));
    for (cudaEvent_t& event : events_) gpu::check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  PlainStreams(const PlainStreams&) = delete;
  PlainStreams& operator=(const PlainStreams&) = delete;
  ~PlainStreams() {
    for (const cudaStream_t stream : streams_) cudaStreamDestroy(stream);
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  cudaStream_t operator[](int index) const { return streams_[index]; }
  void fork(cudaStream_t main) {
    gpu::check(cudaEventRecord(events_[kStreams], main));
    for (const cudaStream_t stream : streams_) gpu::check(cudaStreamWaitEvent(stream, events_[kStreams]));
  }
  void join(cudaStream_t main) {
    for (int i = 0; i < kStreams; ++i) {
      gpu::check(cudaEventRecord(events_[i], streams_[i]));
      gpu::check(cudaStreamWaitEvent(main, events_[i]));
    }
  }

 private:
  cudaStream_t streams_[kStreams] = {};
  cudaEvent_t events_[kStreams + 1] = {};
};

std::unique_ptr<Trial> make_default(const Setup& setup) {
  const int64_t cycles = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto y = trial->output<uint32_t>("y", kStreams + 1);
  trial->set_cost({.roof = Roof::kNone, .items = 2.0 * kStreams + 1, .item = "kernel"});
  trial->reference([=](const HostArrays& host) {
    for (uint32_t& v : host[y]) v = 2;
    host[y][kStreams] = 1;
  });
  // Two kernels a stream, and between them one stray kernel somewhere else.
  const auto add = [&](const char* name, unsigned flags, bool stray_in_default) {
    const auto streams = std::make_shared<PlainStreams>(flags);
    const auto own = std::make_shared<PlainStreams>(cudaStreamNonBlocking);
    trial->variant(name, [=](const Launch& at) {
      const cudaStream_t main = at.stream().handle();
      gpu::fill_bytes(at[y], 0, (kStreams + 1) * 4, at.stream());
      streams->fork(main);
      own->fork(main);
      for (int i = 0; i < kStreams; ++i) add_later<<<1, kThreads, 0, (*streams)[i]>>>(at[y] + i, cycles);
      const cudaStream_t stray = stray_in_default ? cudaStreamLegacy : (*own)[0];
      if (stray_in_default && flags == cudaStreamNonBlocking)
        gpu::check(cudaStreamSynchronize(main));  // y is cleared
      add_later<<<1, kThreads, 0, stray>>>(at[y] + kStreams, cycles);
      for (int i = 0; i < kStreams; ++i) add_later<<<1, kThreads, 0, (*streams)[i]>>>(at[y] + i, cycles);
      streams->join(main);
      own->join(main);
      if (stray_in_default) gpu::check(cudaStreamSynchronize(cudaStreamLegacy));
    });
  };
  add("stray-in-default", cudaStreamDefault, true);
  add("stray-in-own", cudaStreamDefault, false);
  add("non-blocking-streams", cudaStreamNonBlocking, true);
  return trial;
}

const Registered kDefaultStream({
    .id = "ch11/default-stream",
    .title = "One stray kernel in the default stream",
    .question = "What does a kernel in the legacy default stream do to work in other streams?",
    .mechanism =
        "The legacy stream waits for all blocking streams and they wait for it: two waves of four concurrent "
        "kernels and one "
        "stray become three steps in a row. Non-blocking streams, or a stream of its own, leave two.",
    .claim = {.text =
                  "The default stream is a barrier for all blocking streams; non-blocking ones ignore it."},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .variants = {{.name = "stray-in-default", .idea = "blocking streams, the stray kernel in stream 0"},
        {.name = "stray-in-own", .idea = "blocking streams, the stray kernel in a stream of its own"},
        {.name = "non-blocking-streams", .idea = "non-blocking streams, the stray kernel in stream 0"}},
    .sizes = {{.label = "50k cycles per kernel", .dims = {50000}},
        {.label = "500k cycles per kernel", .dims = {500000}}},
    .quick = {{.label = "50k cycles per kernel", .dims = {50000}}},
    .make = make_default,
});

// A chain that changes stream at every step.
constexpr int kSteps = 64;

std::unique_ptr<Trial> make_chain(const Setup& setup) {
  const int64_t cycles = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto y = trial->output<uint32_t>("y", 1);
  trial->set_cost({.roof = Roof::kNone, .items = kSteps, .item = "step"});
  trial->reference([=](const HostArrays& host) { host[y][0] = kSteps; });
  const auto streams = std::make_shared<SideStreams>(setup, 2);
  const auto begin = [=](const Launch& at) {
    gpu::fill_bytes(at[y], 0, 4, at.stream());
    streams->fork(at.stream(), 2);
  };
  const auto add = [&](const char* name, auto hand_over) {
    trial->variant(name, [=](const Launch& at) {
      begin(at);
      for (int step = 0; step < kSteps; ++step) {
        gpu::Stream& stream = (*streams)[step % 2];
        add_later<<<1, kThreads, 0, stream.handle()>>>(at[y], cycles);
        hand_over(stream, (*streams)[(step + 1) % 2]);
      }
      streams->join(at.stream(), 2);
    });
  };
  add("device-sync", [](gpu::Stream&, gpu::Stream&) { gpu::check(cudaDeviceSynchronize()); });
  add("stream-sync", [](gpu::Stream& from, gpu::Stream&) { from.wait(); });
  const auto untimed = std::make_shared<gpu::Event>();
  add("event", [untimed](gpu::Stream& from, gpu::Stream& to) {
    untimed->record(from);
    to.wait_for(*untimed);
  });
  const auto timed = std::make_shared<gpu::Event>(gpu::Event::Timing::kTimed);
  add("timed-event", [timed](gpu::Stream& from, gpu::Stream& to) {
    timed->record(from);
    to.wait_for(*timed);
  });
  return trial;
}

const Registered kChain({
    .id = "ch11/events",
    .title = "From stream to stream: host waits or events",
    .question = "What does it cost to hand work from one stream to another?",
    .mechanism = "A host wait drains the card, wakes the host and pays the next launch in full; an event "
                 "lets the host run ahead and "
                 "the card do the waiting. Events that also take the time write a timestamp each.",
    .claim = {.text =
                  "Events make only the consumer stream wait; disable their timing where it is not needed."},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .variants = {{.name = "device-sync", .idea = "cudaDeviceSynchronize between the steps"},
        {.name = "stream-sync", .idea = "cudaStreamSynchronize between the steps"},
        {.name = "event", .idea = "an event without timing"},
        {.name = "timed-event", .idea = "an event that takes the time"}},
    .sizes = {{.label = "1k cycles per step", .dims = {1000}},
        {.label = "50k cycles per step", .dims = {50000}}},
    .quick = {{.label = "1k cycles per step", .dims = {1000}}},
    .make = make_chain,
});

// The host adds one between any two kernels, in memory both see.
constexpr int kRounds = 32;
constexpr auto kPatience = std::chrono::seconds(5);  // of every host loop here

__global__ void add_one(volatile uint32_t* value) { *value = *value + 1; }
__global__ void add_when_told(volatile uint32_t* value, volatile uint32_t* turn, int rounds) {
  constexpr int64_t kPatienceCycles = int64_t{1}
                                      << 33;  // some seconds: a host that has given up must not hang the card
  const int64_t begin = clock64();
  for (int round = 0; round < rounds; ++round) {
    while (*turn != 2u * round)
      if (clock64() - begin > kPatienceCycles) return;
    __threadfence_system();
    *value = *value + 1;
    __threadfence_system();
    *turn = 2u * round + 1;
  }
}
__global__ void take(volatile uint32_t* value, uint32_t* y) { *y = *value; }

struct Meeting {
  explicit Meeting(const Setup& setup) : memory(256), device(setup.stream->device()) {}
  gpu::PinnedBuffer memory;  // the value, and whose turn it is
  gpu::DeviceInfo device;
  gpu::Event event;
  volatile uint32_t* value() const { return memory.as<uint32_t>(); }
  volatile uint32_t* turn() const { return memory.as<uint32_t>() + 32; }
};

void host_adds(void* meeting) {
  auto* value = static_cast<Meeting*>(meeting)->value();
  *value = *value + 1;
}

std::unique_ptr<Trial> make_callback(const Setup& setup) {
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto y = trial->output<uint32_t>("y", 1);
  trial->set_cost({.roof = Roof::kNone, .items = kRounds, .item = "round"});
  trial->reference([=](const HostArrays& host) { host[y][0] = 2 * kRounds; });
  const auto meeting = std::make_shared<Meeting>(setup);
  const auto add = [&](const char* name, auto between) {
    trial->variant(name, [=](const Launch& at) {
      at.stream().wait();
      *meeting->value() = 0;
      for (int round = 0; round < kRounds; ++round) {
        add_one<<<1, 1, 0, at.stream().handle()>>>(meeting->value());
        between(at.stream());
      }
      take<<<1, 1, 0, at.stream().handle()>>>(meeting->value(), at[y]);
    });
  };
  add("stream-sync", [meeting](gpu::Stream& stream) {
    stream.wait();
    host_adds(meeting.get());
  });
  add("poll-event", [meeting](gpu::Stream& stream) {
    meeting->event.record(stream);
    while (!meeting->event.done()) {
    }
    host_adds(meeting.get());
  });
  add("host-function", [meeting](gpu::Stream& stream) {
    gpu::check(cudaLaunchHostFunc(stream.handle(), host_adds, meeting.get()));
  });
  trial->variant("resident-kernel", [=](const Launch& at) {
    at.stream().wait();
    *meeting->value() = 0;
    *meeting->turn() = 0;
    add_when_told<<<1, 1, 0, at.stream().handle()>>>(meeting->value(), meeting->turn(), kRounds);
    for (uint32_t round = 0; round < kRounds; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      while (*meeting->turn() != 2 * round + 1)
        if (std::chrono::steady_clock::now() - begin > kPatience)
          throw Error("resident kernel: no answer from the device");
      std::atomic_thread_fence(std::memory_order_acquire);
      host_adds(meeting.get());
      std::atomic_thread_fence(std::memory_order_release);
      *meeting->turn() = 2 * round + 2;
    }
    take<<<1, 1, 0, at.stream().handle()>>>(meeting->value(), at[y]);
  });
  return trial;
}

const Registered kCallback({
    .id = "ch11/host-in-the-loop",
    .title = "The host takes part between two kernels",
    .question = "How fast can the host answer the card?",
    .mechanism = "Waiting for the stream costs a wake-up and a launch a round; polling an event saves the "
                 "wake-up. A host function in "
                 "the stream needs no waiting thread, but the driver's own thread must be woken. A kernel "
                 "that stays and polls "
                 "memory both see exchanges only the link's latency.",
    .claim = {.text = "Host functions in a stream recycle buffers without polling; no number is given.",
        .variant = "host-function"},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .variants = {{.name = "stream-sync", .idea = "cudaStreamSynchronize, add, launch"},
        {.name = "poll-event", .idea = "cudaEventQuery in a loop, add, launch"},
        {.name = "host-function", .idea = "cudaLaunchHostFunc between the kernels"},
        {.name = "resident-kernel", .idea = "one kernel and the host take turns on a flag"}},
    .sizes = {{.label = "32 rounds", .dims = {kRounds}}},
    .make = make_callback,
});

}  // namespace
}  // namespace cheetah::lab
