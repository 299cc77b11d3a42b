// SPDX-License-Identifier: MIT
#include "base/report_page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/json.h"

namespace cheetah {
namespace {

TEST(ReportPage, NamesWhatAndWhenInItsTitle) {
  const std::string page = report_page(
      {.kind = "Load test", .title = "<m&m>", .date = "2026-01-31T12:00:00Z", .about = "on a laptop"},
      "<p>body</p>");
  EXPECT_NE(page.find("<title>Load test: &lt;m&amp;m&gt;, 2026-01-31</title>"), std::string::npos);
  EXPECT_NE(page.find("on a laptop · 2026-01-31 12:00:00 UTC"), std::string::npos);
  EXPECT_NE(page.find("<p>body</p>"), std::string::npos);
}

TEST(ReportPage, AsksNothingOfANetwork) {
  const std::string page = report_page({.kind = "Report", .title = "t", .date = "", .about = ""}, "");
  for (const char* part : {"src=", "<link", "@import", "url(", "https:", "import "})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  const size_t script = page.find("<script");
  EXPECT_EQ(page.find("</script", script), page.rfind("</script")) << "the chart module ends its own element";
}

TEST(ReportPage, ChartsAreJsonInAnAttribute) {
  const std::string chart = report_chart(LineChart{.title = "Time \"to\" <first> token",
      .x = {.label = "ms"},
      .y = {.label = "%", .unit = "percent"},
      .series = {{.name = "a", .points = {{1, 2}, {2, 1.0 / 3}}}},
      .marks = {{.x = 1.5, .label = "objective", .objective = true}}});
  EXPECT_EQ(chart.find("<first>"), std::string::npos);
  EXPECT_NE(chart.find("&quot;points&quot;:[[1.0,2.0],[2.0,0.333333]]"), std::string::npos) << chart;
  EXPECT_NE(chart.find("&quot;kind&quot;:&quot;slo&quot;"), std::string::npos);
}

TEST(ReportPage, NumbersThatAreNoneDoNotReachTheChart) {
  const double infinite = std::numeric_limits<double>::infinity();
  const std::string chart = report_chart(LineChart{.title = "t",
      .x = {},
      .y = {},
      .series = {{.name = "s", .points = {{1, infinite}, {2, std::nan("")}, {3, 0}, {4, 1e-310}}}}});
  for (const char* part : {"inf", "nan", "null"}) EXPECT_EQ(chart.find(part), std::string::npos) << chart;
}

TEST(ReportPage, AChartWithoutPointsIsASentence) {
  EXPECT_NE(report_chart(LineChart{.title = "Speed", .x = {}, .y = {}, .series = {{.name = "a"}}})
                .find("Speed: nothing to plot."),
      std::string::npos);
}

TEST(ReportPage, TablesScrollInTheirOwnBox) {
  const std::string table = report_table({"a", "b"}, {{"<x>", "2"}});
  EXPECT_TRUE(table.starts_with("<div class=\"table\""));
  EXPECT_NE(table.find("<th scope=\"row\">&lt;x&gt;</th><td>2</td>"), std::string::npos);
}

}  // namespace
}  // namespace cheetah
