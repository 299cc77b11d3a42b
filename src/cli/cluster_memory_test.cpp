// SPDX-License-Identifier: MIT
#include "cli/cluster_memory.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/model_header.h"

namespace cheetah {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

TEST(ClusterMemory, WorkersTogetherTakeNoMoreThanThereIs) {
  const ModelTraits traits = random_traits("random:llama-1b");
  int64_t before = 32 * kGiB;
  for (const int workers : {1, 2, 4, 7, 20}) {
    const int64_t each = kv_bytes_each(traits, {}, {.free_bytes = 32 * kGiB, .workers = workers});
    EXPECT_LE(workers * each, 32 * kGiB) << workers;
    EXPECT_GT(each, 0) << workers;
    EXPECT_LE(each, before) << workers;
    before = each;
  }
}

TEST(ClusterMemory, WeightsOfItsOwnCostEveryProcessAndSharedOnesCostOnce) {
  const ModelTraits traits = random_traits("random:llama-1b");
  const MemoryShare free{.free_bytes = 32 * kGiB, .workers = 2, .others = 1};
  MemoryShare shared = free, own = free;
  shared.shared_bytes = own.own_bytes = 2 * kGiB;
  const int64_t none = kv_bytes_each(traits, {}, free), once = kv_bytes_each(traits, {}, shared),
                each = kv_bytes_each(traits, {}, own);
  EXPECT_LT(once, none);
  EXPECT_LT(each, once);
}

TEST(ClusterMemory, FlagsThatGiveTheMemoryAreLeftAlone) {
  UpOptions up;
  up.model = "random:tiny-128k";
  EXPECT_GT(kv_bytes_for(up, ""), 0);
  EXPECT_EQ(kv_bytes_for(up, "--kv-memory 32MiB"), 0);
  up.more = "--kv-memory 64MiB --max-sequences 8";
  EXPECT_EQ(kv_bytes_for(up, ""), 0);
  EXPECT_THROW(kv_bytes_for(up, "--no-such-flag"), UsageError);
}

}  // namespace
}  // namespace cheetah
