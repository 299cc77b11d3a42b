// SPDX-License-Identifier: MIT
#include "serve/picker/picker_call.h"

#include <gtest/gtest.h>

#include "serve/picker/ext_proc_fixture.h"

namespace cheetah {
namespace {

const std::vector<std::pair<std::string, std::string>> kPost = {
    {":method", "POST"}, {":path", "/v1/completions?a=b"}, {"authorization", "Bearer k"}};

struct Heard final : GrpcReply {
  void send(std::string_view message) override { messages.emplace_back(message); }
  void finish(GrpcStatus said, const std::string&) override { status = said; }
  std::vector<std::string> messages;
  std::optional<GrpcStatus> status;
};

// Keeps the question until the test answers it.
struct Desk final : PickerDesk {
  void choose(PickerQuestion asked, std::function<bool(PickerAnswer&&)> answer) override {
    question = std::move(asked);
    tell = std::move(answer);
  }
  void ended(const PickerOutcome& told) override { outcome = told; }
  std::optional<PickerQuestion> question;
  std::function<bool(PickerAnswer&&)> tell;
  std::optional<PickerOutcome> outcome;
};

class PickerCalls : public testing::Test {
 protected:
  std::string said(size_t i, std::initializer_list<uint32_t> path) {
    return field_at(heard_->messages.at(i), path);
  }
  // Of the message that names it, wherever it stands.
  static bool names_endpoint(const std::string& message) {
    return message.find("10.0.0.1:8000") != std::string::npos;
  }

  static std::string answer_headers() {
    return ProtoWriter().message(3, ProtoWriter().message(1, header_map({{":status", "200"}}))).text();
  }

  Desk desk_;
  PickerBodies bodies_{.most_each = 200'000, .left = 300'000};
  std::shared_ptr<Heard> heard_ = std::make_shared<Heard>();
  std::unique_ptr<PickerCall> call_ = std::make_unique<PickerCall>(desk_, heard_, bodies_);
};

TEST_F(PickerCalls, InFullDuplexTheBodyIsReadAndGoesOnBehindTheChoice) {
  call_->on_message(request_headers(kPost));
  const std::string whole(130'000, 'x');
  call_->on_message(body(ProcessingPhase::kRequestBody, whole.substr(0, 70'000), false));
  EXPECT_TRUE(heard_->messages.empty());
  EXPECT_FALSE(desk_.question);
  call_->on_message(body(ProcessingPhase::kRequestBody, whole.substr(70'000), true));
  ASSERT_TRUE(desk_.question);
  EXPECT_EQ(desk_.question->body, whole);
  EXPECT_EQ(desk_.question->path, "/v1/completions");
  EXPECT_TRUE(desk_.tell({.endpoints = "10.0.0.1:8000", .ticket = 7}));
  ASSERT_EQ(heard_->messages.size(), 4u);
  EXPECT_TRUE(names_endpoint(said(0, {1})));
  std::string returned;
  for (size_t i = 1; i < 4; ++i) {
    returned += said(i, {3, 1, 3, 3, 1});
    EXPECT_EQ(said(i, {3, 1, 3, 3, 2}), i == 3 ? "1" : "");
  }
  EXPECT_EQ(returned, whole);
  call_->on_message(answer_headers());
  call_->on_message(body(ProcessingPhase::kResponseBody, "data: 1", false));
  EXPECT_EQ(said(5, {4, 1, 3, 3, 1}), "data: 1");
  call_.reset();
  ASSERT_TRUE(desk_.outcome);
  EXPECT_EQ(desk_.outcome->ticket, 7u);
  EXPECT_TRUE(desk_.outcome->answered);
}

TEST_F(PickerCalls, ABufferedBodyIsAnsweredWithTheChoice) {
  call_->on_message(request_headers(kPost, false, BodyMode::kBuffered));
  ASSERT_EQ(heard_->messages.size(), 1u);
  EXPECT_FALSE(names_endpoint(heard_->messages[0]));
  call_->on_message(body(ProcessingPhase::kRequestBody, "{}", true));
  desk_.tell({.endpoints = "10.0.0.1:8000"});
  ASSERT_EQ(heard_->messages.size(), 2u);
  EXPECT_TRUE(names_endpoint(said(1, {3})));
}

TEST_F(PickerCalls, WithoutABodyTheHeadersDecide) {
  for (const BodyMode mode : {BodyMode::kNone, BodyMode::kStreamed, BodyMode::kGrpc}) {
    const auto heard = std::make_shared<Heard>();
    PickerCall call(desk_, heard, bodies_);
    call.on_message(request_headers(kPost, false, mode));
    desk_.tell({.endpoints = "10.0.0.1:8000"});
    ASSERT_EQ(heard->messages.size(), 1u);
    EXPECT_TRUE(names_endpoint(heard->messages[0]));
  }
}

TEST_F(PickerCalls, TrailersEndABodyToo) {
  call_->on_message(request_headers(kPost));
  call_->on_message(body(ProcessingPhase::kRequestBody, "{}", false));
  call_->on_message(std::string(ProtoWriter().message(6, ProtoWriter()).text()));
  desk_.tell({.endpoints = "10.0.0.1:8000"});
  ASSERT_EQ(heard_->messages.size(), 3u);
  EXPECT_EQ(said(1, {3, 1, 3, 3, 2}), "");
  EXPECT_EQ(ProtoReader(heard_->messages[2]).next()->number, 5u);
}

TEST_F(PickerCalls, ARefusalIsSaidAtOnceAndABodyIsBounded) {
  call_->on_message(request_headers(kPost));
  call_->on_message(body(ProcessingPhase::kRequestBody, std::string(200'001, 'x'), false));
  ASSERT_EQ(heard_->messages.size(), 1u);
  EXPECT_EQ(said(0, {7, 1, 1}), "413");
  call_->on_message(body(ProcessingPhase::kRequestBody, "more", true));
  EXPECT_EQ(heard_->messages.size(), 1u);
  EXPECT_FALSE(desk_.question);
}

TEST_F(PickerCalls, BodiesOfAllCallsAreBoundedTogetherAndTheirRoomComesBack) {
  const std::string large(180'000, 'x');
  const auto heard = std::make_shared<Heard>();
  PickerCall other(desk_, heard, bodies_);
  other.on_message(request_headers(kPost));
  call_->on_message(request_headers(kPost));
  call_->on_message(body(ProcessingPhase::kRequestBody, large, false));
  other.on_message(body(ProcessingPhase::kRequestBody, large, false));
  ASSERT_EQ(heard->messages.size(), 1u);
  EXPECT_EQ(field_at(heard->messages[0], {7, 1, 1}), "429");
  call_.reset();
  EXPECT_EQ(bodies_.left, 300'000u);
}

TEST_F(PickerCalls, WhatComesOutOfTurnEndsTheCall) {
  call_->on_message(request_headers(kPost));
  call_->on_message(request_headers(kPost));
  EXPECT_EQ(heard_->status, GrpcStatus::kInvalidArgument);
  const auto heard = std::make_shared<Heard>();
  PickerCall call(desk_, heard, bodies_);
  call.on_message("\xff");
  EXPECT_EQ(heard->status, GrpcStatus::kInvalidArgument);
}

TEST_F(PickerCalls, AnAnswerForACallThatHasGoneIsNotTaken) {
  call_->on_message(request_headers(kPost, true));
  call_.reset();
  EXPECT_FALSE(desk_.tell({.endpoints = "10.0.0.1:8000", .ticket = 3}));
  EXPECT_FALSE(desk_.outcome);
}

TEST_F(PickerCalls, TheEndOfTheAskerWaitsForTheAnswer) {
  call_->on_message(request_headers(kPost, true));
  call_->on_half_closed();
  EXPECT_FALSE(heard_->status);
  desk_.tell({.endpoints = "10.0.0.1:8000"});
  EXPECT_EQ(heard_->status, GrpcStatus::kOk);
}

TEST_F(PickerCalls, WhatIsOnlyObservedIsNotAnswered) {
  call_->on_message(request_headers(kPost, true) + ProtoWriter().number(10, 1).text());
  EXPECT_FALSE(desk_.question);
  EXPECT_TRUE(heard_->messages.empty());
}

}  // namespace
}  // namespace cheetah
