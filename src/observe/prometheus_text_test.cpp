// SPDX-License-Identifier: MIT
#include "observe/prometheus_text.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

TEST(PrometheusText, CountBucketsUpwards) {
  Histogram h({1, 2});
  for (const double v : {0.5, 1.5, 1.6, 9.0}) h.observe(v);
  PrometheusText out;
  out.histogram("h", "help", h, {});
  EXPECT_EQ(out.text(),
      "# HELP h help\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"2\"} "
      "3\nh_bucket{le=\"+Inf\"} 4\nh_sum 12.6\nh_count 4\n");
}

TEST(PrometheusText, EscapesLabels) {
  PrometheusText out;
  out.gauge("g", "help", 0.5, {{"name", "a\"b\\c\nd"}});
  EXPECT_EQ(out.text(), "# HELP g help\n# TYPE g gauge\ng{name=\"a\\\"b\\\\c\\nd\"} 0.5\n");
}

}  // namespace
}  // namespace cheetah
