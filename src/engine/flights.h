// SPDX-License-Identifier: MIT
#pragma once
// Steps that were submitted to the runner and not yet waited for.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/step_batch.h"

namespace cheetah {

struct Flight {
  uint64_t number = 0;  // of all steps submitted
  StepTicket ticket{};
  std::vector<StepWork> works;
  std::vector<Sequence*> owners;  // of the tokens it chooses
  StepShape shape;
  EngineTime begun;
  int64_t num_drafted = 0;   // of its tokens
  int64_t num_decoding = 0;  // of its works, those of one token and what was drafted behind it
  bool only_decodes() const { return num_decoding == std::ssize(works); }
  // Of sequences and requests that ended meanwhile: the step may still write to them.
  std::vector<PageIndex> pages;
  std::vector<std::unique_ptr<RequestState>> requests;
};

// Told before and after each call into the runner, which may block on a device. left() may throw: the engine was
// given up meanwhile and its thread must not touch it again.
class RunnerGuard {
 public:
  virtual ~RunnerGuard() = default;
  virtual void entered() {}
  virtual void left() {}
};

// A ring of as many steps as the runner takes at once, oldest first. One thread.
class Flights {
 public:
  Flights(Runner& runner, KvPool& kv, PagePool& pool);
  void set_guard(RunnerGuard* guard) { guard_ = guard; }  // nullptr: none; outlives this

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == ring_.size(); }
  bool takes_several() const { return ring_.size() > 1; }
  // Takes the batch's works. Throws, with nothing changed, when the runner does not take the batch.
  Flight& submit(StepBatch& batch, EngineTime now);
  // Waits for the oldest step. It leaves the ring at once, so that a step that fails is waited for once. The
  // result lives until the next submit() or wait(); close() the flight before that.
  struct Landed {
    Flight& flight;
    StepResult result;
  };
  Landed wait();
  void close(Flight& flight);
  void drop();    // waits for all, whatever they bring
  void forget();  // does not wait: the device is given up

  // Where pages go that the newest step may still write to; nullptr: no step is in flight.
  std::vector<PageIndex>* parking();
  // Keeps finished requests until the newest step is done, or frees them now.
  void keep(std::vector<std::unique_ptr<RequestState>>& finished);

  int64_t num_held_pages() const;
  std::string device_fault() const { return runner_.device_fault(); }
  std::string launch_log() const { return runner_.launch_log(); }
  // Calls visit(const Flight&) for each that was not closed, the one being waited for among them.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const Flight& flight : ring_)
      if (!flight.works.empty()) visit(flight);
  }

 private:
  Flight* newest();
  Flight& pop_oldest();
  template <class Call>
  auto guarded(const Call& call);

  Runner& runner_;
  KvPool& kv_;
  PagePool& pool_;
  RunnerGuard* guard_ = nullptr;
  std::vector<Flight> ring_;
  size_t oldest_ = 0, count_ = 0;
  uint64_t num_submitted_ = 0;
};

}  // namespace cheetah
