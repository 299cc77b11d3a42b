// SPDX-License-Identifier: MIT
#include "engine/sequence_pages.h"

#include <gtest/gtest.h>

#include "engine/pages_fixture.h"

namespace cheetah {
namespace {

TEST(SequencePages, ASecondSequenceWaitsForTheBeginningAndThenSharesIt) {
  PagesFixture f;
  Sequence& first = f.admit(f.add(20));
  Sequence& second = *f.add(20).choices.front();
  EXPECT_FALSE(f.pages.admit(second)) << "its beginning is being computed";
  EXPECT_EQ(second.num_held_pages(), 0);
  f.compute(first);
  const auto admission = f.pages.admit(second);
  ASSERT_TRUE(admission);
  EXPECT_TRUE(admission->looked_up);
  EXPECT_EQ(admission->ready_tokens, 16) << "whole pages before the last token";
  EXPECT_EQ(second.computed, 16);
  EXPECT_EQ(second.lists.front().at(0), first.lists.front().at(0));
  f.pages.abandon(first);
  f.pages.abandon(second);
}

TEST(SequencePages, WhatDoesNotFitChangesNothing) {
  PagesFixture f(4);
  Sequence& first = f.admit(f.add(20));
  const int64_t free = f.num_free();
  Sequence& second = *f.add(20, 2).choices.front();
  EXPECT_FALSE(f.pages.admit(second));
  EXPECT_EQ(f.num_free(), free);
  EXPECT_EQ(second.num_held_pages(), 0);
  f.pages.abandon(first);
  f.pages.pool().check_invariants();
}

TEST(SequencePages, ASwappedSequenceComesBackWithItsBytes) {
  PagesFixture f;
  Sequence& sequence = f.admit(f.add(20));
  f.compute(sequence);
  std::vector<std::byte> before(static_cast<size_t>(f.pages.bytes().page_bytes())), after(before.size());
  for (size_t i = 0; i < before.size(); ++i) before[i] = static_cast<std::byte>(i * 7);
  f.pages.bytes().load(before, sequence.lists.front().at(1));
  f.pages.give_up(sequence, Preemption::kSwap);
  EXPECT_EQ(sequence.num_held_pages(), 0);
  EXPECT_GT(sequence.swapped_pages, 0);
  const auto admission = f.pages.admit(sequence);
  ASSERT_TRUE(admission);
  EXPECT_TRUE(admission->swapped_in);
  EXPECT_EQ(sequence.computed, 20);
  f.pages.bytes().save(sequence.lists.front().at(1), after);
  EXPECT_EQ(before, after);
  f.pages.abandon(sequence);
}

TEST(SequencePages, TheFirstToWriteASharedPageGetsACopy) {
  PagesFixture f;
  RequestState& request = f.add(20);
  request.request.n = request.request.best_of = 2;
  Sequence& first = f.admit(request);
  f.compute(first);
  f.table.start_choices(request);
  Sequence& other = *request.choices.back();
  f.pages.share(first, other);
  EXPECT_EQ(f.pages.num_shared_next(first), 1);
  const PageIndex last = first.lists.front().at(2);
  ASSERT_TRUE(f.pages.prepare(first, 1));
  EXPECT_NE(first.lists.front().at(2), last);
  EXPECT_EQ(other.lists.front().at(2), last);
  EXPECT_EQ(f.pages.num_shared_next(other), 0);
  f.pages.abandon(first);
  f.pages.abandon(other);
  EXPECT_EQ(f.pages.num_available(), 16);
}

TEST(SequencePages, PagesThatAStepStillWritesAreParked) {
  PagesFixture f;
  Sequence& sequence = f.admit(f.add(20));
  sequence.submitted = 20;
  const int64_t held = sequence.num_held_pages(), free = f.num_free();
  std::vector<PageIndex> parked;
  f.pages.finish(sequence, &parked);
  EXPECT_EQ(std::ssize(parked), held);
  EXPECT_EQ(sequence.num_held_pages(), 0);
  EXPECT_EQ(f.num_free(), free);
  for (const PageIndex page : parked) f.pages.pool().release(page);
  EXPECT_EQ(f.num_free(), 16);
}

TEST(SequencePages, AnEndedSequenceLeavesItsWholePagesToTheCache) {
  PagesFixture f;
  Sequence& sequence = f.admit(f.add(20));
  f.compute(sequence);
  f.pages.finish(sequence, nullptr);
  EXPECT_EQ(f.pages.cached_tokens("", random_prompt(20, 1)), 16);
  f.pages.empty_cache();
  EXPECT_EQ(f.pages.cached_tokens("", random_prompt(20, 1)), 0);
  EXPECT_EQ(f.num_free(), 16);
}

}  // namespace
}  // namespace cheetah
