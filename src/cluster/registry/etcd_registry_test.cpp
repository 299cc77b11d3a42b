// SPDX-License-Identifier: MIT
// What only etcd does to its registry: compaction, lost data, several hosts, hosts that are not etcd.
#include "cluster/registry/etcd_registry.h"

#include <gtest/gtest.h>

#include "base/base64.h"
#include "base/format.h"
#include "base/temp_dir.h"
#include "base/time.h"
#include "cluster/registry/etcd_messages.h"
#include "cluster/registry/registry_backends.h"
#include "cluster/services/service_fixture.h"

namespace cheetah::cluster {
namespace {

class Etcd : public testing::Test {
 protected:
  void SetUp() override {
    if (!ServiceProcess::is_installed(ServiceProcess::Kind::kEtcd))
      GTEST_SKIP() << "etcd is not installed here";
  }
  static std::string value_at(const Registry& node, const std::string& key) {
    const auto entries = node.list(key);
    return entries.contains(key) ? entries.at(key).value : "(none)";
  }
};

TEST_F(Etcd, AWatchThatMissedWhatWasCompactedReadsEverythingAgain) {
  CuttableLink link(shared_etcd().port());
  EtcdRegistry a(etcd_config("compacted", shared_etcd().port())), b(etcd_config("compacted", link.port()));
  a.announce("k/1", "old");
  a.announce("k/2", "old");
  ASSERT_TRUE(eventually([&] { return b.list("k/").size() == 2; }));
  link.cut();
  ASSERT_TRUE(eventually([&] { return !b.state().up; }));
  a.announce("k/1", "new");
  a.announce("k/3", "new");
  ASSERT_TRUE(eventually([&] { return a.list("k/").size() == 3 && value_at(a, "k/1") == "new"; }));
  EtcdClient client({{"127.0.0.1", shared_etcd().port()}}, {});
  const Json now = client.call("/v3/kv/range", etcd::range_request("/cheetah/"), std::chrono::seconds(20));
  const int64_t revision = etcd::read_range(now, "/cheetah/").revision;
  client.call("/v3/kv/compaction", {{"revision", std::to_string(revision)}}, std::chrono::seconds(20));
  link.mend();
  EXPECT_TRUE(
      eventually([&] { return b.list("k/").size() == 3 && value_at(b, "k/1") == "new" && b.state().up; }));
}

TEST_F(Etcd, AfterItLostAllItsDataEveryNodeAnnouncesItselfAgainAndNobodyIsMissed) {
  ServiceProcess server(ServiceProcess::Kind::kEtcd);
  EtcdConfig config = etcd_config("wiped", server.port());
  config.lease_s = 3;
  EtcdRegistry a(config), b(config);
  for (int i = 0; i < 5; ++i) a.announce("workers/a", std::to_string(i));
  b.announce("workers/b", "x");
  ASSERT_TRUE(eventually([&] { return a.list("").size() == 2 && b.list("").size() == 2; }));
  std::atomic<int> removed{0};
  const auto id =
      b.watch("", [&](const RegistryEvent& event) { removed += event.kind == RegistryEvent::Kind::kRemove; });
  server.kill_hard();
  server.wipe();
  server.start();
  EtcdRegistry late(config);
  EXPECT_TRUE(eventually([&] { return late.list("").size() == 2 && a.state().up && b.state().up; }));
  EXPECT_EQ(b.list("").size(), 2u);
  b.unwatch(id);
  EXPECT_EQ(removed, 0);
}

TEST_F(Etcd, AHostThatIsDeadOrNotEtcdIsLeftForTheNext) {
  const ServiceProcess other(ServiceProcess::Kind::kEtcd);
  CuttableLink dead(other.port());
  dead.cut();
  EtcdConfig config = etcd_config("hosts", shared_etcd().port());
  config.hosts = {
      {"127.0.0.1", dead.port()}, {"no-such-host.invalid", 1}, {"127.0.0.1", shared_etcd().port()}};
  EtcdRegistry a(config), b(etcd_config("hosts", shared_etcd().port()));
  a.announce("k", "v");
  EXPECT_TRUE(eventually([&] { return value_at(b, "k") == "v" && a.state().up; }));
}

TEST_F(Etcd, AWatchWhoseConnectionIsDeadWithoutKnowingIsBegunAgain) {
  CuttableLink link(shared_etcd().port());
  EtcdConfig config = etcd_config("stalled", link.port());
  config.silence_limit = std::chrono::milliseconds(300);
  config.request_limit = std::chrono::milliseconds(1000);
  EtcdRegistry a(etcd_config("stalled", shared_etcd().port())), b(config);
  a.announce("k", "1");
  ASSERT_TRUE(eventually([&] { return value_at(b, "k") == "1"; }));
  link.stall(true);
  a.announce("k", "2");
  ASSERT_TRUE(eventually([&] { return !b.state().up; }));
  EXPECT_EQ(value_at(b, "k"), "1");
  link.stall(false);
  EXPECT_TRUE(eventually([&] { return value_at(b, "k") == "2" && b.state().up; }));
}

TEST_F(Etcd, AKeyThatSomebodyElseRemovesOrChangesIsWrittenAgain) {
  ServiceProcess server(ServiceProcess::Kind::kEtcd);
  const EtcdConfig config = etcd_config("touched", server.port());
  EtcdRegistry a(config), b(config);
  a.announce("k", "mine");
  ASSERT_TRUE(eventually([&] { return value_at(b, "k") == "mine"; }));
  EtcdClient other({{"127.0.0.1", server.port()}}, {});
  const std::string key = base64_of(etcd::root_of("touched") + "k");
  other.call("/v3/kv/put", {{"key", key}, {"value", base64_of("theirs")}}, std::chrono::seconds(20));
  const auto written = [&] {
    const Json now =
        other.call("/v3/kv/range", etcd::range_request(etcd::root_of("touched")), std::chrono::seconds(20));
    const auto entries = etcd::read_range(now, etcd::root_of("touched")).entries;
    return entries.size() == 1 && entries.begin()->second.value == "mine";
  };
  EXPECT_TRUE(eventually(written));
  other.call("/v3/kv/deleterange", {{"key", key}}, std::chrono::seconds(20));
  EXPECT_TRUE(eventually(written));
  EXPECT_TRUE(eventually([&] { return value_at(b, "k") == "mine"; }));
  a.withdraw("k");
  EXPECT_TRUE(eventually([&] { return !written(); }));
}

TEST_F(Etcd, UsersLogInWithTheirPasswordFile) {
  ServiceProcess server(ServiceProcess::Kind::kEtcd);
  const TempDir folder;
  const std::string file = folder.path("password");
  FILE* out = std::fopen(file.c_str(), "w");
  std::fputs("secret\n", out);
  std::fclose(out);
  EtcdClient root({{"127.0.0.1", server.port()}}, {});
  const auto call = [&](const char* path, const Json& request) {
    ASSERT_TRUE(eventually([&] {  // a server that has just started refuses for a moment
      try {
        root.call(path, request, std::chrono::seconds(20));
      } catch (const Error& error) {
        return std::string_view(error.what()).find("already exists") != std::string_view::npos;
      }
      return true;
    }));
  };
  call("/v3/auth/user/add", {{"name", "root"}, {"password", "secret"}});
  call("/v3/auth/role/add", {{"name", "root"}});
  call("/v3/auth/user/grant", {{"user", "root"}, {"role", "root"}});
  call("/v3/auth/enable", Json::object());
  EtcdConfig config = etcd_config("auth", server.port());
  EtcdRegistry stranger(config);
  config.login.user = "root";
  config.login.password_file = file;
  EtcdRegistry a(config), b(config);
  a.announce("k", "v");
  EXPECT_TRUE(eventually([&] { return value_at(b, "k") == "v"; }));
  EXPECT_FALSE(stranger.state().up);
  EXPECT_FALSE(stranger.state().why.empty());
}

TEST_F(Etcd, AProcessThatStartsWhileItIsAwayKnowsWhatAnotherHadSeenLast) {
  TempDir folder;
  ServiceProcess server(ServiceProcess::Kind::kEtcd);
  EtcdConfig config = etcd_config("kept", server.port());
  config.lease_s = 1;
  config.map_file = folder.path("map/known.json");
  {
    EtcdRegistry a(config);
    a.announce("workers/a", "1");
    a.announce("workers/b", "2");
    ASSERT_TRUE(
        eventually([&] { return read_map_file(config.map_file, "kept", unix_seconds()).size() == 2; }));
    server.kill_hard();
  }
  EtcdRegistry late(config);
  std::atomic<int> synced{0};
  const auto id = late.watch(
      "", [&](const RegistryEvent& event) { synced += event.kind == RegistryEvent::Kind::kSynced; });
  EXPECT_TRUE(eventually([&] { return late.list("workers/").size() == 2 && synced == 1; }));
  EXPECT_FALSE(late.state().up);
  server.wipe();
  server.start();
  late.announce("workers/c", "3");
  EXPECT_TRUE(eventually([&] {
    return late.list("workers/").size() == 1 && value_at(late, "workers/c") == "3";
  })) << "what is not there any more goes when etcd says so";
  EXPECT_EQ(synced, 1);
  late.unwatch(id);
}

}  // namespace
}  // namespace cheetah::cluster
