// SPDX-License-Identifier: MIT
#include "observe/trace_exporter.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

TEST(TraceExporter, LosesSpansAndNothingElseWhenTheCollectorIsAway) {
  SilentLog log;
  TraceExporter exporter(
      "collector", [](const std::string&, SteadyClock::duration) { return "cannot connect"; }, {}, log);
  for (int i = 0; i < 10'000; ++i) exporter.add({});
  EXPECT_GT(exporter.num_lost(), 0);
  EXPECT_EQ(exporter.num_sent(), 0);
}

TEST(TraceExporter, SendsTheLastSpansAtOnceWhenItEnds) {
  SilentLog log;
  int bodies = 0;
  const SteadyTime begin = SteadyClock::now();
  {
    TraceExporter exporter(
        "collector",
        [&](const std::string& body, SteadyClock::duration) {
          bodies += !body.empty();
          return "";
        },
        {}, log);
    exporter.add({});
  }
  EXPECT_EQ(bodies, 1);
  EXPECT_LT(seconds_since(begin), 0.4);  // it gathers for half a second otherwise
}

}  // namespace
}  // namespace cheetah
