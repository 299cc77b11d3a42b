// SPDX-License-Identifier: MIT
// The TCP mesh and certificates: who may not join is told so, on both sides, and waits for nothing.
#include <gtest/gtest.h>

#include <unistd.h>

#include "base/error.h"
#include "cluster/net/mesh_probe.h"
#include "cluster/net/refusal_news.h"
#include "cluster/net/tcp_mesh.h"
#include "cluster/net/test_authority.h"

namespace cheetah::cluster {
namespace {

struct Member {
  explicit Member(const TcpMeshConfig& config) : self(config.self), mesh(make_tcp_mesh(config)) {
    mesh->start(probe.events());
  }
  WorkerId self;
  MeshProbe probe;
  std::unique_ptr<Mesh> mesh;
};

TcpMeshConfig config_of(std::shared_ptr<const Identity> identity, uint64_t number) {
  TcpMeshConfig config;
  config.self = identity ? identity->id_with(number) : WorkerId{number};
  config.credentials = {.identity = std::move(identity)};
  config.first_retry = std::chrono::milliseconds(5);
  return config;
}

// The sentences of both, once `dialer` has tried.
std::pair<std::string, std::string> meet(const TcpMeshConfig& dialer, const TcpMeshConfig& listener) {
  Member a(dialer), b(listener);
  a.mesh->connect_to(b.mesh->host(), b.mesh->port());
  EXPECT_TRUE(a.probe.wait_for(MeshReport::kRefused) && b.probe.wait_for(MeshReport::kRefused));
  EXPECT_EQ(
      MeshProbe::count(a.probe.seen, MeshReport::kUp) + MeshProbe::count(b.probe.seen, MeshReport::kUp), 0u);
  const auto first = [](const Member& member) {
    const auto texts = member.probe.texts(MeshReport::kRefused);
    return texts.empty() ? std::string() : texts[0];
  };
  return {first(a), first(b)};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(TlsMesh, WhoMayNotJoinIsToldSoAndTheOtherSideKnows) {
  TestAuthority ours, others("others");
  const TcpMeshConfig good = config_of(ours.identity("good"), 1),
                      foreign = config_of(others.identity("bad"), 2);
  TcpMeshConfig secret = config_of(nullptr, 3);
  secret.credentials = shared_secret("the secret of this cluster");
  for (const auto& [dialer, listener] : {std::pair(good, foreign), std::pair(foreign, good),
           std::pair(good, secret), std::pair(secret, good)}) {
    const auto [at_dialer, at_listener] = meet(dialer, listener);
    EXPECT_TRUE(contains(at_dialer, "127.0.0.1: ")) << at_dialer;
    EXPECT_TRUE(contains(at_dialer, "certificate")) << at_dialer;
    EXPECT_TRUE(contains(at_listener, "certificate")) << at_listener;
  }
}

TEST(TlsMesh, ACertificateThatExpiresMeanwhileIsRefused) {
  TestAuthority authority;
  const auto brief = std::make_shared<Identity>(authority.issue_as({.common_name = "brief", .valid_s = 2}));
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(3100);
  const auto lasting = authority.identity("lasting");
  while (std::chrono::steady_clock::now() < until) usleep(20'000);
  const auto [at_dialer, at_listener] = meet(config_of(lasting, 1), config_of(brief, 2));
  EXPECT_TRUE(contains(at_dialer, "expired")) << at_dialer;
  EXPECT_TRUE(contains(at_listener, "expired")) << at_listener;
}

TEST(TlsMesh, CertificatesAreEnoughBeyondThisMachine) {
  TestAuthority authority;
  TcpMeshConfig config = config_of(authority.identity("a"), 1);
  config.host = "0.0.0.0";
  EXPECT_GT(make_tcp_mesh(config)->port(), 0);
  config.credentials = {};
  EXPECT_THROW(make_tcp_mesh(config), Error);
}

TEST(RefusalNews, TellsThingsOnceInAWhile) {
  RefusalNews news;
  const Time now{};
  EXPECT_TRUE(news.is_news("a", "why", now));
  EXPECT_FALSE(news.is_news("a", "why", now + std::chrono::seconds(30)));
  EXPECT_TRUE(news.is_news("a", "another reason", now));
  EXPECT_TRUE(news.is_news("b", "why", now));
  EXPECT_TRUE(news.is_news("a", "why", now + std::chrono::seconds(61)));
  for (int i = 0; i < 1000; ++i) news.is_news(std::to_string(i), "why", now);
  EXPECT_FALSE(news.is_news("1000", "why", now));
  EXPECT_TRUE(news.is_news("1000", "why", now + std::chrono::seconds(200)));
}

}  // namespace
}  // namespace cheetah::cluster
