// SPDX-License-Identifier: MIT
#pragma once
// Events on their way to the sinks of their requests.
#include <memory>
#include <utility>
#include <vector>

#include "engine/sequence.h"

namespace cheetah {

// Owns finished requests until their last events are delivered. One thread.
class Outbox {
 public:
  void send(RequestState& request, GenerationEvent&& event) {
    events_.push_back({&request, std::move(event)});
  }
  // What the sequence has gathered since it was sent last.
  void send(Sequence& sequence) {
    GenerationEvent next;
    next.request = sequence.event.request;
    next.choice = sequence.event.choice;
    send(*sequence.request, std::exchange(sequence.event, std::move(next)));
  }
  void keep(std::unique_ptr<RequestState> finished) { finished_.push_back(std::move(finished)); }

  // Calls the sinks. One that throws has lost its client: it is not called again, and lose(RequestState&) may
  // send more events.
  template <class Lose>
  void deliver(const Lose& lose) {
    for (size_t i = 0; i < events_.size(); ++i) {  // by index: lose() may add events
      RequestState& request = *events_[i].request;
      if (!request.sink) continue;
      try {
        request.sink(std::move(events_[i].event));
      } catch (...) {
        request.sink = nullptr;
        lose(request);
      }
    }
    events_.clear();
  }
  std::vector<std::unique_ptr<RequestState>>& finished() { return finished_; }

 private:
  struct Outgoing {
    RequestState* request = nullptr;
    GenerationEvent event;
  };
  std::vector<Outgoing> events_;
  std::vector<std::unique_ptr<RequestState>> finished_;
};

}  // namespace cheetah
