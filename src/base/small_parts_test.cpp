// SPDX-License-Identifier: MIT
// The small parts: ascii, hash, markup, text, time, unique_fd, temp_dir, utf8.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/ascii.h"
#include "base/hash.h"
#include "base/markup.h"
#include "base/temp_dir.h"
#include "base/text.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "base/utf8.h"

namespace cheetah {
namespace {

TEST(Ascii, LowersLettersAndLeavesOtherBytes) {
  EXPECT_EQ(ascii_lower("X-Api_Key9[\xC3\x84"), "x-api_key9[\xC3\x84");
  EXPECT_EQ(ascii_upper("get /z{"), "GET /Z{");
  EXPECT_TRUE(equal_ignoring_case("Keep-Alive", "keep-alivE"));
  EXPECT_FALSE(equal_ignoring_case("close", "closed"));
}

TEST(Markup, EscapesWhatWouldBeMarkup) {
  EXPECT_EQ(escape_markup("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
}

TEST(Text, CountsTheEditsBetweenTwoWords) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("models", "models"), 0);
  EXPECT_EQ(edit_distance("serve", "sevre"), 1) << "neighbours swapped";
}

TEST(Hash, GivesThePublishedNumbers) {
  SplitMix64 generator(0);
  EXPECT_EQ(generator.next(), 0xE220A8397B1DCDAFu);  // of the reference implementation, seed 0
  EXPECT_EQ(generator.next(), 0x6E789E6AA1B965F4u);
  EXPECT_EQ(split_mix64(0, 1), 0x6E789E6AA1B965F4u);
  EXPECT_EQ(fnv1a(""), 0xCBF29CE484222325u);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171F73967E8u);
  EXPECT_EQ(fnv1a("bar", fnv1a("foo")), fnv1a("foobar"));
}

TEST(Time, DurationsBecomeNumbers) {
  EXPECT_EQ(seconds(std::chrono::milliseconds(1500)), 1.5);
  EXPECT_EQ(milliseconds(std::chrono::microseconds(250)), 0.25);
  EXPECT_EQ(from_seconds(0.002), std::chrono::milliseconds(2));
  ManualTime time;
  const SteadyTime start = time.now();
  time.advance(from_seconds(3));
  EXPECT_EQ(seconds(start, time.now()), 3);
  EXPECT_GE(seconds_since(SteadyClock::now()), 0);
}

TEST(UniqueFd, ClosesOnceAndMoves) {
  const auto is_open = [](int fd) { return ::fcntl(fd, F_GETFD) != -1; };
  UniqueFd first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(first);
  const int number = first.get();
  {
    const UniqueFd second = std::move(first);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move)
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(TempDir, HoldsFilesAndGoesWithThem) {
  std::string path;
  {
    TempDir folder("cheetah-test");
    path = folder.path();
    EXPECT_NE(path.find("/cheetah-test-"), std::string::npos);
    struct stat status = {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u);
    std::ifstream file(folder.write("deep/down.txt", "content"));
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "content");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TempDir, StaysWhenItIsKept) {
  const std::string path = TempDir().keep();
  EXPECT_TRUE(std::filesystem::is_directory(path));
  std::filesystem::remove(path);
}

TEST(Utf8, BrokenBytesBecomeReplacementCharacters) {
  EXPECT_EQ(repair_utf8("a\xC3\x28\xE2\x82"), "a\xEF\xBF\xBD(\xEF\xBF\xBD");
  EXPECT_TRUE(is_valid_utf8("h\xC3\xA4llo \xF0\x9F\x90\x86"));
  EXPECT_FALSE(is_valid_utf8("\xED\xA0\x80"));  // a surrogate
  EXPECT_EQ(to_utf8(to_utf32("\xF0\x9F\x90\x86")), "\xF0\x9F\x90\x86");
}

}  // namespace
}  // namespace cheetah
