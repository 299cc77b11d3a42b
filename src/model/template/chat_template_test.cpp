// SPDX-License-Identifier: MIT
#include "model/template/chat_template.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/template/template_testing.h"

namespace cheetah {
namespace {

using testing::error_of;
using testing::render;

TEST(ChatTemplate, RendersMessagesInOrder) {
  EXPECT_EQ(render("{% for m in messages %}<{{ m.role }}>{{ m['content'] }}{% endfor %}",
                R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yo"}]})"),
      "<user>hi<assistant>yo");
}

TEST(ChatTemplate, ErrorsNameTheTemplateAndTheLine) {
  EXPECT_EQ(error_of("a\n\n{{ raise_exception('roles must alternate') }}"),
      "test: chat template error at line 3: roles must alternate");
  EXPECT_EQ(error_of("a\n{% if %}"), "test: chat template error at line 2: Expected an expression");
  EXPECT_EQ(error_of("{{ x | foo }}"),
      "test: chat template error at line 1: unknown filter: No filter named 'foo'.");
}

TEST(ChatTemplate, RenderingTwiceGivesTheSame) {
  const ChatTemplate chat(
      "{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
      "test");
  EXPECT_EQ(chat.render("{}", 0), "3");
  EXPECT_EQ(chat.render("{}", 0), "3");
}

TEST(ChatTemplate, VariablesMustBeAJsonObject) {
  const ChatTemplate chat("x", "test");
  EXPECT_THROW(chat.render("[]", 0), Error);
  EXPECT_THROW(chat.render("{", 0), Error);
  EXPECT_THROW(chat.render(std::string(100000, '['), 0), Error);
}

TEST(ChatTemplate, ShowsTheGivenTimeAlone) {
  const std::string pattern = "{{ strftime_now('%d %b %Y|%Y-%m-%d|%H:%M:%S|%A|%-d|%j') }}";
  EXPECT_EQ(ChatTemplate(pattern, "test").render("{}", 1721997296),
      "26 Jul 2024|2024-07-26|12:34:56|Friday|26|208");
}

}  // namespace
}  // namespace cheetah
