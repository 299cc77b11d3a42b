// SPDX-License-Identifier: MIT
// Which of a policy file and a document of the registry counts, and which nodes a list of peers still names.
#include "cluster/node/policy_watch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/temp_dir.h"
#include "cluster/node/peer_list.h"

namespace cheetah::cluster {
namespace {

std::string policy(int64_t max_queue) {
  return "[routing.threshold]\nmax_queue = " + std::to_string(max_queue) + "\n";
}

struct WatchedPolicy : testing::Test {
  // As an editor saves: the file is another one afterwards.
  void save(int64_t max_queue) {
    std::ofstream(path + ".new") << policy(max_queue);
    std::filesystem::rename(path + ".new", path);
  }
  std::optional<PolicyWatch::Outcome> look() { return watch->look(now += std::chrono::seconds(2)); }

  const TempDir temp;
  const std::string path = temp.path() + "/policy.toml";
  int64_t in_use = 0;
  Time now{};
  std::optional<PolicyWatch> watch;

  void SetUp() override {
    save(1);
    PolicyConfig first;
    first.routing.threshold.max_queue = in_use = 1;
    watch.emplace(
        path, first, [this](const PolicyConfig& config) { in_use = config.routing.threshold.max_queue; });
  }
};

TEST_F(WatchedPolicy, ADocumentWinsOverAFileThatChangesLater) {
  EXPECT_FALSE(look());
  EXPECT_EQ(watch->take_document(policy(2), "config/policy").why_not, "");
  EXPECT_EQ(in_use, 2);
  save(3);
  EXPECT_FALSE(look());
  EXPECT_EQ(in_use, 2);
  EXPECT_EQ(watch->document_gone().source, path);
  EXPECT_EQ(in_use, 3) << "the file as it is now";
  save(4);
  EXPECT_TRUE(look());
  EXPECT_EQ(in_use, 4);
}

TEST_F(WatchedPolicy, ADocumentThatCannotBeReadChangesNothing) {
  EXPECT_NE(watch->take_document("[routing]\nnonsense = 1\n", "config/policy").why_not, "");
  EXPECT_EQ(in_use, 1);
  save(5);
  EXPECT_TRUE(look()) << "and the file still counts";
  EXPECT_EQ(in_use, 5);
}

TEST_F(WatchedPolicy, WithoutAFileADeletedDocumentLeavesWhatTheNodeWasStartedWith) {
  std::filesystem::remove(path);
  watch->take_document(policy(2), "config/policy");
  watch->document_gone();
  EXPECT_EQ(in_use, 1);
}

TEST(PeerList, ANodeIsTakenOffUntilItHasALineAgain) {
  PeerList list;
  WorkerDescriptor direct, proxied;
  direct.host = "10.0.0.1";
  direct.port = 7100;
  direct.name = "d1";
  proxied.host = "10.9.9.9";
  proxied.port = 9000;
  proxied.name = "d2";
  list.put("peers/10.0.0.1:7100", "decode d1");
  list.put("peers/10.0.0.7:7100", "decode d2");
  EXPECT_FALSE(list.taken_off(direct) || list.taken_off(proxied));
  list.remove("peers/10.0.0.1:7100", "decode d1");
  list.remove("peers/10.0.0.7:7100", "decode d2");
  EXPECT_TRUE(list.taken_off(direct) && list.taken_off(proxied));
  list.put("peers/10.0.0.8:7100", "decode d2");
  EXPECT_FALSE(list.taken_off(proxied)) << "it has another address now";
  list.put("peers/10.0.0.1:7100", "decode d1");
  EXPECT_FALSE(list.taken_off(direct));
}

}  // namespace
}  // namespace cheetah::cluster
