// SPDX-License-Identifier: MIT
#include "cluster/policy/since_report.h"

#include <algorithm>

namespace cheetah::cluster {
namespace {

constexpr size_t kMostNews = 4096;  // of one worker between two of its reports

}  // namespace

void SinceReport::sent(WorkerId worker, const RouteRequest& request, Time now) {
  std::deque<Sent>& sent = news_[worker].sent;
  if (sent.size() >= kMostNews) sent.pop_front();
  sent.push_back({.uid = request.key.uid,
      .at = now,
      .choices = request.choices,
      .tokens = effective_tokens(request, worker)});
  places_[request.key.uid] = {worker, now};
}

void SinceReport::ended(RequestUid uid, Time now) {
  const auto node = places_.extract(uid);
  if (!node) return;
  const auto its = news_.find(node.mapped().worker);
  if (its == news_.end()) return;  // the worker is forgotten
  News& news = its->second;
  std::erase_if(news.sent, [&](const Sent& one) { return one.uid == uid; });
  if (news.ended.size() >= kMostNews) news.ended.pop_front();
  news.ended.push_back({node.mapped().at, now});
}

void SinceReport::forget(WorkerId worker) { news_.erase(worker); }

void SinceReport::bring_up_to_date(WorkerView& worker, Time reported) {
  const auto its = news_.find(worker.descriptor.id);
  if (its == news_.end()) return;
  auto& [sent, ended] = its->second;
  while (!sent.empty() && sent.front().at < reported) sent.pop_front();
  while (!ended.empty() && ended.front().at < reported) ended.pop_front();
  for (const Sent& one : sent) {
    worker.sent_choices += one.choices;
    worker.sent_prefill_tokens += one.tokens;
  }
  // One that came and went between two reports is in neither. Of one with several choices the last is gone at
  // least.
  const int64_t gone = std::ranges::count_if(ended, [&](const Ended& one) { return one.sent < reported; });
  const int64_t ran = std::min(gone, worker.load.running);
  worker.load.running -= ran;
  worker.load.waiting -= std::min(gone - ran, worker.load.waiting);
}

}  // namespace cheetah::cluster
