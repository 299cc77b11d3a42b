// SPDX-License-Identifier: MIT
// The language, case by case: what the reference implementation of Jinja prints.
#include <gtest/gtest.h>

#include "model/template/template_testing.h"

namespace cheetah {
namespace {

using testing::error_of;
using testing::render;

struct Case {
  const char* source;
  const char* expected;
};

constexpr const char* kVariables =
    R"({"a":[3,1,2],"s":"Hello, World","u":"na\u00efve \u4f60\u597d","d":{"b":1,"a":2,"C":[1,2]},"n":null,"t":true,)"
    R"("x":1.5,"i":7,"l":[{"n":"x","v":1},{"n":"Y","v":2},{"n":"z"}],"big":1e20})";

void check(std::initializer_list<Case> cases) {
  for (const Case& c : cases)
    EXPECT_EQ(error_of(c.source, kVariables), std::string("no error: ") + c.expected) << c.source;
}

TEST(Language, PrintsValuesAsPythonDoes) {
  check({{"{{ n }} {{ t }} {{ x }} {{ big }} {{ 1e16 }} {{ 1e-5 }} {{ 0.1 }} {{ 2.0 }}",
             "None True 1.5 1e+20 1e+16 1e-05 0.1 2.0"},
      {"{{ a }} {{ d }} {{ (1,) }} {{ () }}", "[3, 1, 2] {'b': 1, 'a': 2, 'C': [1, 2]} (1,) ()"},
      {"{{ ['it\\'s', 'a\"b', '\\n'] }}", "[\"it's\", 'a\"b', '\\n']"},
      {"{{ undef }}|{{ undef is defined }}|{{ undef == undef2 }}", "|False|True"},
      {"{{ d.items() }} {{ range(3) }}", "dict_items([('b', 1), ('a', 2), ('C', [1, 2])]) range(0, 3)"}});
}

TEST(Language, ArithmeticFollowsPython) {
  check({{"{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }}",
             "3 -4 2 3.5 1024 0.5"},
      {"{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 'a' < 'b' }} {{ 1 == 1.0 }}", "True False True True"},
      {"{{ 'ab' * 2 }} {{ [1] + [2] }} {{ 1 ~ 'a' ~ none }} {{ 'b' in 'abc' }} {{ 4 not in a }}",
          "abab [1, 2] 1aNone True True"},
      {"{{ 'x' if i > 5 else 'y' }} {{ 'x' if i > 9 }}", "x "},
      {"{{ '' or 'z' }} {{ 1 and 0 }} {{ not n }}", "z 0 True"}});
}

TEST(Language, SlicesCountCharacters) {
  check({{"{{ u[2] }}{{ u[::-1] }}{{ u[-2:] }}{{ u|length }}", "ï好你 evïan你好8"},
      {"{{ a[1:] }} {{ a[::-1] }} {{ a[:-1] }} {{ a[5:] }} {{ a[-1] }} {{ a[9] is defined }}",
          "[1, 2] [2, 1, 3] [3, 1] [] 2 False"}});
}

TEST(Language, WhitespaceIsTrimmedAroundTags) {
  check({{"a\n  {% if t %}\nb\n  {% endif %}\nc\n", "a\nb\nc"},
      {"a \n {%- if t -%} \n b {%+ endif %} c", "ab  c"}, {"  {{ i }}  \n{# note #}\nx", "  7  \nx"},
      {"{% raw %}{{ x }}{% endraw %}\n y", "{{ x }} y"}});
}

TEST(Language, NamesSetInALoopStayThere) {
  check({{"{% set x = 1 %}{% for i in a %}{% set x = i %}{% endfor %}{{ x }}", "1"},
      {"{% if t %}{% set y = 2 %}{% endif %}{{ y }}", "2"},
      {"{% set ns = namespace(c=0) %}{% for i in a %}{% set ns.c = ns.c + i %}{% endfor %}{{ ns.c }}", "6"},
      {"{% with q = 5, r = 6 %}{{ q + r }}{% endwith %}{{ q }}", "11"},
      {"{% set z %}<{{ i }}>{% endset %}{{ z|upper }}{% set w | upper %}q{% endset %}{{ w }}", "<7>Q"}});
}

TEST(Language, LoopsKnowWhereTheyAre) {
  check({{"{% for q in a %}{{ loop.index }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ "
          "loop.previtem }}|{{ loop.nextitem }} {% endfor %}",
             "12TrueFalse|1 21FalseFalse3|2 30FalseTrue1| "},
      {"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "b=1;a=2;C=[1, 2];"},
      {"{% for q in [] %}x{% else %}none{% endfor %}", "none"},
      {"{% for q in range(9) if q is odd %}{% if q == 5 %}{% continue %}{% endif %}{% if q > 6 %}{% break "
       "%}{% endif %}{{ q }}{{ loop.length }} {% endfor %}",
          "14 34 "},
      {"{% for q in [1, [2, [3]]] recursive %}{{ loop(q) if q is iterable else q }}{{ loop.depth }}{% "
       "endfor %}",
          "11223321"},
      {"{% for q in 'aab' %}{{ loop.changed(q) }}{{ loop.cycle('x', 'y') }}{% endfor %}",
          "TruexFalseyTruex"}});
}

TEST(Language, MacrosTakeDefaultsExtrasAndCallers) {
  check({{"{% macro f(p, q=2) %}{{ p }}{{ q }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1) }}{{ f(1, 3, 4, "
          "z=5) }}",
             "12(){}13(4,){'z': 5}"},
      {"{% macro f() %}<{{ caller('k') }}>{% endmacro %}{% call(v) f() %}{{ v }}!{% endcall %}", "<k!>"},
      {"{% filter upper|replace('A', 'b') %}abc{% endfilter %}", "bBC"},
      {"{% generation %}g{% endgeneration %}", "g"}});
}

TEST(Language, FiltersGiveWhatTheReferenceGives) {
  check({{"{{ a|sort }} {{ a|max }} {{ a|sum }} {{ a|join('-') }} {{ a|first }} {{ a|last }}",
             "[1, 2, 3] 3 6 3-1-2 3 2"},
      {"{{ l|map(attribute='n')|list }} {{ l|selectattr('v')|map(attribute='v')|join }} {{ "
       "l|rejectattr('v', 'defined')|list }}",
          "['x', 'Y', 'z'] 12 [{'n': 'z'}]"},
      {"{{ d|dictsort }} {{ d|tojson }} {{ d|items|list|length }}",
          "[('a', 2), ('b', 1), ('C', [1, 2])] {\"b\": 1, \"a\": 2, \"C\": [1, 2]} 3"},
      {"{{ '\\u4f60\"\\n</'|tojson }} {{ {'k': [1, {}], 'e': []}|tojson(indent=2) }}",
          "\"你\\\"\\n</\" {\n  \"k\": [\n    1,\n    {}\n  ],\n  \"e\": []\n}"},
      {"{{ '3.7'|int }} {{ '0x1f'|int(0, 16) }} {{ 'z'|int(5) }} {{ 2.5|round }} {{ 42.55|round(1, "
       "'floor') }} {{ -3|abs }}",
          "3 31 5 2.0 42.5 3"},
      {"{{ s|truncate(8, leeway=0) }} {{ 'a b'|title }} {{ ' x '|trim }} {{ s|wordcount }} {{ "
       "'a\\nb'|indent(2, "
       "true) }}",
          "Hello... A B x 2   a\n  b"},
      {"{{ '<a>'|e }} {{ ('<a>'|safe) + '<' }}", "&lt;a&gt; <a>&lt;"},
      {"{{ [1, 2, 3]|batch(2, 0)|list }} {{ [1, 2, 3]|slice(2)|list }} {{ ['a', 'A', 'b']|unique|list }} "
       "{{ undef|default('d') }} {{ ''|default('d', true) }}",
          "[[1, 2], [3, 0]] [[1, 2], [3]] ['a', 'b'] d d"}});
}

TEST(Language, StringsHaveTheirMethods) {
  check({{"{{ s.split(', ') }} {{ ' a b '.split() }} {{ 'a,b,c'.rsplit(',', 1) }} {{ s.partition(',') }}",
             "['Hello', 'World'] ['a', 'b'] ['a,b', 'c'] ('Hello', ',', ' World')"},
      {"{{ s.startswith(('x', 'He')) }} {{ s.find('o') }} {{ s.count('l') }} {{ 'xxaxx'.strip('x') }} {{ "
       "s.replace('l', 'L', 1) }}",
          "True 4 3 a HeLlo, World"},
      {"{{ '%s is %05.2f and %d%%' % ('pi', 3.14159, 7) }} {{ '%(k)s' % {'k': 1} }}", "pi is 03.14 and 7% 1"},
      {"{{ '{} {1} {}'.format(1, 2) if false else '{0:>5}|{k!r:<5}|{1:,.2f}'.format('a', 1234.5, k='b') }}",
          "    a|'b'  |1,234.50"},
      {"{{ d.get('zz', 5) }} {{ d.items is defined }} {{ d['items'] is callable }} {{ 'ß'.upper() }}",
          "5 True True SS"}});
}

TEST(Language, ErrorsAreThePythonOnes) {
  EXPECT_NE(
      error_of("{{ 'a' + [] }}").find("can only concatenate str (not \"list\") to str"), std::string::npos);
  EXPECT_NE(
      error_of("{{ x.y.z }}", R"({"x":{}})").find("'dict object' has no attribute 'y'"), std::string::npos);
  EXPECT_NE(error_of("{{ undef + 1 }}").find("'undef' is undefined"), std::string::npos);
  EXPECT_NE(error_of("{% for q in none %}{% endfor %}").find("'NoneType' object is not iterable"),
      std::string::npos);
  EXPECT_NE(error_of("{% macro f() %}{% endmacro %}{{ f(1) }}").find("takes not more than 0 argument"),
      std::string::npos);
  EXPECT_NE(
      error_of("{% for a, b in [[1]] %}{% endfor %}").find("not enough values to unpack"), std::string::npos);
}

}  // namespace
}  // namespace cheetah
