// SPDX-License-Identifier: MIT
#include "base/names.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

enum class Fruit { kApple, kPear, kPlum };
constexpr auto kFruits =
    enum_names<Fruit>({{Fruit::kApple, "apple"}, {Fruit::kPear, "pear"}, {Fruit::kPlum, "plum"}});
static_assert(kFruits[Fruit::kPear] == "pear");
static_assert(kFruits.find("plum") == Fruit::kPlum);

struct Opened {};
struct Closed {};
using Event = std::variant<Opened, Closed>;
static_assert(kAlternativeNames<Event>.size() == 2);

// A table with a name too few or too many fails on these.
static_assert(names_detail::is_enumerator<Fruit, 2>());
static_assert(!names_detail::is_enumerator<Fruit, 3>());

TEST(Names, AnEnumeratorHasItsNameAndANameItsEnumerator) {
  for (const Fruit fruit : {Fruit::kApple, Fruit::kPear, Fruit::kPlum})
    EXPECT_EQ(kFruits.find(kFruits[fruit]), fruit);
  EXPECT_FALSE(kFruits.find("melon"));
  EXPECT_EQ(kFruits[static_cast<Fruit>(7)], "?");
}

TEST(Names, AlternativesAreCalledAsTheirTypes) {
  EXPECT_EQ(alternative_name(Event(Opened())), "Opened");
  EXPECT_EQ(alternative_name(Event(Closed())), "Closed");
  EXPECT_EQ(type_name<int>(), "int");
}

}  // namespace
}  // namespace cheetah
