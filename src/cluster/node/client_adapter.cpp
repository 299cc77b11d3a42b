// SPDX-License-Identifier: MIT
#include "cluster/node/client_adapter.h"

#include <utility>

#include "base/time.h"

namespace cheetah::cluster {
namespace {}  // namespace

ClientAdapter::ClientAdapter(WorkerId router) : router_(router), stats_(empty_stats()), published_(stats_) {}

RequestUid ClientAdapter::add(RequestId id, EventSink sink, Time now) {
  const RequestUid uid = make_uid(router_, next_++);
  clients_.emplace(uid, Client{.id = id, .sink = std::move(sink), .arrived = now});
  uids_[id] = uid;
  ++stats_.running;
  return uid;
}

std::optional<RequestUid> ClientAdapter::find(RequestId id) const {
  const auto found = uids_.find(id);
  if (found == uids_.end()) return std::nullopt;
  return found->second;
}

std::vector<RequestUid> ClientAdapter::all() const {
  std::vector<RequestUid> uids;
  for (const auto& [uid, client] : clients_) uids.push_back(uid);
  return uids;
}

bool ClientAdapter::emit(Emit&& emit, Time now) {
  const auto found = clients_.find(emit.uid);
  if (found == clients_.end()) return true;
  Client& client = found->second;
  observe(client, emit.event, now);
  emit.event.request = client.id;
  emit.event.made = now;
  const bool done = emit.event.done, had_failed = client.sink_failed;
  try {
    if (!client.sink_failed) client.sink(std::move(emit.event));
  } catch (...) {  // a sink's trouble is its own: the contract says that it is not called again
    client.sink_failed = true;
  }
  const bool newly_failed = client.sink_failed && !had_failed;
  if (done) {
    uids_.erase(client.id);
    clients_.erase(found);
    --stats_.running;
  }
  return !newly_failed || done;
}

void ClientAdapter::observe(Client& client, const GenerationEvent& event, Time now) {
  ++stats_.steps;
  if (!event.tokens.empty()) {
    if (client.tokens == 0) {
      client.first_token = now;
      stats_.ttft_s.observe(seconds(now - client.arrived));
    } else {
      stats_.itl_s.observe(seconds(now - client.last_token));
    }
    client.last_token = now;
    client.tokens += std::ssize(event.tokens);
    stats_.generated_tokens += event.tokens.size();
  }
  if (!event.done) return;
  count_end(client, event);
  stats_.e2e_s.observe(seconds(now - client.arrived));
  if (client.tokens > 1)
    stats_.tpot_s.observe(
        seconds(client.last_token - client.first_token) / static_cast<double>(client.tokens - 1));
}

// Once a request, as an engine counts: by the end of its last choice.
void ClientAdapter::count_end(const Client& client, const GenerationEvent& event) {
  stats_.prompt_tokens += static_cast<uint64_t>(event.prompt_tokens);
  stats_.cached_prompt_tokens += static_cast<uint64_t>(event.cached_tokens);
  if (event.prompt_tokens > 0) stats_.prompt_lengths.observe(static_cast<double>(event.prompt_tokens));
  if (client.tokens > 0) stats_.output_lengths.observe(static_cast<double>(client.tokens));
  switch (event.finish.value_or(FinishReason::kError)) {
    case FinishReason::kStop:
      ++stats_.finished_stop;
      break;
    case FinishReason::kLength:
      ++stats_.finished_length;
      break;
    case FinishReason::kCancelled:
      ++stats_.finished_cancelled;
      break;
    case FinishReason::kDeadline:
      ++stats_.finished_deadline;
      break;
    case FinishReason::kError:
      ++stats_.finished_error;
      break;
  }
}

void ClientAdapter::publish() {
  EngineStats now = stats_;
  published_.swap_in(now);
}

}  // namespace cheetah::cluster
