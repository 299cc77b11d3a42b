// SPDX-License-Identifier: MIT
#include "cluster/node/request_traces.h"

#include <utility>

#include "base/format.h"

namespace cheetah::cluster {
namespace {

double ms(Duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

std::string uid_text(RequestUid uid) { return format("{:016x}", static_cast<uint64_t>(uid)); }

const char* finish_name(const GenerationEvent& event) {
  if (!event.finish) return "error";
  switch (*event.finish) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kDeadline:
      return "deadline";
    case FinishReason::kError:
      return "error";
  }
  return "error";
}

Json slabs_json(const ClusterTimes& times) {
  Json slabs = Json::array();
  for (const SlabOnItsWay& slab : times.slabs)
    slabs.push_back({{"first_token", slab.first_token}, {"tokens", slab.num_tokens},
        {"posted_ms", ms(slab.posted)}, {"landed_ms", ms(slab.landed)}, {"imported_ms", ms(slab.imported)}});
  return slabs;
}

Json workers_json(const ClusterTimes& times) {
  return {{"attempts", times.attempts}, {"decode_worker", times.decode_worker},
      {"prefill_worker", times.prefill_worker}, {"worker_reason", times.worker_reason},
      {"prefill_reason", times.prefill_reason}, {"fallback", times.fallback}, {"degraded", times.degraded},
      {"refusal", times.refusal}, {"queued_ms", ms(times.queued)}, {"prefill_ms", ms(times.prefill)},
      {"transfer_ms", ms(times.transfer)}, {"decode_ms", ms(times.decode)},
      {"remote_tokens", times.remote_tokens}, {"slabs", slabs_json(times)}};
}

bool names_call(std::string_view wanted, std::string_view call) {
  if (call.empty()) return false;
  if (wanted == call) return true;  // or the id of the answer: chatcmpl-ID, resp_ID …
  return wanted.size() > call.size() + 1 && wanted.ends_with(call) &&
         (wanted[wanted.size() - call.size() - 1] == '-' || wanted[wanted.size() - call.size() - 1] == '_');
}

}  // namespace

void RequestTraces::begin(RequestUid uid, std::string call, const ClientRequest& client, Time now) {
  running_[uid] = Trace{.uid = uid,
      .call = std::move(call),
      .tenant = client.tenant,
      .qos_class = client.qos_class,
      .prompt_tokens = static_cast<int64_t>(client.request.prompt.size()),
      .max_tokens = client.request.max_tokens,
      .arrived_at = std::chrono::system_clock::now(),
      .arrived = now,
      .first_token = {},
      .ended = {},
      .steps = {},
      .finish = {},
      .error = {},
      .times = {}};
}

void RequestTraces::step(RequestUid uid, std::string what, std::string why, Time now) {
  const auto running = running_.find(uid);
  if (running == running_.end() || running->second.steps.size() >= kMostSteps) return;
  running->second.steps.push_back({now, std::move(what), std::move(why)});
}

void RequestTraces::tokens(RequestUid uid, int64_t count, Time now) {
  const auto running = running_.find(uid);
  if (running == running_.end()) return;
  running->second.generated += count;
  if (running->second.first_token == Time{}) running->second.first_token = now;
}

void RequestTraces::end(RequestUid uid, const GenerationEvent& event, const ClusterTimes& times, Time now) {
  auto node = running_.extract(uid);
  if (!node) return;
  Trace& trace = node.mapped();
  trace.ended = now;
  trace.finish = finish_name(event);
  trace.error = event.error;
  trace.times = times;
  if (ended_.size() >= kKept) ended_.pop_front();
  ended_.push_back(std::move(trace));
}

Json RequestTraces::json_of(const Trace& trace, Time now) {
  Json steps = Json::array();
  for (const Step& step : trace.steps)
    steps.push_back({{"at_ms", ms(step.at - trace.arrived)}, {"what", step.what}, {"why", step.why}});
  const bool done = trace.ended != Time{};
  Json json = {{"uid", uid_text(trace.uid)}, {"request_id", trace.call}, {"tenant", trace.tenant},
      {"class", trace.qos_class}, {"prompt_tokens", trace.prompt_tokens}, {"max_tokens", trace.max_tokens},
      {"arrived_unix_ms",
          std::chrono::duration_cast<std::chrono::milliseconds>(trace.arrived_at.time_since_epoch()).count()},
      {"running", !done}, {"total_ms", ms((done ? trace.ended : now) - trace.arrived)},
      {"generated", trace.generated}, {"finish", trace.finish}, {"error", trace.error},
      {"steps", std::move(steps)}};
  if (trace.first_token != Time{}) json["first_token_ms"] = ms(trace.first_token - trace.arrived);
  if (trace.times) json["workers"] = workers_json(*trace.times);
  return json;
}

Json RequestTraces::find(std::string_view id, Time now) const {
  Json found = Json::array();
  const auto look = [&](const Trace& trace) {
    if (names_call(id, trace.call) || id == uid_text(trace.uid)) found.push_back(json_of(trace, now));
  };
  for (const Trace& trace : ended_) look(trace);
  for (const auto& [uid, trace] : running_) look(trace);
  return found;
}

}  // namespace cheetah::cluster
