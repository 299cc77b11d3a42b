// SPDX-License-Identifier: MIT
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
      .name = "free tier flood", .num_prefill = 2, .num_decode = 2, .end_s = 200, .policy = disaggregated()};
  s.policy.qos.classes = {
      {.name = "premium", .reserved = 0.3, .priority = 100, .ttft_slo_ms = 500, .tpot_slo_ms = 20},
      {.name = "free", .priority = 10, .ttft_slo_ms = 2000, .tpot_slo_ms = 50}};
  s.policy.qos.default_class = "free";
  s.policy.qos.queue_places = 0.2;
  s.policy.qos.borrow_limit = 0.2;
  // An urgent prompt waits for one chunk of another at most. Shorter ones would cost time: a step reads all
  // weights, however few tokens it computes.
  s.chunk_tokens = 192;
  Stream premium = chat(kPremium, s.end_s), free = chat(kFree, s.end_s);
  const double capacity = capacity_rps(s, premium);
  premium.requests_per_s = 0.2 * capacity;
  free.requests_per_s = flood * capacity;
  s.streams = {premium};
  if (flood > 0) s.streams.push_back(free);
  return s;
}

Scenario without_classes(Scenario flooded) {
  flooded.policy.qos.enabled = false;
  for (QosClass& one : flooded.policy.qos.classes) one.priority = 0;
  return flooded;
}

std::vector<ShiftShape> shift_shapes() {
  const auto prompts = [](double from_s, double to_s, double share = 1) {  // long ones, with short answers
    return Stream{.from_s = from_s,
        .to_s = to_s,
        .requests_per_s = 40 * share,
        .prompt_tokens = 4096,
        .output_tokens = 64};
  };
  const auto answers = [](double from_s, double to_s, double share = 1) {
    return Stream{.from_s = from_s,
        .to_s = to_s,
        .requests_per_s = 35 * share,
        .prompt_tokens = 256,
        .output_tokens = 1024};
  };
  std::vector<ShiftShape> shapes = {{"prompts_then_answers", 360, {prompts(0, 180), answers(180, 360)}},
      {"answers_then_prompts", 360, {answers(0, 180), prompts(180, 360)}},
      {"there_and_back", 540, {prompts(0, 180), answers(180, 360), prompts(360, 540)}},
      {"short_visit", 420, {prompts(0, 180), answers(180, 240), prompts(240, 420)}},
      {"steady_mix", 360, {prompts(0, 360, 0.5), answers(0, 360, 0.5)}}};
  ShiftShape ramp{"slow_ramp", 480, {}};
  for (int i = 0; i < 8; ++i) {  // an eighth more of the answers a minute
    const double from = 60 * i, share = i / 7.0;
    if (share < 1) ramp.streams.push_back(prompts(from, from + 60, 1 - share));
    if (share > 0) ramp.streams.push_back(answers(from, from + 60, share));
  }
  shapes.push_back(std::move(ramp));
  return shapes;
}

Scenario traffic_shift(const ShiftShape& shape, int num_prefill, bool flip_roles) {
  Scenario s{.name = shape.name,
      .num_prefill = num_prefill,
      .num_decode = kShiftWorkers - num_prefill,
      .flip_roles = flip_roles,
      .end_s = shape.end_s,
      .policy = disaggregated()};
  s.policy.qos.classes = {{.name = "default", .ttft_slo_ms = 2000, .tpot_slo_ms = 30}};
  s.policy.qos.queue_places = 0.5;
  s.policy.roles.dwell_ms = 30'000;
  s.policy.roles.cooldown_ms = 3'000;
  s.streams = shape.streams;
  return s;
}

}  // namespace cheetah::cluster::throughput
