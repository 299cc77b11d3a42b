// SPDX-License-Identifier: MIT
// Transfers between workers that know each other by certificates, through every transport.
#include "base/error.h"
#include "cluster/net/test_authority.h"
#include "cluster/transfer/transfer_fixture.h"

namespace cheetah::cluster {
namespace {

class TransferIdentity : public TransferTest {
 protected:
  TransferConfig config_with(const std::shared_ptr<const Identity>& identity, uint64_t number) const {
    TransferConfig made = config(number);
    made.credentials = {.identity = identity};
    made.self = identity->id_with(number);
    return made;
  }
  // What becomes of a slab that `from` pushes to `to`.
  std::optional<PushDone> push(const TransferConfig& from, const TransferConfig& to) {
    TestAgent receiver(to), sender(from);
    const auto reserved = receiver->reserve(kKey, 1, soon());
    const auto bytes = pattern_bytes(5000, 1);
    sender->add_peer(to.self, receiver->describe());
    const TransferId id = sender->push({.to = to.self, .ticket = reserved->ticket, .pieces = {bytes}});
    const PushDone* done = sender.await_done(id);
    if (!done) return std::nullopt;
    receiver.poll();
    EXPECT_EQ(done->done, receiver->slab(reserved->id, 0).has_value());
    return *done;
  }
  TestAuthority authority_;
};

TEST_P(TransferIdentity, PagesMoveBetweenWorkersOfOneAuthority) {
  const auto done =
      push(config_with(authority_.identity("prefill"), 1), config_with(authority_.identity("decode"), 2));
  ASSERT_TRUE(done);
  EXPECT_TRUE(done->done) << done->why;
}

TEST_P(TransferIdentity, NobodyElseWritesAPage) {
  if (GetParam() == TransferBackend::kInProcess) GTEST_SKIP() << "one process trusts itself";
  TestAuthority others("others");
  const TransferConfig receiver = config_with(authority_.identity("decode"), 2);
  TransferConfig thief = config_with(authority_.identity("prefill"), 1);
  thief.self = authority_.identity("router")->id_with(1);
  for (const TransferConfig& stranger : {config_with(others.identity("prefill"), 1), config(1), thief}) {
    const auto done = push(stranger, receiver);
    ASSERT_TRUE(done);
    EXPECT_FALSE(done->done);
  }
  const auto done = push(config_with(authority_.identity("prefill"), 1), config(2));
  ASSERT_TRUE(done);
  EXPECT_FALSE(done->done) << "a receiver without a certificate is sent nothing";
}

INSTANTIATE_TEST_SUITE_P(Backends, TransferIdentity, testing::ValuesIn(available_backends()), test_name_of);

}  // namespace
}  // namespace cheetah::cluster
