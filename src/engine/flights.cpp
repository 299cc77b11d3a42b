// SPDX-License-Identifier: MIT
#include "engine/flights.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace cheetah {

Flights::Flights(Runner& runner, KvPool& kv, PagePool& pool)
    : runner_(runner), kv_(kv), pool_(pool), ring_(static_cast<size_t>(runner.max_steps_in_flight())) {}

// left() is called when the runner throws too: what it throws then takes the place of the runner's.
template <class Call>
auto Flights::guarded(const Call& call) {
  if (!guard_) return call();
  guard_->entered();
  try {
    auto result = call();
    guard_->left();
    return result;
  } catch (const std::exception&) {
    guard_->left();
    throw;
  }
}

Flight& Flights::submit(StepBatch& batch, EngineTime now) {
  const StepTicket ticket = guarded([&] { return runner_.submit(batch.forward(), batch.extras(), kv_); });
  ++count_;
  Flight& flight = *newest();
  flight.number = ++num_submitted_;
  flight.ticket = ticket;
  flight.begun = now;
  flight.shape = batch.shape();
  flight.num_drafted = flight.num_decoding = 0;
  for (const StepWork& work : batch.works()) {
    flight.num_drafted += work.drafted;
    flight.num_decoding += work.count == 1 + work.drafted;
  }
  std::swap(flight.works, batch.works());
  flight.owners.assign(batch.num_samples(), nullptr);
  return flight;
}

Flight& Flights::pop_oldest() {
  Flight& flight = ring_[oldest_];
  oldest_ = (oldest_ + 1) % ring_.size();
  --count_;
  return flight;
}

Flights::Landed Flights::wait() {
  Flight& flight = pop_oldest();
  return {flight, guarded([&] { return runner_.wait(flight.ticket); })};
}

void Flights::close(Flight& flight) {
  for (const PageIndex page : flight.pages) pool_.release(page);
  flight.pages.clear();
  flight.requests.clear();
  flight.works.clear();
  flight.owners.clear();
}

void Flights::drop() {
  while (!empty()) {
    try {
      wait();
    } catch (const std::exception&) {  // its requests have been told
    }
  }
  forget();
}

void Flights::forget() {
  count_ = 0;
  for (Flight& flight : ring_) close(flight);
}

Flight* Flights::newest() { return empty() ? nullptr : &ring_[(oldest_ + count_ - 1) % ring_.size()]; }

std::vector<PageIndex>* Flights::parking() {
  Flight* const flight = newest();
  return flight ? &flight->pages : nullptr;
}

void Flights::keep(std::vector<std::unique_ptr<RequestState>>& finished) {
  if (Flight* const flight = newest()) std::ranges::move(finished, std::back_inserter(flight->requests));
  finished.clear();
}

int64_t Flights::num_held_pages() const {
  int64_t held = 0;
  for (const Flight& flight : ring_) held += std::ssize(flight.pages);
  return held;
}

}  // namespace cheetah
