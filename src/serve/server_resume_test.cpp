// SPDX-License-Identifier: MIT
// Clients that come back for the rest of a stream, at a server whose engine can go on with it.
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <vector>

#include "engine/tags/request_origin.h"
#include "serve/server_fixture.h"
#include "serve/stream_place.h"

namespace cheetah {
namespace {

// An engine as a cluster is one: it says the whole answer again, and keeps what it was told of the client.
class GoesOn final : public GenerationBackend {
 public:
  void submit(GenerationRequest request, EventSink sink) override {
    last = origin_of(request);
    engine.submit(std::move(request), std::move(sink));
  }
  void cancel(RequestId id) override { engine.cancel(id); }
  void pause(RequestId id) override { engine.pause(id); }
  void resume(RequestId id) override { engine.resume(id); }
  bool can_go_on() const override { return true; }
  void drain(std::chrono::milliseconds limit) override { engine.drain(limit); }
  EngineStats stats() const override { return engine.stats(); }
  std::string explain_last(int64_t count) const override { return engine.explain_last(count); }
  const EngineConfig& config() const override { return engine.config(); }
  const Model& model() const override { return engine.model(); }

  Engine engine{small_model(), small_engine()};
  RequestOrigin last;  // written by network threads: read when the answer has come
};

struct Event {
  std::string id, text;
};

class ComesBack : public testing::Test {
 protected:
  ComesBack() { server.serve(backend, small_services()); }
  ~ComesBack() override { server.stop(); }

  TestResponse ask(const std::string& path, const Json& body, const std::string& headers = "") {
    TestClient client(server.port());
    return client.ask(post(path, body, headers));
  }
  std::vector<Event> stream(const std::string& path, const Json& body, const std::string& headers = "") {
    const TestResponse response = ask(path, body, headers);
    EXPECT_EQ(response.status, 200) << response.body;
    std::vector<Event> events;
    for (std::string_view rest = response.body; !rest.empty();) {
      const std::string_view event = rest.substr(0, rest.find("\n\n") + 2);
      rest.remove_prefix(event.size());
      if (event.starts_with(":")) continue;
      EXPECT_TRUE(event.starts_with("id: ")) << event;
      const size_t end = event.find('\n');
      events.push_back({std::string(event.substr(4, end - 4)), std::string(event.substr(end + 1))});
    }
    return events;
  }
  static std::vector<std::string> texts(const std::vector<Event>& events) {
    std::vector<std::string> all;
    for (const Event& event : events) all.push_back(event.text);
    return all;
  }
  static std::string after(const Event& event) { return "Last-Event-ID: " + event.id + "\r\n"; }

  Server server{quiet()};
  GoesOn backend;
};

TEST_F(ComesBack, WhereverAStreamIsCutTheRestIsByteForByteWhatWasMissing) {
  const Json messages = {{{"role", "user"}, {"content", "Tell me a story"}}};
  const std::pair<std::string, Json> kStreams[] = {
      {"/v1/completions", {{"model", "cub"}, {"prompt", "Once upon"}, {"max_tokens", 12}, {"stream", true},
                              {"temperature", 1.2}, {"logprobs", 2}}},
      {"/v1/chat/completions", {{"model", "cub"}, {"messages", messages}, {"max_tokens", 10},
                                   {"stream", true}, {"stream_options", {{"include_usage", true}}}}},
      {"/v1/messages", {{"model", "cub"}, {"messages", messages}, {"max_tokens", 10}, {"stream", true}}},
      {"/v1/responses", {{"model", "cub"}, {"input", "Hello"}, {"max_output_tokens", 10}, {"stream", true}}},
  };
  for (const auto& [path, body] : kStreams) {
    SCOPED_TRACE(path);
    const std::vector<Event> whole = stream(path, body);
    ASSERT_GT(whole.size(), 5u);
    EXPECT_TRUE(backend.last.may_come_back);
    EXPECT_FALSE(backend.last.has);
    std::set<std::string> ids;
    for (const Event& event : whole) ids.insert(event.id);
    EXPECT_EQ(ids.size(), whole.size());
    for (size_t cut = 0; cut < whole.size(); ++cut) {
      std::vector<Event> got(whole.begin(), whole.begin() + static_cast<int64_t>(cut) + 1);
      for (Event& event : stream(path, body, after(whole[cut]))) got.push_back(std::move(event));
      std::vector<std::string> all = texts(got), expected = texts(whole);
      for (auto* list : {&all, &expected})
        for (std::string& text : *list)  // how much of the prompt a cache had is what it is
          for (const std::string name : {"cached_tokens\":", "cache_read_input_tokens\":", "input_tokens\":"})
            for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += name.size())
              while (std::isdigit(static_cast<unsigned char>(text[at + name.size()])))
                text.erase(at + name.size(), 1);
      ASSERT_EQ(all, expected) << "cut after " << cut;
      ASSERT_TRUE(backend.last.has);
    }
  }
}

TEST_F(ComesBack, TheEngineIsToldHowManyTokensOfEachChoiceAreThere) {
  const Json body = {{"model", "cub"}, {"prompt", {"Once", "A dog"}}, {"n", 2}, {"max_tokens", 6},
      {"stream", true}, {"temperature", 0.9}, {"seed", 3}, {"ignore_eos", true}};
  const std::vector<Event> whole = stream("/v1/completions", body);
  EXPECT_EQ(whole.size(), 4u * 6u + 1u);
  stream("/v1/completions", body, after(whole.back()));
  ASSERT_TRUE(backend.last.has);
  EXPECT_EQ(*backend.last.has, (std::vector<int64_t>{5, 5})) << "the last event came with the sixth token";
}

TEST_F(ComesBack, WithAPlaceThatIsNoneItIsToldWhy) {
  const Json body = completion(4, true);
  const std::vector<Event> whole = stream("/v1/completions", body);
  const auto refused = [&](const Json& with, const std::string& header, std::string_view why) {
    const TestResponse response = ask("/v1/completions", with, header);
    EXPECT_EQ(response.status, 400);
    EXPECT_EQ(code_of(response), "invalid_last_event_id");
    EXPECT_NE(response.body.find(why), std::string::npos) << response.body;
  };
  refused(body, "Last-Event-ID: 17\r\n", "send the last one as it came");
  refused(body, "x-cheetah-resume: 17\r\n", "send the last one as it came");
  refused(completion(4), after(whole[0]), "only a stream goes on");
  Json two = body;
  two["n"] = 2;
  refused(two, after(whole[0]), "belongs to another request");
  StreamPlace other = *StreamPlace::parse(whole[0].id);
  other.facts.model = "gone";
  refused(body, "Last-Event-ID: " + other.text() + "\r\n", "is not served here any more");
}

TEST_F(ComesBack, AWholeAnswerUnderAKeyHasTheSeedOfTheKey) {
  Json body = completion(12);
  body["temperature"] = 1.3;
  const auto answer = [&](const std::string& headers) {
    return Json::parse(ask("/v1/completions", body, headers).body)["choices"][0]["text"].get<std::string>();
  };
  const std::string first = answer("Idempotency-Key: a\r\n");
  ASSERT_TRUE(backend.last.has);
  EXPECT_TRUE(backend.last.may_come_back);
  EXPECT_EQ(ask("/v1/completions", body, "Idempotency-Key: a\r\n").status, 409);
  EXPECT_NE(answer("Idempotency-Key: b\r\n"), first);
  EXPECT_NE(answer(""), first);
  EXPECT_FALSE(backend.last.may_come_back);
  Server other(quiet());
  other.serve(backend, small_services());
  TestClient client(other.port());
  const TestResponse again = client.ask(post("/v1/completions", body, "Idempotency-Key: a\r\n"));
  EXPECT_EQ(Json::parse(again.body)["choices"][0]["text"], first);
  other.stop();
}

TEST(Server, AnEngineThatCannotGoOnGivesNoIds) {
  ServerFixture f;
  TestClient client(f.server.port());
  EXPECT_EQ(client.ask(post("/v1/completions", completion(4, true))).body.find("id: "), std::string::npos);
  const TestResponse refused =
      client.ask(post("/v1/completions", completion(4, true), "Last-Event-ID: 1\r\n"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("in a cluster alone"), std::string::npos) << refused.body;
}

}  // namespace
}  // namespace cheetah
