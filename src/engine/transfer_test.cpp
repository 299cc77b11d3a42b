// SPDX-License-Identifier: MIT
// Pages move between engines and nothing else changes: the tokens are those of one engine alone, every page
// is given back, and what is lost or wrong on the way is computed again.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <set>

#include "engine/core_fixture.h"
#include "engine/engine.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/model_vocabulary.h"
#include "engine/kv/chain_hash.h"

namespace cheetah {
namespace {

constexpr int64_t kPage = 8;

std::vector<int32_t> prompt_for(const Model& model, int64_t length, int64_t seed = 7) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < length; ++i)
    tokens.push_back(static_cast<int32_t>((seed + 3 * i + i * i % 5) % model.traits().vocab));
  return tokens;
}

int64_t whole(int64_t tokens) { return tokens / kPage * kPage; }

void expect_all_pages_back(const EngineCore& core) {
  const EngineStats stats = core.stats();
  EXPECT_EQ(stats.pages_free + stats.pages_cached, stats.pages_total);
  core.check_invariants();
}

// A prompt's pages as another engine sees them: what came of each chunk, place after place.
struct Slab {
  int64_t first_token = 0, end_token = 0;
  std::vector<std::byte> bytes;
};

// Computes the prompt and reads its pages chunk by chunk.
std::vector<Slab> export_prompt(CoreDriver& driver, GenerationRequest request, int64_t end_token) {
  std::vector<Slab> slabs;
  bool finished = false;
  const KvFormat format = driver.core.kv_format();
  request.max_tokens = 0;
  request.n = request.best_of = 1;
  request.grammar = nullptr;
  const auto number = driver.core.open_export(RequestId{driver.last_id + 1}, end_token,
      [&](const EngineCore::ExportPages& pages, const KvProgress& progress) {
        EXPECT_FALSE(finished);
        EXPECT_FALSE(progress.failed) << progress.why;
        finished = progress.finished;
        const int64_t before = slabs.empty() ? 0 : slabs.back().end_token;
        Slab slab{before, progress.tokens_ready,
            std::vector<std::byte>(static_cast<size_t>(format.bytes_for(progress.tokens_ready - before)))};
        auto to = std::span(slab.bytes);
        const auto size = static_cast<size_t>(format.page_bytes);
        for (int64_t i = before / kPage; i < progress.tokens_ready / kPage; ++i)
          for (const PageList& list : pages.lists) {
            if (list.holds(i)) driver.core.page_bytes().save(list.at(i), to.first(size));
            to = to.subspan(size);
          }
        slabs.push_back(std::move(slab));
      });
  driver.generate(std::move(request));
  EXPECT_TRUE(finished);
  driver.core.check_invariants();
  driver.core.close_export(number);
  driver.core.close_export(number);
  return slabs;
}

KvImport import_of(const Slab& slab, const GenerationRequest& request, RequestId id, int64_t last_token) {
  return {.request = id,
      .salt = request.cache_salt,
      .tokens = {request.prompt.begin(), request.prompt.begin() + slab.end_token},
      .first_token = slab.first_token,
      .text_tokens = std::ssize(request.prompt),
      .last_token = last_token,
      .bytes = slab.bytes};
}

EngineConfig transfer_config(const Model& model, int64_t num_pages = 60) {
  EngineConfig config = small_config(num_pages, model);
  config.max_context = 120;
  config.max_batch_tokens = 24;  // several chunks
  return config;
}

void expect_equal(const Received& got, const Received& expected) {
  ASSERT_EQ(got.choices.size(), expected.choices.size());
  for (const auto& [index, choice] : expected.choices) {
    EXPECT_EQ(got.choices.at(index).tokens, choice.tokens) << "choice " << index;
    EXPECT_EQ(got.choices.at(index).text, choice.text) << "choice " << index;
    EXPECT_EQ(got.choices.at(index).finish, choice.finish) << "choice " << index;
  }
}

class TransferTest : public testing::TestWithParam<const char*> {};

TEST_P(TransferTest, TokensAfterATransferAreThoseOfOneEngine) {
  const auto model = load_quietly(GetParam());
  CoreDriver alone(transfer_config(*model), model), prefill(transfer_config(*model), model),
      decode(transfer_config(*model), model);
  ASSERT_EQ(prefill.core.kv_format(), decode.core.kv_format());
  for (const int64_t length : {3, 8, 9, 25, 40, 41, 70}) {  // phi3-longrope turns at 32
    for (const int n : {1, 2}) {
      SCOPED_TRACE(testing::Message() << "length " << length << " n " << n);
      GenerationRequest request;
      request.prompt = prompt_for(*model, length, length * 2 + n);
      request.max_tokens = 12;
      request.ignore_eos = true;
      request.n = request.best_of = n;
      request.seed = 3;
      if (n == 2) request.sampling = {.temperature = 1.2f};
      const int64_t end = whole(length - 1);
      const Received expected = alone.generate(request);
      const RequestId id{decode.last_id + 1};
      for (const Slab& slab : export_prompt(prefill, request, end)) {
        if (slab.end_token == slab.first_token) continue;
        const KvImported imported = decode.core.import_pages(import_of(slab, request, id, end));
        EXPECT_TRUE(imported.imported) << imported.why;
        decode.core.check_invariants();
      }
      EXPECT_EQ(decode.core.cached_tokens("", request.prompt), end);
      const Received got = decode.generate(request);
      expect_equal(got, expected);
      EXPECT_EQ(got.cached_tokens, end) << "all of it was there";
    }
  }
  for (const CoreDriver* driver : {&alone, &prefill, &decode}) expect_all_pages_back(driver->core);
}

INSTANTIATE_TEST_SUITE_P(Models, TransferTest,
    testing::Values("models/cub-1m", "tests/models/llama", "tests/models/mistral",
        "tests/models/phi3-longrope", "tests/models/gemma2", "tests/models/gemma3_text",
        "tests/models/gpt_oss", "tests/models/qwen2-window", "tests/models/deepseek_v3"),
    [](const auto& path) {
      std::string name = path.param;
      name = name.substr(name.rfind('/') + 1);
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(Transfer, GoesOnFromWhatTheCacheHas) {
  const auto model = load_quietly("tests/models/gemma3_text");
  CoreDriver prefill(transfer_config(*model), model), decode(transfer_config(*model), model);
  GenerationRequest request;
  request.prompt = prompt_for(*model, 60);
  request.max_tokens = 0;
  GenerationRequest beginning = request;
  beginning.prompt.resize(33);
  decode.generate(beginning);
  EXPECT_EQ(decode.core.cached_tokens("", request.prompt), 32);
  const auto slabs = export_prompt(prefill, request, 56);
  const RequestId id{decode.last_id + 1};
  for (const Slab& slab : slabs) {
    if (slab.end_token <= 32) continue;
    const int64_t skipped = std::max<int64_t>(0, 32 - slab.first_token);
    Slab rest{slab.first_token + skipped, slab.end_token,
        {slab.bytes.begin() + decode.core.kv_format().bytes_for(skipped), slab.bytes.end()}};
    EXPECT_TRUE(decode.core.import_pages(import_of(rest, request, id, 56)).imported);
  }
  EXPECT_EQ(decode.core.cached_tokens("", request.prompt), 56);
  EXPECT_EQ(export_prompt(prefill, request, 56).back().end_token, 56) << "again, now from its own cache";
  EXPECT_EQ(decode.generate(request).cached_tokens, 56);
  expect_all_pages_back(prefill.core);
  expect_all_pages_back(decode.core);
}

TEST(Transfer, APartThatArrivedIsUsedAndTheRestComputed) {
  const auto model = small_model();
  CoreDriver alone(transfer_config(*model)), prefill(transfer_config(*model)),
      decode(transfer_config(*model));
  GenerationRequest request;
  request.prompt = random_prompt(70, 5);
  request.max_tokens = 8;
  request.grammar = GrammarProgram::from_json_schema(
      R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})",
      make_model_vocabulary(*model->tokenizer(), model->traits().vocab, model->traits().eos_ids));
  const auto slabs = export_prompt(prefill, request, 64);
  ASSERT_GT(slabs.size(), 1u);
  EXPECT_TRUE(decode.core.import_pages(import_of(slabs[0], request, RequestId{1}, 64)).imported);
  const Received got = decode.generate(request);
  EXPECT_EQ(got.cached_tokens, slabs[0].end_token);
  expect_equal(got, alone.generate(request));
  expect_all_pages_back(decode.core);
}

TEST(Transfer, RefusesWhatIsNotWholeOrHasNoPlace) {
  const auto model = small_model();
  CoreDriver prefill(transfer_config(*model)), decode(transfer_config(*model));
  GenerationRequest request;
  request.prompt = random_prompt(50, 6);
  const auto slabs = export_prompt(prefill, request, 48);
  ASSERT_GT(slabs.size(), 1u);
  const auto why = [&](KvImport pages) {
    const KvImported imported = decode.core.import_pages(pages);
    EXPECT_FALSE(imported.imported);
    return imported.why;
  };
  KvImport good = import_of(slabs[0], request, RequestId{1}, 48);
  KvImport bad = good;
  bad.bytes = bad.bytes.first(bad.bytes.size() - 1);
  EXPECT_NE(why(bad).find("bytes came"), std::string::npos);
  bad = good;
  bad.tokens.pop_back();
  EXPECT_NE(why(bad).find("not whole pages"), std::string::npos);
  bad = good;
  bad.tokens[0] = -1;
  EXPECT_NE(why(bad).find("vocabulary"), std::string::npos);
  EXPECT_NE(why(import_of(slabs[1], request, RequestId{1}, 48)).find("are not here"), std::string::npos);
  good.salt = "another";
  EXPECT_TRUE(decode.core.import_pages(good).imported);
  EXPECT_EQ(decode.core.cached_tokens("", request.prompt), 0) << "other salts do not see them";
  decode.core.unpin(RequestId{1});
  decode.core.unpin(RequestId{1});
  expect_all_pages_back(decode.core);
}

TEST(Transfer, TakesNoPagesFromWhatRuns) {
  const auto model = small_model();
  CoreDriver prefill(transfer_config(*model)), decode(transfer_config(*model, 12));
  GenerationRequest request;
  request.prompt = random_prompt(70, 6);
  const auto slabs = export_prompt(prefill, request, 64);
  GenerationRequest running;
  running.prompt = random_prompt(40, 9);
  running.max_tokens = 20;
  running.ignore_eos = true;
  decode.submit(running);
  while (decode.core.stats().running == 0) decode.step();
  int64_t num_taken = 0;
  const RequestId id{77};
  for (const Slab& slab : slabs) {
    const KvImported imported = decode.core.import_pages(import_of(slab, request, id, 64));
    if (!imported.imported) {
      EXPECT_NE(imported.why.find("are free"), std::string::npos) << imported.why;
      break;
    }
    ++num_taken;
  }
  EXPECT_LT(num_taken, std::ssize(slabs));
  decode.run();
  EXPECT_EQ(decode.received[RequestId{1}].choices.at(0).tokens.size(), 20u) << "it was not disturbed";
  EXPECT_EQ(decode.core.stats().preemptions, 0u);
  decode.core.unpin(id);
  expect_all_pages_back(decode.core);
}

TEST(Transfer, PinnedPagesNeverStopARequest) {
  const auto model = small_model();
  CoreDriver prefill(transfer_config(*model)), decode(transfer_config(*model, 12));
  GenerationRequest imported;
  imported.prompt = random_prompt(60, 6);
  for (const Slab& slab : export_prompt(prefill, imported, 56))
    decode.core.import_pages(import_of(slab, imported, RequestId{77}, 56));
  EXPECT_GT(decode.core.cached_tokens("", imported.prompt), 0);
  GenerationRequest other;
  other.prompt = random_prompt(80, 8);
  other.max_tokens = 5;
  other.ignore_eos = true;
  EXPECT_EQ(decode.generate(other).choices.at(0).tokens.size(), 5u);
  expect_all_pages_back(decode.core);
}

TEST(Transfer, AnExportEndsWithItsRequest) {
  CoreDriver driver(transfer_config(*small_model()));
  GenerationRequest request;
  request.prompt = random_prompt(70, 5);
  std::vector<KvProgress> seen;
  const auto sink = [&](const EngineCore::ExportPages&, const KvProgress& progress) {
    seen.push_back(progress);
  };
  const auto number = driver.core.open_export(RequestId{1}, 64, sink);
  const RequestId id = driver.submit(request);
  driver.step();
  driver.cancel(id);
  ASSERT_FALSE(seen.empty());
  EXPECT_TRUE(seen.back().failed);
  EXPECT_LT(seen.back().tokens_ready, 64);
  driver.core.close_export(number);
  driver.core.open_export(RequestId{2}, 64, sink);
  request.prompt.clear();
  driver.submit(request);
  EXPECT_EQ(seen.back().why, "the request was refused");
  driver.run();
  expect_all_pages_back(driver.core);
}

TEST(Transfer, SomeOfALongPromptIsLeftToBeComputedWhileItsPagesTravel) {
  const std::shared_ptr<const Model> model = Model::random("random:tiny-128k", DType::kF16);
  EngineConfig config = small_config(300, *model);
  config.policy = BatchPolicy::kStatic;  // chunks of any length
  config.max_context = config.max_batch_tokens = 2048;
  const auto chunks = [&](int64_t length) {
    CoreDriver driver(config, model);
    GenerationRequest request;
    request.prompt = prompt_for(*model, length);
    std::vector<int64_t> tokens;
    for (const Slab& slab : export_prompt(driver, request, length))
      tokens.push_back(slab.end_token - slab.first_token);
    return tokens;
  };
  EXPECT_EQ(chunks(512), (std::vector<int64_t>{512}));
  EXPECT_EQ(chunks(1200), (std::vector<int64_t>{whole(900), 1200 - whole(900)}));
  const std::vector<int64_t> longest = chunks(2000);
  ASSERT_EQ(longest.size(), 2u);
  EXPECT_LE(longest.back(), 512);
}

// Requests, exports, imports of parts, pins that nobody ends and cancels in random order, in little memory.
TEST_P(TransferTest, NothingIsLostInAnyOrderOfThings) {
  const auto model = load_quietly(GetParam());
  CoreDriver alone(transfer_config(*model), model), prefill(transfer_config(*model), model),
      decode(transfer_config(*model, 40), model);
  for (uint64_t round = 1; round <= 12; ++round) {
    Philox random(round);
    struct Asked {
      GenerationRequest request;
      RequestId id;
    };
    std::vector<Asked> asked;
    for (uint32_t i = 0; i < 4; ++i) {
      GenerationRequest request;
      request.prompt = prompt_for(*model, 4 + random.next_u32() % 70, 1 + random.next_u32() % 4);
      request.max_tokens = 1 + random.next_u32() % 10;
      request.ignore_eos = true;
      const int64_t length = std::ssize(request.prompt), end = whole(length - 1);
      const RequestId id{random.next_u32() % 5 == 0 ? 1000 + i : decode.last_id + 1};
      auto slabs = export_prompt(prefill, request, end);
      slabs.resize(random.next_u32() % (slabs.size() + 1));
      for (const Slab& slab : slabs) {
        if (slab.end_token > slab.first_token) decode.core.import_pages(import_of(slab, request, id, end));
        decode.core.check_invariants();
        if (random.next_u32() % 2) decode.step();
      }
      asked.push_back({request, decode.submit(request)});
      if (random.next_u32() % 6 == 0) decode.cancel(asked.back().id);
      for (uint32_t steps = random.next_u32() % 4; steps > 0; --steps) decode.step();
    }
    decode.run();
    for (const Asked& one : asked) {
      const Received& got = decode.received[one.id];
      EXPECT_TRUE(got.done);
      if (got.choices.at(0).finish != FinishReason::kCancelled)
        expect_equal(got, alone.generate(one.request));
    }
    for (uint64_t i = 0; i < 4; ++i) decode.core.unpin(RequestId{1000 + i});
    expect_all_pages_back(decode.core);
    expect_all_pages_back(prefill.core);
  }
}

// What the changes say is there.
std::set<uint64_t> stored_after(std::set<uint64_t> stored, const std::vector<PrefixChange>& changes) {
  for (const PrefixChange& change : changes) {
    EXPECT_TRUE(!change.stored || change.parent == 0 || stored.contains(change.parent))
        << "none without the one before";
    EXPECT_NE(stored.contains(change.block), change.stored) << "told once";
    if (change.stored)
      stored.insert(change.block);
    else
      stored.erase(change.block);
  }
  return stored;
}

TEST(Transfer, ListenersKnowWhatTheCacheHolds) {
  const auto model = small_model();
  CoreDriver driver(transfer_config(*model, 20));
  std::set<uint64_t> stored;
  GenerationRequest request;
  request.prompt = random_prompt(30, 1);
  request.max_tokens = 2;
  driver.generate(request);
  driver.core.watch_cache(
      [&](std::vector<PrefixChange>&& changes) { stored = stored_after(std::move(stored), changes); });
  driver.core.deliver(driver.now);
  for (const uint64_t hash : chain_hashes(model->traits(), "", request.prompt, kPage))
    EXPECT_TRUE(stored.contains(hash)) << "what was there before";
  for (uint64_t i = 0; i < 40; ++i) {  // far more than there is room for
    request.prompt = random_prompt(16, i % 3);
    const auto own = random_prompt(20 + static_cast<int64_t>(i % 17), 50 + i);
    request.prompt.insert(request.prompt.end(), own.begin(), own.end());
    request.cache_salt = i % 2 ? "a" : "";
    driver.generate(request);
    const auto hashes = chain_hashes(model->traits(), request.cache_salt, request.prompt, kPage);
    int64_t known = 0;
    while (known < std::ssize(hashes) && stored.contains(hashes[static_cast<size_t>(known)])) ++known;
    auto longer = request.prompt;
    longer.push_back(1);
    EXPECT_EQ(known * kPage, driver.core.cached_tokens(request.cache_salt, longer));
  }
}

TEST(Transfer, HashesAreTheSameInEveryProcess) {
  const ModelTraits& traits = small_model()->traits();
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto hashes = chain_hashes(traits, "salt", tokens, 4);
  ASSERT_EQ(hashes.size(), 2u);
  EXPECT_EQ(hashes[0], 15717272466973680410u);
  EXPECT_EQ(hashes[1], 14758594454231823638u);
  EXPECT_NE(chain_hashes(traits, "tlas", tokens, 4), hashes);
  EXPECT_EQ(chain_hashes(traits, "salt", std::span(tokens).first(5), 4), std::vector{hashes[0]});
}

// The same through the threads of two engines.
TEST(Transfer, MovesBetweenTwoRunningEngines) {
  const auto model = small_model();
  Engine prefill(model, transfer_config(*model)), decode(model, transfer_config(*model)),
      alone(model, transfer_config(*model));
  GenerationRequest request;
  request.id = RequestId{9};
  request.prompt = random_prompt(70, 11);
  request.max_tokens = 10;
  request.ignore_eos = true;
  const auto generate = [&](Engine& engine) {
    Received received;
    std::promise<void> done;
    engine.submit(request, [&](GenerationEvent&& event) {
      const bool last = event.done;
      received.add(std::move(event));
      if (last) done.set_value();
    });
    EXPECT_EQ(done.get_future().wait_for(std::chrono::minutes(1)), std::future_status::ready);
    return received;
  };
  std::promise<void> finished;
  GenerationRequest prompt_only = request;
  prompt_only.max_tokens = 0;
  auto exported = prefill.submit_export(
      prompt_only, [](GenerationEvent&&) {}, 64,
      [&](const KvProgress& progress) {
        if (progress.finished) finished.set_value();
      });
  ASSERT_EQ(finished.get_future().wait_for(std::chrono::minutes(1)), std::future_status::ready);
  Slab slab{0, 64, std::vector<std::byte>(static_cast<size_t>(prefill.kv_format().bytes_for(64)))};
  bool read = false;
  exported->read(0, 64, slab.bytes, [&](bool ok) { read = ok; });
  EXPECT_TRUE(read);
  exported->read(0, 72, slab.bytes, [&](bool ok) { read = ok; });
  EXPECT_FALSE(read) << "more than was computed";
  exported->close();
  exported->read(0, 64, slab.bytes, [&](bool ok) { read = ok; });
  EXPECT_FALSE(read) << "closed";
  std::promise<KvImported> imported;
  decode.import_pages(import_of(slab, request, request.id, 64),
      [&](KvImported result) { imported.set_value(std::move(result)); });
  auto answer = imported.get_future();
  ASSERT_EQ(answer.wait_for(std::chrono::minutes(1)), std::future_status::ready);
  EXPECT_TRUE(answer.get().imported);
  std::promise<int64_t> cached;
  decode.look_up("", request.prompt, [&](int64_t tokens) { cached.set_value(tokens); });
  EXPECT_EQ(cached.get_future().get(), 64);
  const Received got = generate(decode);
  EXPECT_EQ(got.cached_tokens, 64);
  expect_equal(got, generate(alone));
  for (Engine* engine : {&prefill, &decode}) {
    engine->drain(std::chrono::minutes(1));
    const EngineStats stats = engine->stats();
    EXPECT_EQ(stats.pages_free + stats.pages_cached, stats.pages_total);
  }
}

}  // namespace
}  // namespace cheetah
