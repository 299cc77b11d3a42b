// SPDX-License-Identifier: MIT
#include "cluster/wire/codec.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "base/error.h"
#include "cluster/wire/random_message.h"

namespace cheetah::cluster {
namespace {

constexpr size_t kTypes = std::variant_size_v<Message>;

Generate full_generate() {
  Generate generate{.key = {RequestUid{7}, Attempt{2}},
      .grammar = {"json_schema", "{}"},
      .resume = {{.tokens = {5, 6}, .finished = true}, {.tokens = {7}, .mirostat_mu = 4.5f}},
      .prefill = PrefillPlace::kElsewhere,
      .prefill_hint = WorkerId{9},
      .time_left = Microseconds(1500),
      .trace = "00-ab-cd-01"};
  GenerationRequest& request = generate.request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 40;
  request.min_tokens = 3;
  request.n = 2;
  request.best_of = 3;
  request.sampling = {.temperature = 0.5f,
      .top_k = 4,
      .top_p = 0.9f,
      .min_p = 0.1f,
      .repetition_penalty = 1.1f,
      .frequency_penalty = 0.2f,
      .presence_penalty = 0.3f,
      .dry = {.multiplier = 0.7f, .base = 1.5f, .allowed_length = 3, .last_n = 64},
      .top_n_sigma = 1.5f,
      .xtc_probability = 0.4f,
      .xtc_threshold = 0.2f,
      .dynatemp_range = 0.25f,
      .dynatemp_exponent = 2.f,
      .mirostat = Mirostat::kSecond,
      .mirostat_tau = 4.f,
      .mirostat_eta = 0.2f};
  request.typical_p = 0.8f;
  request.dry_breakers = {"\n", "--"};
  request.logit_bias = {{4, -1.5f}};
  request.allowed_ids = {1, 4};
  request.seed = 77;
  request.top_logprobs = 5;
  request.prompt_logprobs = true;
  request.top_prompt_logprobs = 4;
  request.reasoning =
      ReasoningBudget{.tokens = 9, .open = {1}, .end = {2, 3}, .closing = {2, 3, 4}, .begins_open = true};
  request.stop = {"a", "bc"};
  request.stop_ids = {8};
  request.ignore_eos = request.include_stop_in_text = true;
  request.skip_special = false;
  request.pooling = Pooling::kLast;
  request.normalize = false;
  request.priority = -2;
  request.cache_salt = "salt";
  return generate;
}

TEST(Wire, AGenerateCrossesWithEveryField) {
  const Generate sent = full_generate();
  const auto got = std::get<Generate>(decode(encode(sent)));
  EXPECT_EQ(got.key, sent.key);
  EXPECT_EQ(got.grammar, sent.grammar);
  EXPECT_EQ(got.resume, sent.resume);
  EXPECT_EQ(got.prefill, sent.prefill);
  EXPECT_EQ(got.prefill_hint, sent.prefill_hint);
  EXPECT_EQ(got.time_left, sent.time_left);
  EXPECT_EQ(got.trace, sent.trace);
  const GenerationRequest &a = got.request, &b = sent.request;
  EXPECT_EQ(a.prompt, b.prompt);
  EXPECT_EQ(std::tie(a.max_tokens, a.min_tokens, a.n, a.best_of),
      std::tie(b.max_tokens, b.min_tokens, b.n, b.best_of));
  EXPECT_EQ(a.sampling, b.sampling);
  EXPECT_EQ(a.dry_breakers, b.dry_breakers);
  EXPECT_EQ(a.reasoning, b.reasoning);
  EXPECT_EQ(a.top_prompt_logprobs, b.top_prompt_logprobs);
  EXPECT_EQ(std::tie(a.typical_p, a.logit_bias, a.allowed_ids, a.seed, a.top_logprobs, a.prompt_logprobs),
      std::tie(b.typical_p, b.logit_bias, b.allowed_ids, b.seed, b.top_logprobs, b.prompt_logprobs));
  EXPECT_EQ(std::tie(a.stop, a.stop_ids, a.ignore_eos, a.include_stop_in_text, a.skip_special),
      std::tie(b.stop, b.stop_ids, b.ignore_eos, b.include_stop_in_text, b.skip_special));
  EXPECT_EQ(std::tie(a.pooling, a.normalize, a.priority, a.cache_salt),
      std::tie(b.pooling, b.normalize, b.priority, b.cache_salt));
}

TEST(Wire, AnEventCrossesWithItsTimesAsOffsets) {
  Tokens sent{.key = {RequestUid{7}, Attempt{2}}, .sequence = 3, .first_index = 12};
  GenerationEvent& event = sent.event;
  event.choice = 1;
  event.tokens = {{.id = 4, .logprob = -0.5f, .top = {{4, -0.5f}, {9, -2.f}}}};
  event.text = "h\xc3\xa9";
  event.finish = FinishReason::kError;
  event.stop_string = "x";
  event.error = "why";
  event.error_kind = ErrorKind::kTooLong;
  event.done = true;
  event.prompt_tokens = 5, event.cached_tokens = 4, event.completion_tokens = 3;
  event.times.arrived = EngineTime{} + std::chrono::hours(5);
  event.times.first_token = event.times.arrived + std::chrono::milliseconds(20);
  event.embedding = {0.5f, -1.f};
  event.prompt_logprobs = {{.id = 2, .logprob = -3.f, .top = {}}};
  sent.waterfall = {.queued = Microseconds(1),
      .prefill = Microseconds(2),
      .transfer = Microseconds(3),
      .decode = Microseconds(4),
      .remote_tokens = 5,
      .prefill_worker = WorkerId{6}};

  const auto got = std::get<Tokens>(decode(encode(sent)));
  EXPECT_EQ(std::tie(got.key, got.sequence, got.first_index, got.waterfall),
      std::tie(sent.key, sent.sequence, sent.first_index, sent.waterfall));
  const GenerationEvent& there = got.event;
  EXPECT_EQ(there.choice, 1);
  ASSERT_EQ(there.tokens.size(), 1u);
  EXPECT_EQ(there.tokens[0].top[1].id, 9);
  EXPECT_EQ(std::tie(there.text, there.finish, there.stop_string, there.error, there.error_kind, there.done),
      std::tie(event.text, event.finish, event.stop_string, event.error, event.error_kind, event.done));
  EXPECT_EQ(std::tie(there.prompt_tokens, there.cached_tokens, there.completion_tokens, there.embedding),
      std::tie(event.prompt_tokens, event.cached_tokens, event.completion_tokens, event.embedding));
  EXPECT_EQ(there.prompt_logprobs.size(), 1u);
  EXPECT_EQ(there.times.first_token - there.times.arrived, std::chrono::milliseconds(20));
  EXPECT_EQ(there.times.scheduled, there.times.arrived);  // before it: did not happen
}

TEST(Wire, ADescriptorCrossesWithEveryField) {
  WorkerDescriptor sent;
  sent.id = WorkerId{3}, sent.name = "d0", sent.role = Role::kDecode, sent.state = WorkerState::kReady;
  sent.epoch = 4, sent.host = "h", sent.port = 99, sent.transfer = "ucx";
  sent.max_sequences = 8, sent.num_pages = 9, sent.max_context = 10;
  sent.kv = {.model = "m",
      .dtype = "f16",
      .order = "cpu",
      .page_tokens = 16,
      .num_layers = 2,
      .num_kv_heads = 3,
      .key_dim = 4,
      .value_dim = 5,
      .tp_rank = 1,
      .tp_size = 2,
      .windows = {0, 128},
      .page_bytes = 4096};
  EXPECT_EQ(decode_descriptor(encode_descriptor(sent)), sent);
  EXPECT_EQ(std::get<Hello>(decode(encode(Hello{sent}))).descriptor, sent);
}

RC_GTEST_PROP(Wire, WhatIsDecodedEncodesToTheSameBytes, (uint64_t seed)) {
  for (size_t type = 0; type < kTypes; ++type) {
    const Message message = random_message(type, seed);
    const std::string bytes = encode(message);
    const Message decoded = decode(bytes);
    RC_ASSERT(decoded.index() == type);
    RC_ASSERT(encode(decoded) == bytes);
    RC_ASSERT(!message_name(message).empty());
    if (const auto* job = std::get_if<PrefillJob>(&message))
      RC_ASSERT(encode_job(decode_job(encode_job(*job))) == encode_job(*job));
  }
}

RC_GTEST_PROP(Wire, ADamagedMessageIsRefusedOrIsAnotherMessage, (uint64_t seed)) {
  std::string bytes = encode(random_message(seed % kTypes, seed));
  Philox draw(seed, 1);
  for (int i = 0; i < 3; ++i)
    bytes[draw.next_u32() % bytes.size()] ^= static_cast<char>(1u << (draw.next_u32() % 8));
  const auto version =
      static_cast<uint16_t>(static_cast<uint8_t>(bytes[4]) | static_cast<uint8_t>(bytes[5]) << 8);
  try {
    RC_ASSERT(encode(decode(bytes), version) == bytes || version > kWire.newest);
  } catch (const Error&) {
    RC_SUCCEED("refused");
  }
}

TEST(Wire, EveryCutOfAMessageIsRefused) {
  for (size_t type = 0; type < kTypes; ++type) {
    const std::string bytes = encode(random_message(type, 5));
    for (size_t size = 0; size < bytes.size(); ++size) EXPECT_THROW(decode({bytes.data(), size}), Error);
    EXPECT_THROW(decode(bytes + "x"), Error);
  }
}

TEST(Wire, ACountLargerThanTheBytesLeftAllocatesNothing) {
  std::string bytes = encode(PrefillJob{});
  // The tokens' count stands behind header (7), key (12) and reply_to (8).
  for (size_t i = 27; i < 31; ++i) bytes[i] = '\x3f';
  EXPECT_THROW(decode(bytes), Error);
}

TEST(Wire, OtherVersionsAndForeignBytesAreRefused) {
  std::string bytes = encode(Cancel{});
  for (const int version : {kWire.oldest - 1, kWire.newest + 2}) {
    bytes[4] = static_cast<char>(version);
    try {
      decode(bytes);
      ADD_FAILURE() << version;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("run releases that follow one another"), std::string::npos);
    }
  }
  EXPECT_THROW(decode("GET / HTTP/1.1\r\n\r\n"), Error);
  EXPECT_THROW(decode_job(encode(Cancel{})), Error);
  EXPECT_THROW(decode(encode_descriptor({})), Error);
}

// The release before, this one and the next, as each sees the others.
constexpr WireVersions kPrevious{4, 4}, kNext{6, 5};

TEST(Wire, EveryMessageOfTheReleaseBeforeIsRead) {
  for (size_t type = 0; type < kTypes; ++type) {
    const Message message = random_message(type, 3);
    const std::string bytes = encode(message, kPrevious.newest);
    if (bytes.empty()) {
      EXPECT_GE(type, 20u) << "only new messages have no old form";
      continue;
    }
    EXPECT_EQ(encode(decode(bytes), kPrevious.newest), bytes) << message_name(message);
    ASSERT_TRUE(decode_known(bytes, kPrevious));
  }
}

TEST(Wire, WhatTheNextReleaseAddsIsSkipped) {
  for (size_t type = 0; type < kTypes; ++type) {
    const Message message = random_message(type, 4);
    const auto got = decode_known(encode(message, kNext.newest));
    ASSERT_TRUE(got);
    EXPECT_EQ(encode(*got), encode(message)) << message_name(message);
  }
  EXPECT_FALSE(decode_known(unknown_message(kNext.newest)).has_value());
  EXPECT_THROW(decode_known(unknown_message(kWire.newest)), Error);
  EXPECT_FALSE(decode_known(encode(Recall{}), kPrevious).has_value())
      << "the release before skips what is new here";
  WorkerDescriptor self;
  self.name = "decode-0";
  self.wire = kNext.newest;
  EXPECT_EQ(decode_descriptor(encode_descriptor(self, kNext.newest)).name, "decode-0");
  EXPECT_EQ(decode_descriptor(encode_descriptor(self), kPrevious).wire, 4);
  EXPECT_THROW(decode_descriptor(encode_descriptor(self, kNext.newest), kPrevious), Error);
  PrefillJob job;
  job.tokens = {1, 2};
  job.end_token = 2;
  EXPECT_EQ(decode_job(encode_job(job, kNext.newest)).end_token, 2);
}

}  // namespace
}  // namespace cheetah::cluster
