// SPDX-License-Identifier: MIT
#include "engine/speculation_scenario.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/mailbox.h"
#include "base/random.h"
#include "base/time.h"

namespace cheetah {
namespace {

constexpr int64_t kNoisePrompt = 64;

struct Arrival {
  size_t stream = 0;
  double time_s = 0;
  std::vector<GeneratedToken> tokens;
  std::string error;
  bool done = false;
};

struct Stream {
  std::vector<int32_t> tokens;
  std::vector<double> token_s;
  std::string error;
};

std::vector<int32_t> random_tokens(int64_t count, int64_t vocab, uint64_t seed) {
  Philox random(seed);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>(random.next_u32() % static_cast<uint32_t>(vocab)));
  return tokens;
}

// Sends all requests at once and waits for their ends.
std::vector<Stream> run_all(Engine& engine, std::vector<GenerationRequest> requests) {
  Mailbox<Arrival> inbox;
  const EngineTime begin = std::chrono::steady_clock::now();
  std::vector<Stream> streams(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].id = RequestId{(uint64_t{1} << 61) + i};
    engine.submit(std::move(requests[i]), [&inbox, begin, i](GenerationEvent&& event) {
      Arrival arrival{i, seconds_since(begin), std::move(event.tokens), event.error, event.done};
      if (event.done)
        inbox.post(std::move(arrival));
      else
        inbox.post_quietly(std::move(arrival));
    });
  }
  std::vector<Arrival> arrived;
  for (size_t open = streams.size(); open > 0;) {
    inbox.wait_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(5));
    inbox.take_all(arrived);
    for (const Arrival& arrival : arrived) {
      Stream& stream = streams[arrival.stream];
      for (const GeneratedToken& token : arrival.tokens) {
        stream.tokens.push_back(token.id);
        stream.token_s.push_back(arrival.time_s);
      }
      stream.error = arrival.error;
      open -= arrival.done;
    }
  }
  for (const Stream& stream : streams)
    if (!stream.error.empty()) throw Error(format("the engine refused the load: {}", stream.error));
  return streams;
}

GenerationRequest story_request(const Engine& engine, uint64_t seed, int64_t length) {
  static const std::vector<std::string> kBeginnings = {"Once upon a time", "One day, a little girl named",
      "There was a big dog who", "In a small house by the sea,", "Tom and his sister",
      "The sun was shining and"};
  GenerationRequest request;
  if (const Tokenizer* tokenizer = engine.model().tokenizer())
    request.prompt = tokenizer->encode(kBeginnings[seed % kBeginnings.size()], {.add_special = true});
  else
    request.prompt = random_tokens(8, engine.model().traits().vocab, seed);
  request.max_tokens = length;
  request.ignore_eos = true;
  request.sampling = {.temperature = 0.7f, .top_p = 0.95f};
  request.seed = seed;
  return request;
}

// Every tenth token of the answer is predicted wrong.
GenerationRequest copying_request(
    const Engine& engine, uint64_t seed, int64_t length, const std::vector<int32_t>* answer) {
  GenerationRequest request = story_request(engine, seed, length);
  request.sampling = {};
  if (!answer) return request;
  request.prediction = *answer;
  for (size_t i = 9; i < request.prediction.size(); i += 10)
    request.prediction[i] = (request.prediction[i] + 1) % static_cast<int32_t>(engine.model().traits().vocab);
  return request;
}

GenerationRequest noise_request(const Engine& engine, uint64_t seed, int64_t length) {
  GenerationRequest request;
  request.prompt = random_tokens(kNoisePrompt, engine.model().traits().vocab, seed);
  request.max_tokens = length;
  request.ignore_eos = true;
  request.sampling.temperature = 2.f;
  request.seed = seed;
  return request;
}

double decode_rate(const std::vector<Stream>& streams) {
  double last_first = 0, first_last = 1e300;
  for (const Stream& stream : streams) {
    last_first = std::max(last_first, stream.token_s.front());
    first_last = std::min(first_last, stream.token_s.back());
  }
  int64_t together = 0;
  for (const Stream& stream : streams)
    together +=
        std::ranges::count_if(stream.token_s, [&](double t) { return t > last_first && t <= first_last; });
  return together > 0 ? static_cast<double>(together) / (first_last - last_first) : 0;
}

}  // namespace

std::string name_of(DraftText text) {
  switch (text) {
    case DraftText::kStories:
      return "stories";
    case DraftText::kCopying:
      return "copying";
    case DraftText::kNoise:
      break;
  }
  return "noise";
}

SpeculationResult run_speculation(
    Engine& engine, const SpeculationPlan& plan, const std::vector<std::vector<int32_t>>& answers) {
  std::vector<GenerationRequest> requests;
  for (int64_t i = 0; i < plan.streams; ++i) {
    const uint64_t seed = plan.seed * 1000 + static_cast<uint64_t>(i);
    const auto* const answer = answers.empty() ? nullptr : &answers[static_cast<size_t>(i)];
    requests.push_back(plan.text == DraftText::kStories ? story_request(engine, seed, plan.new_tokens)
                       : plan.text == DraftText::kNoise
                           ? noise_request(engine, seed, plan.new_tokens)
                           : copying_request(engine, seed, plan.new_tokens, answer));
  }
  const EngineStats before = engine.stats();
  std::vector<Stream> streams = run_all(engine, std::move(requests));
  const EngineStats after = engine.stats();
  SpeculationResult result;
  result.decode_tokens_per_s = decode_rate(streams);
  result.steps = after.steps - before.steps;
  result.drafts = {.drafts = after.drafts.drafts - before.drafts.drafts,
      .tokens = after.drafts.tokens - before.drafts.tokens,
      .accepted = after.drafts.accepted - before.drafts.accepted};
  for (Stream& stream : streams) result.tokens.push_back(std::move(stream.tokens));
  return result;
}

}  // namespace cheetah
