// SPDX-License-Identifier: MIT
#include "cluster/net/frame.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/error.h"

namespace cheetah::cluster {
namespace {

TEST(Frame, HoweverBytesAreCutTheSameFramesComeOut) {
  EXPECT_TRUE(rc::check([](const std::vector<std::string>& drawn) {
    std::string bytes;
    std::vector<std::string> bodies;
    for (const std::string& text : drawn) bodies.push_back("." + text);
    for (const std::string& body : bodies) bytes += to_frame(body);
    FrameReader reader(1000);
    std::vector<std::string> seen;
    while (!bytes.empty()) {
      const auto piece = *rc::gen::inRange<size_t>(1, bytes.size() + 1);
      reader.append(bytes.substr(0, piece));
      bytes.erase(0, piece);
      while (auto body = reader.next()) seen.push_back(*body);
    }
    RC_ASSERT(seen == bodies);
  }));
}

TEST(Frame, LengthsBeyondTheLimitAreRefusedBeforeTheirBytesArrive) {
  FrameReader reader(100);
  reader.append(to_frame(std::string(100, 'x')));
  EXPECT_EQ(reader.next()->size(), 100u);
  reader.append(to_frame(std::string(101, 'x')).substr(0, 4));
  EXPECT_THROW(reader.next(), Error);
}

TEST(Frame, EmptyFramesAreRefused) {
  FrameReader reader(100);
  reader.append(std::string(4, '\0'));
  EXPECT_THROW(reader.next(), Error);
}

}  // namespace
}  // namespace cheetah::cluster
