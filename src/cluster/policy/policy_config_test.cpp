// SPDX-License-Identifier: MIT
#include "cluster/policy/policy_config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"

namespace cheetah::cluster {
namespace {

std::string why_not(std::string_view text) { return reload_policy_config(text, "p.toml").why_not; }

TEST(PolicyConfig, EmptyTextGivesTheDefaults) {
  EXPECT_EQ(parse_policy_config("", "p.toml"), PolicyConfig{});
}

TEST(PolicyConfig, ReadsWhatItSays) {
  const PolicyConfig config = parse_policy_config(R"(
    [routing]
    worker_policy = "latency_cost"
    offload_policy = "score"
    rule = [{metric = "decode_load", threshold = 0.5, action = "prefer_remote", weight = 1}]
    [routing.cost]
    margin_ms = 3
    [qos]
    default_class = "free"
    [[qos.class]]
    name = "premium"
    reserved = 0.1
    priority = 100
    [[qos.class]]
    name = "free"
    degrade = true
    [[qos.match]]
    header = "x-customer-tier"
    value = "premium"
    class = "premium"
    [[qos.quota]]
    tenant = "*"
    tokens_per_s = 100
    burst_tokens = 1000
    [autoscale.decode]
    min_replicas = 8
    max_replicas = 24
    scale_up = {queue_length = 16, kv_cache_usage = 0.75}
    [roles]
    dwell_ms = 1000
  )",
      "p.toml");
  EXPECT_EQ(config.routing.worker_policy, WorkerPolicy::kLatencyCost);
  EXPECT_EQ(config.routing.offload_policy, OffloadPolicy::kScore);
  ASSERT_EQ(config.routing.rules.size(), 1u);
  EXPECT_EQ(config.routing.rules[0],
      (OffloadRule{OffloadMetric::kDecodeLoad, 0.5, OffloadAction::kPreferRemote, 1}));
  EXPECT_EQ(config.routing.cost.margin_ms, 3);
  ASSERT_EQ(config.qos.classes.size(), 2u);
  EXPECT_EQ(config.qos.classes[0].priority, 100);
  EXPECT_TRUE(config.qos.classes[1].degrade);
  EXPECT_EQ(config.qos.matches[0].qos_class, "premium");
  EXPECT_EQ(config.qos.quotas[0].burst_tokens, 1000);
  EXPECT_EQ(config.autoscale.decode.min_replicas, 8);
  EXPECT_EQ(config.autoscale.decode.up.kv_usage, 0.75);
  EXPECT_EQ(config.roles.dwell_ms, 1000);
}

TEST(PolicyConfig, ReadsThePolicyNamesOfVersion01) {
  const PolicyConfig old = parse_policy_config(R"(
    [routing]
    worker_policy = "latency_two"
    [routing.latency_two]
    active = 2
    [routing.latency_five]
    bandwidth = 3
    [routing.split]
    min_cache_hit_ratio = 0.5
  )",
      "p.toml");
  EXPECT_EQ(old.routing.worker_policy, WorkerPolicy::kLoadCost);
  EXPECT_EQ(old.routing.load_cost.active, 2);
  EXPECT_EQ(old.routing.latency_cost.bandwidth, 3);
  EXPECT_EQ(old.routing.cache_score.min_cache_hit, 0.5);
}

TEST(PolicyConfig, MistakesAreNamedWithTheirPlace) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"[routing]\nload_bound = 'x'", "p.toml:2:14: routing.load_bound: expected a number from 1 to 1000"},
      {"[routing]\nload_bond = 2", "p.toml:2:13: routing.load_bond: is not known; known here: cache_score"},
      {"[routing]\nworker_policy = 'best'",
          "routing.worker_policy: expected one of round_robin, least_loaded"},
      {"[autoscale.prefill]\nscale_up = {gpu_utilization = 80}",
          "expected a share from 0 to 1 (0.8 rather than 80)"},
      {"[autoscale.prefill]\nmin_replicas = 13",
          "autoscale.prefill.max_replicas: expected at least min_replicas"},
      {"[autoscale.prefill.scale_down]\nqueue_length = 8", "expected numbers below those of scale_up"},
      {"[routing.cache_score]\nmin_cache_hit_ratio = nan", "expected a share from 0 to 1"},
      {"[qos]\nmax_queue_ms = 1.5", "qos.max_queue_ms: expected a whole number from 0 to 86400000"},
      {"[qos]\nenabled = 1", "qos.enabled: expected true or false"},
      {"[qos]\nclass = 3", "qos.class: expected at most 1000 tables"},
      {"[[qos.class]]\npriority = 1", "qos.class.name: expected the name of the class"},
      {"[[qos.class]]\nname='a'\n[[qos.class]]\nname='a'", "qos.class: 'a' stands there twice"},
      {"[[qos.class]]\nname='a'", "qos.default_class: there is no class 'default'"},
      {"[[qos.class]]\nname='default'\nreserved=0.7\n[[qos.class]]\nname='b'\nreserved=0.4",
          "the reserved shares sum to 1.1: expected at most 1"},
      {"[[qos.match]]\nclass='none'", "qos.match: there is no class 'none'"},
      {"[routing]\nsilent_after_ms = 1", "routing.silent_after_ms: expected at least stale_after_ms"},
      {"[[routing", "p.toml:1:"},
      {"other = 1", "p.toml:1:9: other: is not known; known here: autoscale, qos, roles, routing"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_NE(why_not(text).find(expected), std::string::npos) << text << "\n" << why_not(text);
    EXPECT_FALSE(reload_policy_config(text, "p.toml").config) << text;
  }
  EXPECT_NE(why_not(std::string((1 << 20) + 1, '#')).find("is larger than"), std::string::npos);
}

// The documentation shows every key with its default, so that it cannot differ from the program.
TEST(PolicyConfig, TheDocumentedExampleIsReadable) {
  std::ifstream file(std::string(CHEETAH_SOURCE_DIR) + "/docs/cluster-policies.md");
  ASSERT_TRUE(file) << "run in the source tree";
  std::stringstream all;
  all << file.rdbuf();
  const std::string text = all.str(), open = "```toml\n# policies";
  const size_t begin = text.find(open);
  ASSERT_NE(begin, std::string::npos);
  const size_t start = begin + std::string("```toml\n").size();
  const Reload reload = reload_policy_config(text.substr(start, text.find("```", start) - start), "example");
  ASSERT_TRUE(reload.config) << reload.why_not;
  EXPECT_EQ(*reload.config, PolicyConfig{});
}

}  // namespace
}  // namespace cheetah::cluster
