// SPDX-License-Identifier: MIT
#include "serve/response_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <future>

#include "base/error.h"
#include "base/format.h"
#include "base/temp_dir.h"
#include "base/time.h"
#include "serve/server_fixture.h"

namespace cheetah {
namespace {

struct StoreFixture {
  explicit StoreFixture(int64_t bytes = 1 << 20) : log(quiet().log) { open(bytes); }
  void open(int64_t bytes = 1 << 20) {
    store.reset();
    store = std::make_unique<ResponseStore>(
        ResponseStoreConfig{.path = dir.path("r.db"), .bytes = bytes, .age_s = 3600}, log);
  }
  void keep(const std::string& tenant, const std::string& id, const std::string& previous = "",
      const std::string& said = "x", int64_t age_s = 0) {
    store->keep(
        tenant, {.id = id,
                    .previous = previous,
                    .created = unix_seconds() - age_s,
                    .input = format(R"([{{"role":"user","content":"{}?"}}])", said),
                    .response = format(R"({{"output":[{{"role":"assistant","content":"{}!"}}]}})", said)});
  }
  ResponseStore::Found find(const std::string& tenant, const std::string& id) {
    std::promise<ResponseStore::Found> found;
    store->find(tenant, id, [&](ResponseStore::Found one) { found.set_value(std::move(one)); });
    return found.get_future().get();
  }
  bool has(const std::string& tenant, const std::string& id) { return find(tenant, id).response.has_value(); }
  std::string said(const std::string& tenant, const std::string& id) {
    const auto items = store->conversation(tenant, id);
    if (!items) return "gone";
    std::string text;
    for (const OrderedJson& item : *items) text += item["content"].get<std::string>();
    return text;
  }

  TempDir dir;
  EventLog log;
  std::unique_ptr<ResponseStore> store;
};

TEST(ResponseStore, KeepsForItsTenantAlone) {
  StoreFixture f;
  f.keep("alice", "r1");
  EXPECT_TRUE(f.has("alice", "r1"));
  EXPECT_FALSE(f.has("bob", "r1"));
  EXPECT_EQ(f.said("bob", "r1"), "gone");
  std::promise<bool> erased;
  f.store->erase("bob", "r1", [&](ResponseStore::Found one) { erased.set_value(one.response.has_value()); });
  EXPECT_FALSE(erased.get_future().get());
  EXPECT_TRUE(f.has("alice", "r1"));
}

TEST(ResponseStore, AConversationIsAllTurnsOldestFirst) {
  StoreFixture f;
  f.keep("", "r1", "", "a");
  f.keep("", "r2", "r1", "b");
  f.keep("", "r3", "r2", "c");
  EXPECT_EQ(f.said("", "r3"), "a?a!b?b!c?c!");
  EXPECT_EQ(f.said("", "r2"), "a?a!b?b!");
  std::promise<void> erased;
  f.store->erase("", "r1", [&](ResponseStore::Found) { erased.set_value(); });
  erased.get_future().get();
  EXPECT_EQ(f.said("", "r3"), "gone") << "it would not be the same conversation";
  EXPECT_TRUE(f.has("", "r3"));
}

TEST(ResponseStore, IsThereAfterARestartWithTheFilesRights) {
  StoreFixture f;
  f.keep("", "r1", "", "a");
  EXPECT_TRUE(f.has("", "r1"));
  f.open();
  EXPECT_EQ(f.said("", "r1"), "a?a!");
  struct stat status {};
  ASSERT_EQ(stat(f.dir.path("r.db").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(ResponseStore, TheOldestOfWhoeverHasMostGoFirst) {
  StoreFixture f(20'000);
  f.keep("bob", "mine", "", std::string(1000, 'b'));
  for (int i = 0; i < 100; ++i) f.keep("alice", format("r{:03}", i), "", std::string(500, 'a'));
  EXPECT_TRUE(f.has("bob", "mine")) << "another's flood is not its problem";
  EXPECT_FALSE(f.has("alice", "r000"));
  EXPECT_TRUE(f.has("alice", "r099"));
}

TEST(ResponseStore, WhatIsTooOldIsGone) {
  StoreFixture f;
  f.keep("", "old", "", "x", 3601);
  f.keep("", "new", "", "x", 60);
  EXPECT_FALSE(f.has("", "old"));
  EXPECT_TRUE(f.has("", "new"));
}

TEST(ResponseStore, AnotherProgramsFileIsRefused) {
  const TempDir dir;
  EventLog log(quiet().log);
  std::ofstream(dir.path("f")) << "this is a text of mine, and not a database at all";
  try {
    ResponseStore store({.path = dir.path("f")}, log);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--response-store"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("not a database"), std::string::npos) << error.what();
  }
  EXPECT_THROW(ResponseStore({.path = dir.path("no/such/folder")}, log), Error);
}

// What clients see of it.
struct KeepingServer {
  KeepingServer()
      : dir(), f([this] {
          ServerConfig config = quiet();
          config.responses.path = dir.path("r.db");
          return config;
        }()) {}
  Json ask(const std::string& request) {
    TestClient client(f.server.port());
    return Json::parse(client.ask(request).body);
  }
  static std::string create(Json more) {
    Json body = {{"model", "cub"}, {"max_output_tokens", 4}, {"temperature", 0}};
    body.update(more);
    return post("/v1/responses", body);
  }
  TempDir dir;
  ServerFixture f;
};

TEST(KeptResponses, GoOnFromAnother) {
  KeepingServer s;
  const Json first = s.ask(KeepingServer::create({{"input", "Tell me of a dog."}}));
  EXPECT_EQ(first["store"], true);
  const std::string text = first["output"][0]["content"][0]["text"];
  const Json second =
      s.ask(KeepingServer::create({{"input", "And then?"}, {"previous_response_id", first["id"]}}));
  EXPECT_EQ(second["previous_response_id"], first["id"]);
  const Json whole = s.ask(KeepingServer::create(
      {{"store", false}, {"input", {{{"role", "user"}, {"content", "Tell me of a dog."}},
                                       {{"role", "assistant"}, {"content", text}},
                                       {{"role", "user"}, {"content", "And then?"}}}}}));
  EXPECT_EQ(second["usage"]["input_tokens"], whole["usage"]["input_tokens"]);
  EXPECT_EQ(second["output"][0]["content"], whole["output"][0]["content"]);
  EXPECT_EQ(whole["store"], false);
}

TEST(KeptResponses, AreReadAndDeleted) {
  KeepingServer s;
  const Json made = s.ask(KeepingServer::create({{"input", "Hello"}}));
  const std::string path = "/v1/responses/" + made["id"].get<std::string>();
  EXPECT_EQ(s.ask(get(path)), made);
  const Json items = s.ask(get(path + "/input_items"));
  ASSERT_EQ(items["data"].size(), 1u);
  EXPECT_EQ(items["data"][0]["content"][0]["text"], "Hello");
  EXPECT_EQ(items["first_id"], items["data"][0]["id"]);
  EXPECT_EQ(items["has_more"], false);
  EXPECT_EQ(s.ask(format("DELETE {} HTTP/1.1\r\nHost: localhost\r\n\r\n", path))["deleted"], true);
  EXPECT_EQ(s.ask(get(path))["error"]["code"], "response_not_found");
  EXPECT_EQ(
      s.ask(KeepingServer::create({{"input", "x"}, {"previous_response_id", made["id"]}}))["error"]["code"],
      "previous_response_not_found");
}

TEST(KeptResponses, AreNotKeptWhereTheClientOrTheServerSaysSo) {
  KeepingServer s;
  const Json made = s.ask(KeepingServer::create({{"input", "Hello"}, {"store", false}}));
  EXPECT_EQ(
      s.ask(get("/v1/responses/" + made["id"].get<std::string>()))["error"]["code"], "response_not_found");
  ServerFixture plain;
  TestClient client(plain.server.port());
  EXPECT_EQ(code_of(client.ask(get("/v1/responses/resp_1"))), "response_not_found");
}

TEST(KeptResponses, AStreamIsKeptToo) {
  KeepingServer s;
  TestClient client(s.f.server.port());
  const std::string body = client.ask(KeepingServer::create({{"input", "Hello"}, {"stream", true}})).body;
  const size_t at = body.find("\"id\":\"resp_") + 6;
  const std::string id = body.substr(at, body.find('"', at) - at);
  EXPECT_EQ(s.ask(get("/v1/responses/" + id))["status"], "incomplete") << "four tokens are all it had";
}

}  // namespace
}  // namespace cheetah
