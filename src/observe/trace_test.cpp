// SPDX-License-Identifier: MIT
#include "observe/trace.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

namespace cheetah {
namespace {

TEST(TraceParent, IsReadAsTheStandardSays) {
  const auto context = parse_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(context->parent_id, "b7ad6b7169203331");
  EXPECT_TRUE(context->sampled);
  EXPECT_FALSE(parse_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")->sampled);
  EXPECT_TRUE(parse_traceparent("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"));
}

TEST(TraceParent, BeginsANewTraceWhenMalformed) {
  for (const char* bad : {"", "00", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
           "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
           "00-00000000000000000000000000000000-b7ad6b7169203331-01",
           "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
           "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
           "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01"})
    EXPECT_FALSE(parse_traceparent(bad)) << bad;
}

TEST(Otlp, SaysWhatACallWas) {
  TraceRecord record;
  record.context = {"0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"};
  record.request = {.operation = "chat", .model = "cub", .max_tokens = 9, .temperature = 0.5};
  record.route = "/v1/chat/completions";
  record.status = 200;
  record.finish = "stop";
  record.prompt_tokens = 3;
  record.start_unix_ns = 1'000'000'000;
  record.first_token_unix_ns = 1'250'000'000;
  record.end_unix_ns = 2'000'000'000;
  const Json body = Json::parse(
      otlp_body({record}, {.service_version = "1", .server_address = "127.0.0.1", .server_port = 8000}));
  const Json& span = body["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
  EXPECT_EQ(span["traceId"], record.context.trace_id);
  EXPECT_EQ(span["parentSpanId"], record.context.parent_id);
  EXPECT_EQ(span["spanId"].get<std::string>().size(), 16u);
  EXPECT_EQ(span["name"], "chat cub");
  EXPECT_EQ(span["endTimeUnixNano"], "2000000000");
  std::map<std::string, Json> attributes;
  for (const Json& each : span["attributes"]) attributes[each["key"]] = each["value"];
  EXPECT_EQ(attributes["gen_ai.operation.name"]["stringValue"], "chat");
  EXPECT_EQ(attributes["gen_ai.usage.input_tokens"]["intValue"], "3");
  EXPECT_EQ(attributes["gen_ai.request.temperature"]["doubleValue"], 0.5);
  EXPECT_EQ(attributes["gen_ai.response.time_to_first_chunk"]["doubleValue"], 0.25);
  EXPECT_EQ(attributes["http.response.status_code"]["intValue"], "200");
}

TEST(Otlp, SaysWhatAWorkerDidForACall) {
  const TraceSpan span{.context = {"0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"},
      .span_id = "00000000000000aa",
      .name = "send slab",
      .worker = "prefill-0",
      .start_unix_ns = 5,
      .end_unix_ns = 7,
      .numbers = {{"first_token", 128}}};
  const Json body = Json::parse(otlp_body({span}, {}));
  const Json& told = body["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
  EXPECT_EQ(told["traceId"], span.context.trace_id);
  EXPECT_EQ(told["parentSpanId"], span.context.parent_id);
  EXPECT_EQ(told["spanId"], span.span_id);
  EXPECT_EQ(told["name"], "send slab");
  EXPECT_EQ(told["attributes"][0]["value"]["stringValue"], "prefill-0");
  EXPECT_EQ(told["attributes"][1]["key"], "cheetah.first_token");
  EXPECT_EQ(told["attributes"][1]["value"]["intValue"], "128");
}

TEST(RandomIds, DifferWhetherTheSystemGivesRandomBytesOrNot) {
  const RandomFill none = [](void*, size_t) { return false; };
  const RandomFill zeros = [](void* to, size_t bytes) { return std::memset(to, 0, bytes) != nullptr; };
  EXPECT_NE(random_hex(8), random_hex(8));
  EXPECT_NE(random_hex(8, none), random_hex(8, none));
  EXPECT_EQ(random_hex(16, none).size(), 32u);
  EXPECT_EQ(random_hex(2, zeros), "0001");  // an id of zeros stands for "no trace"
}

}  // namespace
}  // namespace cheetah
