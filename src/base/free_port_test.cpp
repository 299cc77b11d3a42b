// SPDX-License-Identifier: MIT
#include "base/free_port.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

namespace cheetah {
namespace {

TEST(FreePort, IsNoneThatTheKernelGivesOutByItself) {
  int first = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first;
  if (first < 24'000) GTEST_SKIP() << "the kernel gives out nearly all of them";
  std::set<uint16_t> ports;
  for (int i = 0; i < 20; ++i) {
    const uint16_t port = free_port();
    EXPECT_LT(port, first);
    ports.insert(port);
  }
  EXPECT_GT(ports.size(), 10u) << "processes that ask at the same time get different ones";
}

}  // namespace
}  // namespace cheetah
