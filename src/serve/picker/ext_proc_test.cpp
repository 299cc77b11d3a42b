// SPDX-License-Identifier: MIT
#include "serve/picker/ext_proc.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "serve/picker/ext_proc_fixture.h"

namespace cheetah {
namespace {

TEST(Protobuf, WhatIsWrittenIsRead) {
  const std::string text = ProtoWriter().number(1, 300).bytes(1000, "abc").number(3, UINT64_MAX).text();
  ProtoReader reader(text);
  const auto first = reader.next(), second = reader.next(), third = reader.next();
  EXPECT_EQ(first->value, 300u);
  EXPECT_EQ(second->number, 1000u);
  EXPECT_EQ(second->bytes, "abc");
  EXPECT_EQ(third->value, UINT64_MAX);
  EXPECT_FALSE(reader.next());
}

TEST(Protobuf, WhatIsNoMessageIsRefused) {
  for (const std::string& text : {std::string("\x08"),
           std::string("\x0a\x05"
                       "abc"),
           std::string("\x0b"), std::string("\x00", 1), std::string(11, '\xff'), std::string("\x0d\x01\x02"),
           std::string("\x09\x01")}) {
    ProtoReader reader(text);
    EXPECT_THROW(while (reader.next()){}, Error);
  }
}

TEST(ExtProc, HeadersBodiesModesAndMetadataAreRead) {
  const ProcessingRequest head = parse_processing_request(
      request_headers({{":path", "/v1/completions"}, {"a", "b"}}, true, BodyMode::kBuffered));
  EXPECT_EQ(head.phase, ProcessingPhase::kRequestHeaders);
  EXPECT_EQ(head.headers,
      (std::vector<std::pair<std::string, std::string>>{{":path", "/v1/completions"}, {"a", "b"}}));
  EXPECT_TRUE(head.end_of_stream);
  EXPECT_EQ(head.modes->request, BodyMode::kBuffered);
  EXPECT_FALSE(head.subset);

  const ProcessingRequest piece =
      parse_processing_request(body(ProcessingPhase::kResponseBody, "xyz", true) +
                               ProtoWriter()
                                   .message(8, metadata("envoy.lb", "x-gateway-destination-endpoint-served",
                                                   ProtoWriter().bytes(3, "10.0.0.1:8000")))
                                   .text());
  EXPECT_EQ(piece.phase, ProcessingPhase::kResponseBody);
  EXPECT_EQ(piece.body, "xyz");
  EXPECT_EQ(piece.served, "10.0.0.1:8000");
}

TEST(ExtProc, ASubsetIsAListOrATextAndAnEmptyOneIsEmpty) {
  const auto subset_of = [](const ProtoWriter& value) {
    return *parse_processing_request(
        ProtoWriter()
            .message(8, metadata("envoy.lb.subset_hint", "x-gateway-destination-endpoint-subset", value))
            .text())
                .subset;
  };
  const std::vector<std::string> both = {"10.0.0.1:8000", "10.0.0.2:8000"};
  EXPECT_EQ(subset_of(endpoint_list(both)), both);
  EXPECT_EQ(subset_of(ProtoWriter().bytes(3, "10.0.0.1:8000, 10.0.0.2:8000,")), both);
  EXPECT_TRUE(subset_of(endpoint_list({})).empty());
}

TEST(ExtProc, ADestinationIsInAHeaderAndInTheMetadata) {
  const std::string text = destination_text(ProcessingPhase::kRequestBody, "10.0.0.1:8000,10.0.0.2:8000");
  const std::string option = field_at(text, {3, 1, 2, 1}), entry = field_at(text, {8, 1});
  EXPECT_EQ(field_at(option, {1, 1}), kDestinationHeader);
  EXPECT_EQ(field_at(option, {1, 3}), "10.0.0.1:8000,10.0.0.2:8000");
  EXPECT_EQ(field_at(option, {3}), "2");
  EXPECT_EQ(field_at(text, {3, 1, 5}), "1");
  EXPECT_EQ(field_at(entry, {1}), "envoy.lb");
  EXPECT_EQ(field_at(entry, {2, 5, 1, 1}), kDestinationHeader);
  EXPECT_EQ(field_at(entry, {2, 5, 1, 2, 3}), "10.0.0.1:8000,10.0.0.2:8000");
}

TEST(ExtProc, PiecesAndRefusalsHaveTheirPlaces) {
  const std::string piece = body_piece_text(ProcessingPhase::kResponseBody, "abc", true);
  EXPECT_EQ(field_at(piece, {4, 1, 3, 3, 1}), "abc");
  EXPECT_EQ(field_at(piece, {4, 1, 3, 3, 2}), "1");
  const std::string refusal = immediate_text({.status = 429, .body = "{}", .retry_after_s = 3});
  EXPECT_EQ(field_at(refusal, {7, 1, 1}), "429");
  EXPECT_EQ(field_at(refusal, {7, 3}), "{}");
  EXPECT_NE(field_at(refusal, {7, 2}).find("retry-after"), std::string::npos);
}

}  // namespace
}  // namespace cheetah
