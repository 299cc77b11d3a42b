// SPDX-License-Identifier: MIT
#include "engine/exports.h"

#include <gtest/gtest.h>

#include "engine/imports.h"
#include "engine/pages_fixture.h"

namespace cheetah {
namespace {

struct Heard {
  std::vector<KvProgress> progress;
  Exports::Sink sink() {
    return [this](const Exports::Pages&, const KvProgress& news) { progress.push_back(news); };
  }
};

TEST(Exports, HearOfEachChunkOnlyWhenDelivered) {
  PagesFixture f;
  Exports exports(f.pages);
  RequestState& request = f.add(30);
  Heard heard;
  exports.open(request.request.id, 24, heard.sink());
  EXPECT_TRUE(exports.has(request));
  Sequence& sequence = f.admit(request);
  sequence.set_computed(10);
  exports.advance(sequence);
  EXPECT_TRUE(heard.progress.empty());
  exports.deliver();
  ASSERT_EQ(heard.progress.size(), 1u);
  EXPECT_EQ(heard.progress[0].tokens_ready, 8);
  EXPECT_EQ(exports.num_held_pages(), 1);
  sequence.set_computed(30);
  exports.advance(sequence);
  exports.deliver();
  EXPECT_TRUE(heard.progress.back().finished);
  EXPECT_EQ(heard.progress.back().tokens_ready, 24);
  EXPECT_FALSE(exports.has(request));
  f.pages.abandon(sequence);
}

TEST(Exports, KeepThePagesUntilClosed) {
  PagesFixture f;
  Exports exports(f.pages);
  RequestState& request = f.add(30);
  Heard heard;
  const auto number = exports.open(request.request.id, 30, heard.sink());
  Sequence& sequence = f.admit(request);
  sequence.set_computed(30);
  exports.advance(sequence);
  f.pages.abandon(sequence);
  EXPECT_EQ(exports.num_held_pages(), 3);
  EXPECT_EQ(f.num_free(), 13);
  exports.close(number);
  exports.close(number);
  EXPECT_EQ(f.num_free(), 16);
  exports.deliver();
  EXPECT_TRUE(heard.progress.empty()) << "closed: nothing is heard";
}

TEST(Exports, AnEndBeforeTheLastPageIsAFailure) {
  PagesFixture f;
  Exports exports(f.pages);
  RequestState& request = f.add(30);
  Heard heard;
  exports.open(request.request.id, 30, heard.sink());
  exports.end(request.request.id, "cancelled");
  exports.end(request.request.id, "cancelled again");
  exports.deliver();
  ASSERT_EQ(heard.progress.size(), 1u);
  EXPECT_TRUE(heard.progress[0].failed);
  EXPECT_EQ(heard.progress[0].why, "cancelled");
}

KvImport import_of(const PagesFixture& f, std::span<const std::byte> bytes, int64_t tokens) {
  return {.request = RequestId{77},
      .salt = "",
      .tokens = random_prompt(tokens, 9),
      .first_token = 0,
      .text_tokens = tokens + 4,
      .last_token = tokens,
      .bytes = bytes.first(static_cast<size_t>(
          tokens / f.plan.config.page_tokens * f.plan.layout.num_groups() * f.pages.bytes().page_bytes()))};
}

TEST(Imports, ArePinnedUntilNothingElseCanMakeRoom) {
  PagesFixture f;
  Imports imports(f.pages, f.plan.config, f.model->traits().vocab);
  const std::vector<std::byte> bytes(size_t{1} << 20);
  const KvImport two = import_of(f, bytes, 16);
  ASSERT_TRUE(imports.take(two, {}).imported);
  EXPECT_EQ(f.pages.cached_tokens("", random_prompt(20, 9)), 16);
  EXPECT_EQ(imports.num_held_pages(), 2);
  EXPECT_FALSE(f.pages.make_free(16)) << "pinned";
  EXPECT_TRUE(imports.unpin_oldest());
  EXPECT_TRUE(f.pages.make_free(16));
  EXPECT_FALSE(imports.unpin_oldest());
}

TEST(Imports, LeaveAPageForEverySequenceThatRuns) {
  PagesFixture f(4);
  Imports imports(f.pages, f.plan.config, f.model->traits().vocab);
  const std::vector<std::byte> bytes(size_t{1} << 20);
  EXPECT_FALSE(imports.take(import_of(f, bytes, 16), {.num_running = 2}).imported);
  EXPECT_TRUE(imports.take(import_of(f, bytes, 16), {.num_running = 1}).imported);
  imports.unpin(RequestId{77});
  EXPECT_EQ(f.pages.num_available(), 4);
}

}  // namespace
}  // namespace cheetah
