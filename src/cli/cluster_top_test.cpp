// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "base/terminal.h"
#include "base/text.h"
#include "cli/cluster_admin.h"

namespace cheetah {
namespace {

Json cluster_of(int num_workers, double finished) {
  Json workers = Json::array();
  for (int i = 0; i < num_workers; ++i)
    workers.push_back({{"name", "decode-" + std::to_string(i)}, {"role", "decode"}, {"state", "ready"},
        {"running", 3}, {"max_sequences", 8}, {"waiting", 1}, {"pages_total", 100}, {"pages_free", 25},
        {"prefill_tokens", 7}, {"decode_step_us", 1500.0}, {"transfer_bytes_per_s", 2e9}});
  const Json histogram = {{"count", 10}, {"sum", 0.5}};
  return {{"router", "router-0"}, {"plans", true}, {"workers", workers},
      {"requests", {{"running", 12}, {"finished", finished}, {"prompt_tokens", 200},
                       {"cached_prompt_tokens", 50}, {"ttft_s", histogram}, {"itl_s", histogram}}},
      {"counters", {{"workers_lost", 2}}}, {"orders", {{{"subject", "cordon/decode-1"}, {"wish", "cordon"}}}},
      {"registry", {{"up", true}}}, {"queue", {{"up", false}, {"absent", true}}},
      {"breakers", {{"prefill", 0}, {"decode", 1}}}, {"desired_replicas", {{"decode", 3}}}};
}

TEST(ClusterTop, ShowsRatesBetweenTwoLooksAndTotalsOfTheFirst) {
  const std::string first = top_screen(cluster_of(2, 100), Json(), 0, 0, 0);
  EXPECT_NE(first.find("12 running   – finished"), std::string::npos) << first;
  const std::string second = top_screen(cluster_of(2, 130), cluster_of(2, 100), 2, 0, 0);
  EXPECT_NE(second.find("15.0/s finished"), std::string::npos) << second;
  for (const char* told :
      {"2 of 2 ready", "desired decode 3", "registry up", "queue none", "breakers closed, open",
          "2 workers lost", "cordon/decode-1 cordon", "decode-1", "75 %", "1.5 ms", "2.00 GB/s"})
    EXPECT_NE(second.find(told), std::string::npos) << told << "\n" << second;
  const std::string again = top_screen(cluster_of(2, 5), cluster_of(2, 130), 2, 0, 0);
  EXPECT_NE(again.find("0.0/s finished"), std::string::npos) << "a router that begins again: " << again;
}

TEST(ClusterTop, FitsItsTerminal) {
  for (const int columns : {40, 60, 80, 120})
    for (const int rows : {12, 24, 60}) {
      const std::string screen = top_screen(cluster_of(30, 100), Json(), 0, columns, rows);
      const auto lines = lines_of(screen);
      for (const std::string_view line : lines) EXPECT_LE(columns_of(line), columns) << line;
      if (columns >= 80 && rows >= 24) {
        EXPECT_LE(std::ssize(lines), rows) << screen;
      }
      EXPECT_EQ(screen.find(" more") != std::string::npos, rows < 40) << screen;
    }
}

}  // namespace
}  // namespace cheetah
