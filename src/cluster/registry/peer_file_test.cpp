// SPDX-License-Identifier: MIT
#include "cluster/registry/peer_file.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <future>

#include "base/error.h"
#include "base/text.h"
#include "cluster/services/service_fixture.h"

namespace cheetah::cluster {
namespace {

class PeerFile : public testing::Test {
 protected:
  // At once, as an editor or a supervisor should.
  void write(const std::string& text, const std::string& name = "peers") {
    std::ofstream(folder_.path("next")) << text;
    std::filesystem::rename(folder_.path("next"), folder_.path(name));
  }
  std::string path() const { return folder_.path("peers"); }
  std::string refusal(const std::string& text) {
    write(text);
    try {
      read_peer_file(path());
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }
  TempDir folder_;
};

TEST_F(PeerFile, ItsLinesBecomeKeys) {
  write("p1 = 2", "routing.toml");
  write(
      "# two machines\nprefill 10.0.0.2:7100 p1  # fast\n\ndecode [::1]:7101\nconfig routing routing.toml\n");
  const auto entries = read_peer_file(path());
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries.at("peers/10.0.0.2:7100").value, "prefill p1");
  EXPECT_EQ(entries.at("peers/[::1]:7101").value, "decode [::1]:7101");
  EXPECT_EQ(entries.at("config/routing").value, "p1 = 2");
}

TEST_F(PeerFile, WhatIsWrongIsNamedByItsLine) {
  EXPECT_TRUE(contains(refusal("decode h:1\nserver h:2\n"), "line 2"));
  EXPECT_TRUE(contains(refusal("decode h"), "HOST:PORT"));
  EXPECT_TRUE(contains(refusal("decode h:70000"), "HOST:PORT"));
  EXPECT_TRUE(contains(refusal("decode h:1\nprefill h:1"), "once"));
  EXPECT_TRUE(contains(refusal("config routing no-such-file"), "cannot be read"));
  EXPECT_TRUE(contains(refusal(std::string((1 << 20) + 1, '#')), "short list"));
  EXPECT_THROW(PeerFileRegistry("/no/such/file"), Error);
}

TEST_F(PeerFile, ItIsReadAgainWhenItChangesAndAFaultOfItIsAState) {
  write("decode h:1 d\n");
  PeerFileRegistry registry(path(), std::chrono::milliseconds(5));
  std::atomic<int> puts{0}, removes{0}, synced{0};
  const auto id = registry.watch("peers/", [&](const RegistryEvent& event) {
    puts += event.kind == RegistryEvent::Kind::kPut;
    removes += event.kind == RegistryEvent::Kind::kRemove;
    synced += event.kind == RegistryEvent::Kind::kSynced;
  });
  EXPECT_TRUE(eventually([&] { return puts == 1 && synced == 1; }));
  write("decode h:1 d\ndecode h:2 e\n");
  EXPECT_TRUE(eventually([&] { return puts == 2; }));
  write("nonsense\n");
  EXPECT_TRUE(eventually([&] { return !registry.state().up; }));
  EXPECT_TRUE(contains(registry.state().why, "line 1"));
  EXPECT_EQ(registry.list("peers/").size(), 2u);
  write("decode h:2 e\n");
  EXPECT_TRUE(eventually([&] { return registry.state().up && removes == 1; }));
  registry.unwatch(id);
}

TEST_F(PeerFile, AnnouncementsAreSeenByThisProcessAndThereIsNothingSharedToWriteTo) {
  write("decode h:1 d\n");
  PeerFileRegistry registry(path(), std::chrono::milliseconds(5));
  EXPECT_FALSE(registry.is_shared());
  registry.announce("workers/1", "x");
  EXPECT_TRUE(eventually([&] { return registry.list("").size() == 2; }));
  std::promise<TransactionResult> promise;
  registry.transact({.expect = {}, .writes = {{"k", "v", false}}},
      [&](const TransactionResult& result) { promise.set_value(result); });
  EXPECT_EQ(promise.get_future().get().kind, TransactionResult::Kind::kUnavailable);
  registry.withdraw("workers/1");
  EXPECT_TRUE(eventually([&] { return registry.list("").size() == 1; }));
}

}  // namespace
}  // namespace cheetah::cluster
