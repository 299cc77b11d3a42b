// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "serve/batch_run.h"
#include "serve/server_fixture.h"

namespace cheetah {
namespace {

std::string line(const std::string& id, const std::string& body, const std::string& url = "/v1/completions") {
  return format(R"({{"custom_id":"{}","method":"POST","url":"{}","body":{}}})", id, url, body);
}
constexpr const char* kBody =
    R"({"model":"cub","prompt":"Once","max_tokens":3,"temperature":0,"ignore_eos":true})";

TEST(BatchRun, AnswersEveryLineUnderItsOwnId) {
  Engine engine(small_model(), small_engine());
  const ApiServices services = small_services();
  std::vector<std::string> lines = {line("a", kBody), "", line("b", R"({"model":"other","prompt":"x"})"),
      "not json",
      line("c", R"({"model":"cub","messages":[{"role":"user","content":"Hi"}],"max_tokens":2})",
          "/v1/chat/completions"),
      line("d", R"({"model":"cub","prompt":"x","stream":true})"), line("e", kBody, "/nowhere"),
      line("f", R"({"model":"cub","input":["a","b"]})", "/v1/embeddings")};
  size_t at = 0;
  std::map<std::string, Json> answers;
  BatchRun batch(engine, {&services}, {.window = 2});
  const BatchCounts counts =
      batch.run([&] { return at < lines.size() ? std::optional(lines[at++]) : std::nullopt; },
          [&](const std::string& text, const BatchCounts&) {
            Json json = Json::parse(text);
            answers[json["custom_id"]] = std::move(json["response"]);
          },
          [] { return false; });
  EXPECT_EQ(counts.total, 7);
  EXPECT_EQ(counts.completed, 3);
  EXPECT_EQ(counts.failed, 4);
  EXPECT_EQ(answers["a"]["body"]["usage"]["completion_tokens"], 3);
  EXPECT_EQ(answers["b"]["status_code"], 404);
  EXPECT_EQ(answers["c"]["body"]["object"], "chat.completion");
  EXPECT_EQ(answers["d"]["body"]["error"]["param"], "body.stream");
  EXPECT_EQ(answers["e"]["status_code"], 404);
  EXPECT_EQ(answers["f"]["body"]["data"].size(), 2u);
  EXPECT_EQ(answers[""]["status_code"], 400);
}

std::string upload(const std::string& content) {
  const std::string body =
      "--XX\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--XX\r\nContent-Disposition: form-data; "
      "name=\"file\"; filename=\"in.jsonl\"\r\n\r\n" +
      content + "\r\n--XX--\r\n";
  return format(
      "POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=XX\r\n"
      "Content-Length: {}\r\n\r\n{}",
      body.size(), body);
}

TEST(Server, RunsBatchesOfUploadedFiles) {
  ServerFixture f;
  TestClient client(f.server.port());
  const Json file = Json::parse(client.ask(upload(line("1", kBody) + "\n" + line("2", "{}") + "\n")).body);
  ASSERT_EQ(file["object"], "file") << file;
  EXPECT_EQ(file["filename"], "in.jsonl");
  Json batch = Json::parse(
      client
          .ask(post("/v1/batches",
              {{"input_file_id", file["id"]}, {"endpoint", "/v1/completions"}, {"completion_window", "24h"}}))
          .body);
  ASSERT_EQ(batch["object"], "batch") << batch;
  const std::string id = batch["id"];
  EXPECT_TRUE(eventually([&] {
    batch = Json::parse(client.ask(get("/v1/batches/" + id)).body);
    return batch["status"] == "completed";
  })) << batch;
  EXPECT_EQ(batch["request_counts"], (Json{{"total", 2}, {"completed", 1}, {"failed", 1}}));
  const std::string output = batch["output_file_id"], errors = batch["error_file_id"];
  const Json answer = Json::parse(client.ask(get("/v1/files/" + output + "/content")).body);
  EXPECT_EQ(answer["custom_id"], "1");
  EXPECT_EQ(answer["response"]["body"]["usage"]["completion_tokens"], 3);
  EXPECT_EQ(Json::parse(client.ask(get("/v1/files/" + errors + "/content")).body)["custom_id"], "2");
  EXPECT_EQ(Json::parse(client.ask(get("/v1/files")).body)["data"].size(), 3u);
  const std::string gone = "DELETE /v1/files/" + output + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  EXPECT_EQ(Json::parse(client.ask(gone).body)["deleted"], true);
  EXPECT_EQ(client.ask(get("/v1/files/" + output)).status, 404);
  EXPECT_EQ(
      client.ask(post("/v1/batches", {{"input_file_id", "file-x"}, {"endpoint", "/v1/completions"}})).status,
      400);
}

TEST(Server, SpeaksOllamaAndLlamaCpp) {
  ServerFixture f;
  TestClient client(f.server.port());
  EXPECT_EQ(Json::parse(client.ask(get("/api/tags")).body)["models"][0]["name"], "cub");
  EXPECT_EQ(Json::parse(client.ask(get("/api/version")).body)["version"], "1.2.3");
  EXPECT_EQ(Json::parse(client.ask(get("/slots")).body).size(), 8u);
  const std::string body = R"({"model":"cub","prompt":"Hi","options":{"num_predict":3}})";
  const TestResponse lines = client.ask(format(
      "POST /api/generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}", body.size(), body));
  EXPECT_EQ(lines.status, 200);
  EXPECT_EQ(lines.header("content-type"), "application/x-ndjson");
  EXPECT_NE(lines.body.find("\"done\":true"), std::string::npos);
  const TestResponse refused =
      client.ask(post("/api/chat", {{"model", "none"}, {"messages", Json::array()}}));
  EXPECT_EQ(refused.status, 404);
  EXPECT_TRUE(Json::parse(refused.body)["error"].is_string());
}

}  // namespace
}  // namespace cheetah
