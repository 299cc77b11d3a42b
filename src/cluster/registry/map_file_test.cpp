// SPDX-License-Identifier: MIT
#include "cluster/registry/map_file.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/temp_dir.h"
#include "base/time.h"

namespace cheetah::cluster {
namespace {

Registry::Entries some_entries() {
  Registry::Entries entries;
  for (const auto& [key, value] :
      {std::pair("workers/1", std::string("a\0b\xff", 4)), std::pair("config/policy", std::string("x = 1"))})
    entries[key] = {.key = key, .value = value, .revision = 7};
  return entries;
}

class MapFile : public testing::Test {
 protected:
  void put(const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
  TempDir folder;
  std::string path = folder.path() + "/deep/map";
  void SetUp() override { std::filesystem::create_directories(folder.path() + "/deep"); }
};

TEST_F(MapFile, SaysWhatWasWrittenWhileItIsYoung) {
  put(map_file_text(some_entries(), "prod", 1000));
  EXPECT_EQ(read_map_file(path, "prod", 1000), some_entries());
  EXPECT_EQ(read_map_file(path, "prod", 1000 + kMapFileSeconds), some_entries());
  EXPECT_TRUE(read_map_file(path, "prod", 1001 + kMapFileSeconds).empty())
      << "old addresses belong to others by now";
  EXPECT_TRUE(read_map_file(path, "prod", 999).empty()) << "written in the future";
  EXPECT_TRUE(read_map_file(path, "test", 1000).empty()) << "another cluster";
}

TEST_F(MapFile, SeatsAndForeignKeysAreNotKept) {
  Registry::Entries entries = some_entries();
  entries["owner/planner"] = {.key = "owner/planner", .value = "x", .revision = 9};
  put(map_file_text(entries, "prod", 1000));
  EXPECT_EQ(read_map_file(path, "prod", 1000), some_entries());
}

TEST_F(MapFile, WhatIsNoMapSaysNothing) {
  EXPECT_TRUE(read_map_file(path, "prod", 1000).empty());
  EXPECT_TRUE(read_map_file("", "prod", 1000).empty());
  const std::string good = map_file_text(some_entries(), "prod", 1000);
  for (const std::string& bad : {std::string(), std::string("{}"), good.substr(0, good.size() / 2),
           "x" + good, std::string(R"({"version":2,"cluster":"prod","saved":1000,"entries":[]})"),
           std::string(R"({"version":1,"cluster":"prod","saved":1000,"entries":[{"key":"workers/1"}]})")}) {
    put(bad);
    EXPECT_TRUE(read_map_file(path, "prod", 1000).empty()) << bad;
  }
}

TEST_F(MapFile, IsWrittenSoonAfterAChangeAndNotWhileTheRegistryIsAway) {
  std::atomic<bool> up = false;
  MapFileWriter writer(path, "prod", [&]() -> std::optional<Registry::Entries> {
    if (!up) return std::nullopt;
    return some_entries();
  });
  const auto there = [&] { return std::filesystem::exists(path); };
  writer.changed();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_FALSE(there());
  up = true;
  writer.changed();
  for (int i = 0; i < 3000 && !there(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(there());
  EXPECT_EQ(read_map_file(path, "prod", unix_seconds()), some_entries());
}

}  // namespace
}  // namespace cheetah::cluster
