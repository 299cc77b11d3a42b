// SPDX-License-Identifier: MIT
// The parsers of files that strangers wrote: YAML, Prometheus text, traces, counters, fat binaries.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "doctor/fixture.h"

namespace cheetah::doctor {
namespace {

TEST(Document, YamlAndJsonBecomeOneTree) {
  const auto documents = parse_documents("a: {b: [1, two]}\n---\n{\"c\": null}\n", "x.yaml");
  ASSERT_EQ(documents.size(), 2u);
  EXPECT_EQ(documents[0].at("a.b").items[1].text, "two");
  EXPECT_EQ(documents[0].at("a.b").items[1].line, 1);
  EXPECT_FALSE(documents[1].has("c"));
  EXPECT_FALSE(documents[0].has("a.b.c.d"));
}

TEST(Document, AStreamEndsWhateverItHolds) {
  for (const char* text :
      {",", "]", "}", ":", "? ", "...", "---", "---\n---\n---", "\n\n", "&a", "!", "a: b\n--- \nc: d\n...\n"})
    try {
      EXPECT_LE(parse_documents(text, "x.yaml").size(), 3u) << text;
    } catch (const Error&) {
      // a refusal is an answer
    }
  EXPECT_EQ(parse_documents("a: b\n---\nc:\n  - d\n", "x.yaml").at(1).at("c").line, 4);
}

TEST(Document, BombsAndNestingAreRefused) {
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'k'; ++c)
    bomb += format("{0}: &{0} [*{1},*{1},*{1},*{1},*{1},*{1},*{1},*{1},*{1}]\n", c, static_cast<char>(c - 1));
  EXPECT_THROW(parse_documents(bomb, "bomb.yaml"), Error);
  EXPECT_THROW(parse_documents(std::string(100000, '['), "deep.yaml"), Error);
  std::string nested;
  for (int i = 0; i < 2000; ++i) nested += std::string(static_cast<size_t>(i), ' ') + "a:\n";
  EXPECT_THROW(parse_documents(nested, "nested.yaml"), Error);
  EXPECT_THROW(parse_documents(std::string(size_t{5} << 20, 'x'), "large.yaml"), Error);
  EXPECT_THROW(parse_documents("a: [", "open.yaml"), Error);
  EXPECT_THROW(parse_documents("a: *nobody", "alias.yaml"), Error);
}

TEST(Pods, EveryKindThatStartsAPodIsFound) {
  const auto one = [](const std::string& text) {
    return read_pods(text, "x.yaml").pods.at(0).containers().size();
  };
  EXPECT_EQ(one("kind: Pod\nspec: {containers: [{name: a}]}"), 1u);
  EXPECT_EQ(one("kind: Job\nspec: {template: {spec: {containers: [{name: a}, {name: b}]}}}"), 2u);
  EXPECT_EQ(
      one("kind: CronJob\nspec: {jobTemplate: {spec: {template: {spec: {containers: [{name: a}]}}}}}"), 1u);
  EXPECT_EQ(one("kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Worker: {replicas: 4, template: {spec: "
                "{containers: [{name: a}]}}}}}"),
      1u);
  EXPECT_EQ(one("kind: List\nitems: [{kind: Pod, spec: {containers: [{name: a}]}}]"), 1u);
  EXPECT_THROW(read_pods("kind: Service", "x.yaml"), Error);
  EXPECT_EQ(*parse_quantity("15500m"), 15.5);
  EXPECT_EQ(*parse_quantity("32000m"), *parse_quantity("32"));
  EXPECT_EQ(*parse_quantity("1e3"), 1000);
  EXPECT_EQ(*parse_quantity("2Gi"), 2147483648.0);
  EXPECT_FALSE(parse_quantity("lots"));
}

TEST(Metrics, LinesAreReadAndBrokenOnesSkipped) {
  const Metrics metrics = Metrics::parse(
      "# HELP x\na{b=\"c\\\"d\",e=\"f\"} 1.5 123\nbroken{ 1\na{b=\"g\"} 2\nnovalue\ng 1e3\nh NaN\n");
  ASSERT_NE(metrics.find("a"), nullptr);
  EXPECT_EQ(metrics.find("a")->size(), 2u);
  EXPECT_EQ(metrics.find("a")->at(0).labels.at("b"), "c\"d");
  EXPECT_EQ(metrics.find("g")->at(0).value, 1000);
  EXPECT_EQ(metrics.find("h"), nullptr);
  EXPECT_EQ(metrics.find("broken"), nullptr);
}

TEST(Engine, QuantilesInterpolateWithinABucket) {
  EngineFacts engine;
  engine.now = Metrics::parse(
      "vllm:time_to_first_token_seconds_bucket{le=\"1\"} "
      "100\nvllm:time_to_first_token_seconds_bucket{le=\"2\"} "
      "200\nvllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 200\n");
  EXPECT_DOUBLE_EQ(*engine.quantile("ttft", 0.75), 1.5);
  engine.before = Metrics::parse(
      "vllm:time_to_first_token_seconds_bucket{le=\"1\"} "
      "100\nvllm:time_to_first_token_seconds_bucket{le=\"2\"} "
      "150\nvllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 150\n");
  EXPECT_FALSE(engine.quantile("ttft", 0.75));  // 50 new observations are too few
}

TEST(Engine, OtherEnginesNamesMeanTheSame) {
  EngineFacts engine;
  engine.now =
      Metrics::parse("sglang:num_running_reqs 7\nllamacpp:requests_deferred 3\nsglang:token_usage 0.28\n");
  EXPECT_EQ(*engine.gauge("running"), 7);
  EXPECT_EQ(*engine.gauge("waiting"), 3);
  EXPECT_EQ(*engine.gauge("kv_usage"), 0.28);
  EXPECT_FALSE(engine.counter("preemptions"));
}

class Database {
 public:
  explicit Database(const std::string& path) { sqlite3_open(path.c_str(), &db_); }
  ~Database() { sqlite3_close(db_); }
  void run(const std::string& sql) {
    ASSERT_EQ(sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sql;
  }

 private:
  sqlite3* db_ = nullptr;
};

TEST(Profile, ANsightSystemsExportGivesTheSameNumbersAsItsTrace) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("doctor-" + std::to_string(getpid()) + ".sqlite");
  std::filesystem::remove(path);
  {
    Database database(path);
    database.run(
        "CREATE TABLE StringIds(id INTEGER, value TEXT); INSERT INTO StringIds VALUES "
        "(1,'nvjet_gemm'),(2,'cudaStreamSynchronize_v3020')");
    database.run(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, shortName INTEGER); INSERT INTO "
        "CUPTI_ACTIVITY_KIND_KERNEL VALUES (0,1000000,1),(3000000,4000000,1)");
    database.run(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INTEGER, end INTEGER, copyKind INTEGER, bytes "
        "INTEGER, srcKind INTEGER); INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (0,500000,1,1000,1)");
    database.run(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, end INTEGER, nameId INTEGER); INSERT INTO "
        "CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000000,2000000,2)");
  }
  const ProfileFacts facts = read_profile(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(facts.timeline);
  EXPECT_EQ(facts.timeline->kernels, 2);
  EXPECT_DOUBLE_EQ(facts.timeline->window_us, 4000);
  EXPECT_DOUBLE_EQ(facts.timeline->busy_us, 2000);
  EXPECT_DOUBLE_EQ(facts.timeline->gap_us, 2000);
  EXPECT_DOUBLE_EQ(facts.timeline->host_gap_us, 1000);  // the other half the host waited
  EXPECT_EQ(facts.timeline->pageable_in_bytes, 1000);
  EXPECT_EQ(facts.timeline->syncs, 1);
}

TEST(Profile, FilesThatAreNoProfileAreRefused) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("doctor-" + std::to_string(getpid()) + ".txt");
  for (const std::string& text : {std::string("hello"), std::string("{\"a\": 1}"),
           std::string("SQLite format 3\0 and then nothing", 33), std::string("{"), std::string()}) {
    std::ofstream(path, std::ios::binary) << text;
    EXPECT_THROW(read_profile(path), Error) << text;
  }
  std::filesystem::remove(path);
}

TEST(Profile, NcuTablesOfBothShapesAreRead) {
  const auto tall = read_ncu_csv(
      "==PROF== Connected\n\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric "
      "Value\"\n\"0\",\"k, \"\"x\"\"\",\"a\",\"%\",\"1,234.5\"\n");
  ASSERT_EQ(tall.size(), 1u);
  EXPECT_EQ(tall[0].name, "k, \"x\"");
  EXPECT_EQ(tall[0].metrics.at("a"), 1234.5);
  const auto wide =
      read_ncu_csv("\"ID\",\"Kernel Name\",\"a\",\"b\"\n\"\",\"\",\"%\",\"\"\n\"0\",\"k\",\"5\",\"6\"\n");
  ASSERT_EQ(wide.size(), 1u);
  EXPECT_EQ(wide[0].metrics.at("b"), 6);
}

TEST(DeviceCode, TargetsOfAFatBinaryAreListed) {
  const auto codes = find_device_code(fat_binary(90));
  ASSERT_EQ(codes.size(), 1u);
  EXPECT_EQ(codes[0].arch, 90);
  EXPECT_FALSE(codes[0].is_ptx);
  EXPECT_TRUE(find_device_code("no code here").empty());
}

TEST(Inputs, AnyBytesAreReadOrRefused) {
  EXPECT_TRUE(rc::check("inputs", [](const std::string& bytes) {
    Metrics::parse(bytes);
    read_ncu_csv("\"Kernel Name\"\n" + bytes);
    read_log(bytes, "log");
    find_device_code("\x50\xed\x55\xba" + bytes);
    parse_mounts(bytes);
    gpu_text_from_csv("name, memory.total [MiB]\n" + bytes);
    for (const auto& parse : std::vector<std::function<void()>>{[&] { parse_documents(bytes, "x"); },
             [&] { read_chrome_trace(bytes, "x"); }, [&] { parse_snapshot(bytes, "x"); }}) {
      try {
        parse();
      } catch (const Error&) {
        // a refusal is an answer
      }
    }
  }));
}

}  // namespace
}  // namespace cheetah::doctor
