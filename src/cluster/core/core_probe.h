// SPDX-License-Identifier: MIT
#pragma once
// For tests of single transitions: a core, a clock that moves when told to, and what the core said last.
#include <gtest/gtest.h>

#include <vector>

#include "cluster/core/router_core.h"
#include "cluster/core/worker_core.h"

namespace cheetah::cluster {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The workers of every test: two that decode, one that prefills, and a router.
inline constexpr WorkerId kDecodeA{0xa}, kDecodeB{0xb}, kPrefillP{0x1f}, kPrefillQ{0x2f}, kRouterR{0x7};
inline constexpr RequestUid kUid{0x1234};
inline constexpr RequestKey key_of(uint32_t attempt) { return {kUid, Attempt{attempt}}; }

inline WorkerDescriptor ready_worker(WorkerId id, Role role, uint64_t epoch = 1) {
  WorkerDescriptor worker;
  worker.id = id;
  worker.role = role;
  worker.state = WorkerState::kReady;
  worker.epoch = epoch;
  worker.wire = kWire.newest;
  worker.kv = {.model = "m",
      .dtype = "F16",
      .order = "keys_by_dimension",
      .page_tokens = 16,
      .num_layers = 2,
      .num_kv_heads = 2,
      .key_dim = 8,
      .value_dim = 8,
      .windows = {0},
      .page_bytes = int64_t{16} * 2 * 2 * 16 * 2};
  return worker;
}

inline GenerationRequest request_of(int64_t prompt_tokens, int n = 1) {
  GenerationRequest request;
  request.prompt.assign(static_cast<size_t>(prompt_tokens), 3);
  request.n = request.best_of = n;
  return request;
}

inline GenerationEvent event_of(std::vector<int32_t> tokens, bool done = false, int choice = 0) {
  GenerationEvent event;
  event.choice = choice;
  for (const int32_t id : tokens) event.tokens.emplace_back().id = id;
  if (done) event.finish = FinishReason::kStop;
  event.done = done;
  return event;
}

inline GenerationEvent error_event(ErrorKind kind) {
  GenerationEvent event;
  event.finish = FinishReason::kError;
  event.error_kind = kind;
  event.error = "the engine failed";
  event.done = true;
  return event;
}

template <class Core, class Input, class Output>
class CoreProbe {
 public:
  template <class... Arguments>
  explicit CoreProbe(Arguments&&... arguments) : core(std::forward<Arguments>(arguments)...) {}

  void tell(Input input) {
    out.clear();
    core.handle(std::move(input), now, out);
    core.check_invariants();
  }
  template <class Said>
  void hear(WorkerId from, Said message) {
    tell(PeerMessage{from, std::move(message)});
  }
  // In small steps, as a process does that ticks; what is said on the way is kept.
  void pass(Duration time, Duration step = milliseconds(50)) {
    std::vector<Output> all;
    for (const Time until = now + time; now < until;) {
      now += step;
      tell(Tick{});
      all.insert(all.end(), out.begin(), out.end());
    }
    out = std::move(all);
  }

  // What it said last, of one kind.
  template <class Kind>
  std::vector<Kind> wanted() const {
    std::vector<Kind> found;
    for (const Output& output : out)
      if (const auto* one = std::get_if<Kind>(&output)) found.push_back(*one);
    return found;
  }
  template <class Said>
  std::vector<std::pair<WorkerId, Said>> sent() const {
    std::vector<std::pair<WorkerId, Said>> found;
    for (const SendMessage& message : wanted<SendMessage>())
      if (const auto* one = std::get_if<Said>(&message.message)) found.emplace_back(message.to, *one);
    return found;
  }
  int64_t counted(Counter counter) const {
    int64_t sum = 0;
    for (const Count& count : wanted<Count>()) sum += count.counter == counter ? count.by : 0;
    return sum;
  }

  Core core;
  Time now = Time{} + std::chrono::hours(1);
  std::vector<Output> out;
};

}  // namespace cheetah::cluster
