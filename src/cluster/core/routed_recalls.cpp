// SPDX-License-Identifier: MIT
// A client whose router died comes to this one for the rest of its answer. The worker that had the request has
// stopped, but knows what it said: from those tokens on the answer is the same wherever it is generated, and where
// nobody knows them any more, from the beginning.
#include <algorithm>
#include <utility>

#include "cluster/core/routed_requests.h"

namespace cheetah::cluster {
namespace {

constexpr uint16_t kRecallsSince = 5;  // of the wire
// A router that has just started does not know all workers yet: those that say no are not the last word.
constexpr Duration kSettles = std::chrono::seconds(3);

// Of one whose choices compete nothing goes out before the end, and an embedding has no tokens: run again
// from the start, which gives the same.
bool resumable(const GenerationRequest& request) {
  return request.best_of <= request.n && request.pooling == Pooling::kNone;
}

}  // namespace

void RoutedRequests::ask_around(Request& request, RouterStep& step) {
  for (const auto& [id, worker] : workers_.all()) {
    if (!worker.linked || worker.silent || !worker.described || !worker.decodes()) continue;
    if (!request.asked.insert(id).second) continue;
    if (!request.recall_until) request.recall_until = step.now + config_.recall_wait;
    if (worker.descriptor.wire < kRecallsSince) continue;  // remembers nothing
    request.silent.insert(id);
    step.say(id, Recall{request.client.uid, request.client.recall});
  }
  schedule(request, step.now);
}

void RoutedRequests::hear(WorkerId from, Recalled& message, RouterStep& step) {
  const auto found = requests_.find(message.uid);
  if (found == requests_.end() || !found->second->recalling) return step.count(Counter::kStaleDropped);
  Request& request = *found->second;
  if (request.silent.erase(from) == 0) return step.count(Counter::kDuplicatesDropped);
  if (!message.known) {
    const bool settled = began_ && step.now - *began_ >= kSettles;
    if (settled && request.silent.empty()) end_recall(request, step);
    return;
  }
  request.remembers = from;
  request.client.request.max_tokens = message.max_tokens;  // admission may have made them fewer
  request.client.request.min_tokens = message.min_tokens;
  // Tokens alone do not tell how far Mirostat had come: such an answer is computed again from its start.
  const GenerationRequest& wanted = request.client.request;
  if (message.choices.size() == request.got.size() && resumable(wanted) && !wanted.sampling.uses_mirostat()) {
    request.known = std::move(message.choices);
    for (size_t i = 0; i < request.known.size(); ++i) {
      const int64_t has = i < request.client.has->size() ? (*request.client.has)[i] : 0;
      request.known[i].resize(
          std::min(request.known[i].size(), static_cast<size_t>(std::max<int64_t>(0, has))));
    }
  }
  end_recall(request, step);
}

// One that a worker remembers was admitted once.
void RoutedRequests::end_recall(Request& request, RouterStep& step) {
  request.recalling = false;
  request.recall_until.reset();
  step.count(request.remembers ? Counter::kResumed : Counter::kResumedAnew);
  if (request.remembers || admit(request, step)) place(request, step);
}

std::optional<Placement> where_remembered(
    const PlacedRequest& request, const KnownWorkers& workers, Time now) {
  if (!request.remembers || request.attempts > 0) return std::nullopt;
  const auto known = workers.find(*request.remembers);
  if (known == workers.end() || !known->second.usable(now)) return std::nullopt;
  return Placement{
      .decode = request.remembers, .why = "it has answered the beginning", .worker_reason = "resumed"};
}

void add_resume(
    const PlacedRequest& request, const KnownWorkers& workers, WorkerId worker, Generate& generate) {
  if (!resumable(request.client.request)) return;
  std::vector<ResumedChoice> before = request.got;
  bool again = false;
  const auto known = workers.find(worker);
  const bool can_say_again = known != workers.end() && known->second.descriptor.wire >= kRecallsSince;
  for (size_t i = 0; i < request.known.size() && can_say_again; ++i) {
    if (before[i].finished || request.known[i].size() <= before[i].tokens.size()) continue;
    before[i].tokens = request.known[i];
    again = true;
  }
  const bool any = std::any_of(before.begin(), before.end(),
      [](const ResumedChoice& choice) { return choice.finished || !choice.tokens.empty(); });
  if (!any) return;
  generate.resume = std::move(before);
  if (!again) return;
  for (const ResumedChoice& choice : request.got)
    generate.told.push_back(static_cast<int64_t>(choice.tokens.size()));
}

}  // namespace cheetah::cluster
