// SPDX-License-Identifier: MIT
#include "cluster/policy/cluster_metrics.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "cluster/policy/decision_ring.h"
#include "cluster/policy/policy_fixture.h"

namespace cheetah::cluster {
namespace {

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(ClusterMetrics, CountsDecisionsByReason) {
  ClusterNumbers numbers;
  const ClusterView view = small_cluster(1, 1);
  RoutingConfig config;
  config.offload_policy = OffloadPolicy::kAlways;
  RouteMemory memory;
  numbers.count(route(view, prompt_of(1000), config, memory));
  numbers.count(route(ClusterView{}, prompt_of(1000), config, memory));
  AdmissionDecision refused;
  refused.reason = RejectReason::kQuota;
  numbers.count(refused, "a \"class\"");
  const std::string text = metrics_text(numbers);
  EXPECT_TRUE(has_line(text, "cheetah_cluster_routed_total{reason=\"only_one\"} 1"));
  EXPECT_TRUE(has_line(text, "cheetah_cluster_routed_total{reason=\"no_worker\"} 1"));
  EXPECT_TRUE(has_line(text, "cheetah_cluster_prefill_decisions_total{reason=\"policy_always\"} 1"));
  EXPECT_TRUE(has_line(text, "cheetah_cluster_prefills_total{where=\"remote\"} 1"));
  EXPECT_TRUE(has_line(text, "cheetah_cluster_rejected_total{class=\"a \\\"class\\\"\",reason=\"quota\"} 1"));
}

TEST(ClusterMetrics, EveryFamilyHasHelpAndTypeOnceAndEverySampleAFamily) {
  ClusterNumbers numbers;
  numbers.workers.push_back({.name = "w", .role = Role::kDecode, .ready = true});
  std::istringstream lines(metrics_text(numbers));
  std::set<std::string> families;
  std::string line, family;
  while (std::getline(lines, line)) {
    if (line.starts_with("# HELP ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(families.insert(family).second) << family;
    } else if (!line.starts_with("#")) {
      EXPECT_EQ(line.substr(0, line.find_first_of("{ ")), family);
    }
  }
  EXPECT_GT(families.size(), 20u);
}

TEST(ClusterMetrics, EveryReasonHasAnOwnName) {
  std::set<std::string_view> names;
  for (int i = 0; i < kNumWorkerReasons; ++i) names.insert(name_of(static_cast<WorkerReason>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(kNumWorkerReasons));
  names.clear();
  for (int i = 0; i < kNumPrefillReasons; ++i) names.insert(name_of(static_cast<PrefillReason>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(kNumPrefillReasons));
  names.clear();
  for (int i = 0; i < kNumRejectReasons; ++i) names.insert(name_of(static_cast<RejectReason>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(kNumRejectReasons));
}

TEST(DecisionRing, KeepsTheLastAndSaysThemWithScoresAndReasons) {
  DecisionRing ring(4);
  ClusterView view = small_cluster(1, 2);
  view.workers[1].descriptor.state = WorkerState::kDraining;
  RouteMemory memory;
  for (int i = 0; i < 6; ++i)
    ring.add({.time_s = static_cast<double>(i),
        .qos_class = "free\n",
        .prompt_tokens = 1000,
        .decision = route(view, prompt_of(1000), {}, memory)});
  const std::vector<RoutedRequest> last = ring.last(100);
  ASSERT_EQ(last.size(), 4u);
  EXPECT_EQ(last.front().time_s, 2);
  EXPECT_EQ(last.back().time_s, 5);
  const std::string line = line_of(last.back());
  EXPECT_NE(line.find("decode=0000000000000064 why=only_one"), std::string::npos) << line;
  EXPECT_NE(line.find("prefill=local why=local_faster"), std::string::npos) << line;
  EXPECT_NE(line.find("0000000000000065=not_ready"), std::string::npos) << line;
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Json json = json_of(last.back());
  EXPECT_EQ(json["scores"][1]["ineligible"], "not_ready");
  EXPECT_EQ(json["scores"].size(), 3u);
  AdmissionDecision refused;
  refused.reason = RejectReason::kTtftPredicted;
  refused.retry_after_s = 3;
  EXPECT_EQ(json_of(RefusedRequest{.decision = refused})["reason"], "ttft_predicted");
  EXPECT_NE(line_of(RefusedRequest{.decision = refused}).find("why=ttft_predicted retry_after_s=3"),
      std::string::npos);
}

}  // namespace
}  // namespace cheetah::cluster
