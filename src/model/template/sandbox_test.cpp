// SPDX-License-Identifier: MIT
// Nothing outside the template can be reached, and no template can take more than its limits.
#include <gtest/gtest.h>

#include "model/template/template_testing.h"

namespace cheetah {
namespace {

using testing::error_of;
using testing::render;

bool fails(const std::string& source) {
  return error_of(source).starts_with("test: chat template error at line 1: ");
}

TEST(Sandbox, NoEscapeReachesTheHost) {
  const char* const kEscapes[] = {
      "{{ ''.__class__ }}",
      "{{ ''.__class__.__mro__ }}",
      "{{ ''['__class__'] }}",
      "{{ ''|attr('__class__') }}",
      "{{ [].__class__.__base__.__subclasses__() }}",
      "{{ {}.__class__ }}",
      "{{ ().__class__ }}",
      "{{ 1 .__class__ }}",
      "{{ none.__class__ }}",
      "{{ true.__class__ }}",
      "{{ 1.5.__class__ }}",
      "{{ range.__globals__ }}",
      "{{ namespace.__init__ }}",
      "{{ namespace().__class__ }}",
      "{{ dict.__base__ }}",
      "{{ cycler.__init__.__globals__.os }}",
      "{{ joiner.__init__ }}",
      "{{ lipsum.__globals__ }}",
      "{{ lipsum.__globals__['os'].popen('id').read() }}",
      "{{ raise_exception.__globals__ }}",
      "{{ strftime_now.__globals__ }}",
      "{% macro m() %}{% endmacro %}{{ m.__globals__ }}",
      "{% for x in [1] %}{{ loop.__class__ }}{% endfor %}",
      "{{ '{0.__class__}'.format(1) }}",
      "{{ '{x.__class__}'.format(x=1) }}",
      "{{ '{0[__class__]}'.format('') }}",
      "{{ '{0.__class__.__mro__}'.format_map({'0': 1}) }}",
      "{{ '{0.__init__}'.format(namespace) }}",
      "{{ ['a']|map(attribute='__class__')|list }}",
      "{{ ['a']|map('attr', '__class__')|list }}",
      "{{ ['a']|selectattr('__class__')|list }}",
      "{{ ['a']|sort(attribute='__class__') }}",
      "{{ ['a']|groupby('__class__') }}",
      "{{ ['a']|sum(attribute='__class__') }}",
      "{{ ['a']|join(attribute='__class__') }}",
      "{{ ['a']|unique(attribute='__class__')|list }}",
      "{{ ['a']|min(attribute='__class__') }}",
      "{% import 'os' as os %}",
      "{% from 'os' import system %}",
      "{% include '/etc/passwd' %}",
      "{% include ['a', 'b'] %}",
      "{% extends 'base' %}",
      "{{ self.__init__ }}",
      "{{ self._TemplateReference__context }}",
      "{{ config.items() }}",
      "{{ request.application.__globals__ }}",
      "{{ url_for.__globals__ }}",
      "{{ get_flashed_messages.__globals__ }}",
      "{{ __import__('os') }}",
      "{{ open('/etc/passwd').read() }}",
      "{{ eval('1') }}",
      "{{ exec('1') }}",
      "{{ os.system('id') }}",
      "{{ globals() }}",
      "{{ locals() }}",
      "{{ getattr('', 'x') }}",
      "{{ type('') }}",
      "{{ print('x') }}",
      "{{ input() }}",
      "{{ [].append(1) }}",
      "{{ {}.update({}) }}",
      "{{ [1].pop() }}",
      "{{ {'a': 1}.pop('a') }}",
      "{{ [2, 1].sort() }}",
      "{{ {}.setdefault('a', 1) }}",
      "{{ [].extend([1]) }}",
      "{{ [1].clear() }}",
      "{{ {}.clear() }}",
      "{{ [1].remove(1) }}",
      "{{ [1].reverse() }}",
      "{{ [1].insert(0, 1) }}",
      "{{ {'a': 1}.popitem() }}",
      "{{ 'x'.encode().decode() }}",
      "{% set ''.x = 1 %}",
      "{% set x = {} %}{% set x.y = 1 %}",
      "{{ 'x'|from_json }}",
      "{{ x.y }}",
      "{{ x[0] }}",
  };
  EXPECT_GE(std::size(kEscapes), 60u);
  for (const char* escape : kEscapes) EXPECT_TRUE(fails(escape)) << escape << " gave " << error_of(escape);
}

TEST(Sandbox, KeysThatLookLikeInternalsAreOnlyData) {
  EXPECT_EQ(render("{{ d._x }}{{ d.__y }}{{ d['__z__'] }}{{ d._no }}", R"({"d":{"_x":1,"__y":2,"__z__":3}})"),
      "123");
}

TEST(Sandbox, BombsEndWithAClearError) {
  const std::string kBombs[] = {
      "{% for i in range(10**9) %}x{% endfor %}",
      "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}x{% endfor %}{% "
      "endfor %}{% endfor %}",
      "{% set ns=namespace(s='a') %}{% for i in range(1000) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      "{% set ns=namespace(s='a') %}{% for i in range(1000) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{% set ns=namespace(l=[1]) %}{% for i in range(1000) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
      "{% set ns=namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}",
      "{% set ns=namespace(l=[]) %}{% for i in range(150) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l "
      "}}",
      "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
      "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
      "{% for x in [1] recursive %}{{ loop([x]) }}{% endfor %}",
      "{{ 'a' * 10**9 }}",
      "{{ [1] * 10**9 }}",
      "{{ 9 ** 9 ** 9 }}",
      "{{ '{:1000000000}'.format(1) }}",
      "{{ '%1000000000d' % 1 }}",
      "{{ '%*d' % (1000000000, 1) }}",
      "{{ 'x'|center(10**9) }}",
      "{{ 'x'.zfill(10**9) }}",
      "{% set s = 'x' * 1000000 %}{{ range(100000)|join(s) }}",
      "{% set s = 'a' * 1000000 %}{{ s|replace('a', s) }}",
      "{% set s = 'x' * 1000000 %}{% for i in range(100) %}{{ s }}{% endfor %}",
      "{{ [1]|batch(10**9, 'x')|list }}",
      "{{ [1]|slice(10**9)|list }}",
      "{{ " + std::string(100000, '(') + "1" + std::string(100000, ')') + " }}",
      "{{ " + std::string(100000, '[') + "1" + std::string(100000, ']') + " }}",
      "{{ " + std::string(300000, '-') + "1 }}",
  };
  for (const std::string& bomb : kBombs)
    EXPECT_TRUE(fails(bomb)) << bomb.substr(0, 80) << error_of(bomb).substr(0, 80);
}

TEST(Sandbox, TheSourceHasALimit) {
  EXPECT_THROW(ChatTemplate(std::string((1 << 20) + 1, 'x'), "test"), Error);
}

}  // namespace
}  // namespace cheetah
