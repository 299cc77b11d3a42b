// SPDX-License-Identifier: MIT
// What all kinds of mesh must do.
#include "cluster/net/mesh.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "cluster/net/local_mesh.h"
#include "cluster/net/mesh_probe.h"
#include "cluster/net/tcp_mesh.h"
#include "cluster/net/test_authority.h"

namespace cheetah::cluster {
namespace {

struct Member {
  explicit Member(std::unique_ptr<Mesh> made) : mesh(std::move(made)) { mesh->start(probe.events()); }
  MeshProbe probe;  // before the mesh: it is called until the mesh is gone
  std::unique_ptr<Mesh> mesh;
};

enum class Kind { kLocal, kSecret, kCertificates };

class MeshKinds : public testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<Member> join(uint64_t number) {
    if (GetParam() == Kind::kLocal) return std::make_unique<Member>(network_.join(id(number)));
    TcpMeshConfig config;
    config.self = id(number);
    if (GetParam() == Kind::kSecret) config.credentials = shared_secret("sixteen bytes or more");
    if (GetParam() == Kind::kCertificates) config.credentials = {.identity = identity(number)};
    config.first_retry = std::chrono::milliseconds(5);
    return std::make_unique<Member>(make_tcp_mesh(config));
  }
  WorkerId id(uint64_t number) {
    return GetParam() == Kind::kCertificates ? identity(number)->id_with(number) : WorkerId{number};
  }
  void connect(Member& from, uint64_t number, const Member& to) {
    from.mesh->connect(id(number), to.mesh->host(), to.mesh->port());
  }

 private:
  std::shared_ptr<const Identity> identity(uint64_t number) {
    auto& known = identities_[number];
    if (!known) known = authority_.identity("worker-" + std::to_string(number));
    return known;
  }
  LocalNetwork network_;
  TestAuthority authority_;
  std::map<uint64_t, std::shared_ptr<const Identity>> identities_;
};

TEST_P(MeshKinds, MessagesArriveWholeAndInOrderBothWays) {
  auto a = join(1), b = join(2);
  connect(*a, 2, *b);
  ASSERT_TRUE(a->probe.wait_for(MeshReport::kUp) && b->probe.wait_for(MeshReport::kUp));
  std::vector<std::string> sent;
  for (size_t i = 0; i < 500; ++i) sent.push_back(std::string(i * 7, static_cast<char>('a' + i % 26)));
  for (const std::string& message : sent) {
    a->mesh->send(id(2), message);
    b->mesh->send(id(1), message);
  }
  ASSERT_TRUE(a->probe.wait_for(MeshReport::kMessage, 500) && b->probe.wait_for(MeshReport::kMessage, 500));
  EXPECT_EQ(a->probe.texts(MeshReport::kMessage), sent);
  EXPECT_EQ(b->probe.texts(MeshReport::kMessage), sent);
}

TEST_P(MeshKinds, TheLargestMessagePassesAndALargerOneIsRefused) {
  auto a = join(1), b = join(2);
  connect(*a, 2, *b);
  ASSERT_TRUE(a->probe.wait_for(MeshReport::kUp));
  const std::string largest(kMaxMessageBytes, 'x');
  a->mesh->send(id(2), largest);
  ASSERT_TRUE(b->probe.wait_for(MeshReport::kMessage));
  EXPECT_TRUE(b->probe.texts(MeshReport::kMessage)[0] == largest);
  EXPECT_THROW(a->mesh->send(id(2), largest + "x"), Error);
}

TEST_P(MeshKinds, APeerThatLeavesIsReportedAndOneThatIsAbsentIsTriedUntilItComes) {
  auto a = join(1), b = join(2);
  connect(*a, 2, *b);
  ASSERT_TRUE(a->probe.wait_for(MeshReport::kUp));
  b.reset();
  ASSERT_TRUE(a->probe.wait_for(MeshReport::kDown));
  a->mesh->send(id(2), "to nobody");
  auto again = join(2);
  connect(*again, 1, *a);
  ASSERT_TRUE(a->probe.wait_for(MeshReport::kUp, 2));
  ASSERT_TRUE(again->probe.wait_for(MeshReport::kUp));
  EXPECT_TRUE(again->probe.texts(MeshReport::kMessage).empty());
}

TEST_P(MeshKinds, PeersThatDialEachOtherHaveOneLink) {
  for (int round = 0; round < 5; ++round) {
    auto a = join(1), b = join(2);
    connect(*a, 2, *b);
    connect(*b, 1, *a);
    ASSERT_TRUE(a->probe.wait_for(MeshReport::kUp) && b->probe.wait_for(MeshReport::kUp));
    // A late second connection may replace the first; what is sent until it arrives shows that one stands.
    for (int i = 0; i < 1000; ++i) {
      a->mesh->send(id(2), "?");
      if (b->probe.wait([](const auto& seen) { return MeshProbe::count(seen, MeshReport::kMessage) > 0; },
              std::chrono::milliseconds(20)))
        break;
    }
    const auto ups = MeshProbe::count(b->probe.seen, MeshReport::kUp);
    EXPECT_EQ(ups, MeshProbe::count(b->probe.seen, MeshReport::kDown) + 1);
    EXPECT_GE(b->probe.texts(MeshReport::kMessage).size(), 1u);
    EXPECT_EQ(MeshProbe::count(b->probe.seen, MeshReport::kRefused), 0u) << "nothing is wrong";
  }
}

TEST_P(MeshKinds, ALinkThatIsNoLongerWantedCloses) {
  auto a = join(1), b = join(2);
  connect(*a, 2, *b);
  ASSERT_TRUE(a->probe.wait_for(MeshReport::kUp) && b->probe.wait_for(MeshReport::kUp));
  a->mesh->disconnect(id(2));
  EXPECT_TRUE(a->probe.wait_for(MeshReport::kDown) && b->probe.wait_for(MeshReport::kDown));
}

TEST_P(MeshKinds, WhatWasSentBeforeLeavingArrives) {
  auto a = join(1), b = join(2);
  connect(*a, 2, *b);
  ASSERT_TRUE(a->probe.wait_for(MeshReport::kUp));
  for (int i = 0; i < 200; ++i) a->mesh->send(id(2), std::string(10'000, 'x'));
  a.reset();
  EXPECT_TRUE(b->probe.wait_for(MeshReport::kMessage, 200));
  EXPECT_TRUE(b->probe.wait_for(MeshReport::kDown));
}

INSTANTIATE_TEST_SUITE_P(
    , MeshKinds, testing::Values(Kind::kLocal, Kind::kSecret, Kind::kCertificates), [](const auto& kind) {
      return kind.param == Kind::kLocal    ? "Local"
             : kind.param == Kind::kSecret ? "Tcp"
                                           : "TcpWithCertificates";
    });

TEST(LocalNetworkCuts, ACutLinkIsDownUntilItHeals) {
  LocalNetwork network;
  Member a(network.join(WorkerId{1})), b(network.join(WorkerId{2}));
  a.mesh->connect(WorkerId{2}, "", 0);
  ASSERT_TRUE(a.probe.wait_for(MeshReport::kUp));
  network.cut(WorkerId{1}, WorkerId{2});
  ASSERT_TRUE(a.probe.wait_for(MeshReport::kDown) && b.probe.wait_for(MeshReport::kDown));
  network.heal(WorkerId{1}, WorkerId{2});
  EXPECT_TRUE(a.probe.wait_for(MeshReport::kUp, 2) && b.probe.wait_for(MeshReport::kUp, 2));
}

}  // namespace
}  // namespace cheetah::cluster
