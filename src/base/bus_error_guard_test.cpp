// SPDX-License-Identifier: MIT
#include "base/bus_error_guard.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/mapped_file.h"

namespace cheetah {
namespace {

TEST(BusErrorGuardDeathTest, NamesTheFileThatWasTruncatedUnderItsMapping) {
  const std::string path = (std::filesystem::temp_directory_path() / "cheetah_truncated.bin").string();
  const auto read_after_truncation = [&] {
    std::ofstream(path) << std::string(100'000, 'x');
    const MappedFile file = MappedFile::open(path);
    std::filesystem::resize_file(path, 10);
    const volatile char byte = file.text()[50'000];
    std::exit(byte);  // not reached
  };
  EXPECT_EXIT(
      read_after_truncation(), ::testing::ExitedWithCode(1), "cheetah_truncated.bin: the file was truncated");
  std::filesystem::remove(path);
}

TEST(BusErrorGuardDeathTest, LeavesABusErrorElsewhereToTheHandlerBefore) {
  const auto raise_elsewhere = [] {
    std::signal(SIGBUS, [](int) { _exit(7); });
    int watched = 0;
    watch_mapping(&watched, sizeof watched, "watched");
    const std::string path = (std::filesystem::temp_directory_path() / "cheetah_elsewhere.bin").string();
    std::ofstream(path).flush();
    FILE* file = std::fopen(path.c_str(), "r");
    const auto* bytes =
        static_cast<const volatile char*>(mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, fileno(file), 0));
    std::filesystem::remove(path);
    std::exit(bytes[0]);  // not reached
  };
  // The guard is installed once per process, so the handler above must come first: a process of its own.
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(raise_elsewhere(), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace cheetah
