#include "cluster/policy/simulation/scenarios.h"

namespace cheetah::cluster::throughput {
namespace {

// A chat: 1000 tokens in, 200 out.
Stream chat(int class_index, double end_s) {
  return {.class_index = class_index, .to_s = end_s, .prompt_tokens = 1000, .output_tokens = 200};
}

// Prompts are computed by prefill workers: these scenarios are about the two pools.
PolicyConfig disaggregated() {
  PolicyConfig policy;
  policy.routing.offload_policy = OffloadPolicy::kAlways;
  policy.routing.worker_policy = WorkerPolicy::kLeastLoaded;
  return policy;
}

}  // namespace

Scenario overload(double times, bool admission) {
  Scenario s{.name = "overload", .num_prefill = 2, .num_decode = 2, .end_s = 60, .policy = disaggregated()};
  s.policy.qos.enabled = admission;
  s.policy.qos.classes = {{.name = "default", .ttft_slo_ms = 500, .tpot_slo_ms = 20}};
  s.policy.qos.queue_places = 0.5;
  Stream stream = chat(0, s.end_s);
  stream.requests_per_s = times * capacity_rps(s, stream);
  s.streams = {stream};
  return s;
}

Scenario free_tier_flood(double flood) {
  Scenario s{
      .name = "free tier flood", .num_prefill = 2, .num_decode = 2, .end_s = 60, .policy = disaggregated()};
  s.policy.qos.classes = {
      {.name = "premium", .reserved = 0.3, .priority = 100, .ttft_slo_ms = 500, .tpot_slo_ms = 20},
      {.name = "free", .priority = 10, .ttft_slo_ms = 2000, .tpot_slo_ms = 50}};
  s.policy.qos.default_class = "free";
  s.policy.qos.queue_places = 0.2;
  s.policy.qos.borrow_limit = 0.2;
  s.chunk_tokens = 256;  // an urgent prompt waits for one chunk of another at most
  Stream premium = chat(kPremium, s.end_s), free = chat(kFree, s.end_s);
  const double capacity = capacity_rps(s, premium);
  premium.requests_per_s = 0.2 * capacity;
  free.requests_per_s = flood * capacity;
  s.streams = {premium};
  if (flood > 0) s.streams.push_back(free);
  return s;
}

Scenario traffic_shift(int num_prefill, int num_decode, bool flip_roles) {
  Scenario s{.name = "traffic shift",
             .num_prefill = num_prefill,
             .num_decode = num_decode,
             .flip_roles = flip_roles,
             .end_s = 360,
             .policy = disaggregated()};
  s.policy.qos.classes = {{.name = "default", .ttft_slo_ms = 2000, .tpot_slo_ms = 30}};
  s.policy.qos.queue_places = 0.5;
  s.policy.roles.dwell_ms = 30'000;
  s.policy.roles.cooldown_ms = 3'000;
  s.streams = {
      {.to_s = 180, .requests_per_s = 40, .prompt_tokens = 4096, .output_tokens = 64},
      {.from_s = 180, .to_s = 360, .requests_per_s = 35, .prompt_tokens = 256, .output_tokens = 1024}};
  return s;
}

}  // namespace cheetah::cluster::throughput
