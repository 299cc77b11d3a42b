#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The checkers of the house find what they look for, on sources written for them."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(SOURCE / "tests"))
import class_sizes  # noqa: E402
import docs_width  # noqa: E402
import include_direction  # noqa: E402

CLASS = """
// class Comment { int no; };
class Pages final : public Base {
 public:
  explicit Pages(int pages) : pages_(pages) { run(); }
  Pages(const Pages&) = delete;
  int pages() const { return pages_; }
  std::map<std::string, int> names(const std::string& text, int most = 3) const;
  template <class T>
  void add(T value) {
    for (int i = 0; i < 3; ++i) { use(value); }
  }
  bool operator==(const Pages&) const = default;

  struct Row {
    int a, b;
  };
  enum class Kind { kOne, kTwo };

 private:
  using Rows = std::vector<Row>;
  static constexpr int kMost = 3;
  int pages_ = 0;
  std::function<void(int)> on_page_;
  std::map<std::string, Row> rows_{{"a", {}}};
  std::array<int, 3> counts_{}, totals_{};  // ; not; these { }
  char letter_ = ';';
};
"""


class ClassSizes(unittest.TestCase):
    def sizes(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".h") as file:
            file.write(text)
            file.flush()
            return {name: counts for name, *counts in class_sizes.classes(pathlib.Path(file.name))}

    def test_methods_and_data_members_are_counted(self):
        found = self.sizes(CLASS)
        self.assertEqual([4, 6], found["Pages"])
        self.assertEqual([0, 2], found["Row"])
        self.assertNotIn("Comment", found)
        self.assertNotIn("Kind", found)

    def test_a_class_of_many_methods_is_counted_to_the_last(self):
        body = "".join(f"  void method_{i}(int a = f(1, 2));\n" for i in range(41))
        self.assertEqual([41, 0], self.sizes(f"class Large {{\n public:\n{body}}};\n")["Large"])


class IncludeDirection(unittest.TestCase):
    def cycles(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                path = root / "src" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            old = include_direction.ROOT, include_direction.SRC
            include_direction.ROOT, include_direction.SRC = root, root / "src"
            try:
                return list(include_direction.check_folder_cycles(include_direction.sources()))
            finally:
                include_direction.ROOT, include_direction.SRC = old

    def test_two_folders_that_include_each_other_are_found(self):
        found = self.cycles({"serve/a/one.h": '#include "serve/b/two.h"\n', "serve/b/two.cpp": '#include "serve/a/one.h"\n'})
        self.assertEqual(1, len(found), found)
        self.assertIn("serve/a, serve/b", found[0])

    def test_a_ring_of_three_is_one_finding(self):
        found = self.cycles({f"serve/{a}/x.h": f'#include "serve/{b}/x.h"\n' for a, b in ("ab", "bc", "ca")})
        self.assertEqual(1, len(found), found)

    def test_tests_and_one_way_includes_are_no_cycle(self):
        found = self.cycles({"serve/a/one.h": '#include "serve/b/two.h"\n', "serve/b/two_test.cpp": '#include "serve/a/one.h"\n',
                             "serve/b/three.cpp": '#include "serve/a/one.h"\n',
                             "serve/b/CMakeLists.txt": "cheetah_tests(serve three.cpp)\n", "serve/b/two.h": ""})
        self.assertEqual([], found)


class DocsWidth(unittest.TestCase):
    def test_paragraphs_and_items_are_wrapped_and_keep_their_words(self):
        words = " ".join(f"word{i}" for i in range(60))
        for lead in ("", "- ", "2. "):
            lines = docs_width.wrapped([lead + words])
            self.assertLessEqual(max(map(len, lines)), docs_width.WIDTH)
            self.assertEqual(words.split(), " ".join(lines)[len(lead):].split())

    def test_code_in_backticks_is_not_broken(self):
        lines = docs_width.wrapped(["x" * 100 + " `cheetah serve --model cub-7m --port 8000` end"])
        self.assertTrue(any("`cheetah serve --model cub-7m --port 8000`" in line for line in lines))

    def test_code_and_tables_keep_their_lines(self):
        long = "x " * 100
        kept = [block for is_text, block in docs_width.blocks(["```", long, "```", "| " + long, "# " + long, long]) if not is_text]
        self.assertEqual(5, len(kept))


class Build(unittest.TestCase):
    def test_make_alone_prints_help(self):
        shown = subprocess.run(["make", "-s"], cwd=SOURCE, capture_output=True, text=True, check=True).stdout
        for command in ("make run", "make test", "make install", "make package"):
            self.assertIn(command, shown)

    def test_running_needs_nothing_that_only_tests_use(self):
        run, test = (SOURCE / "scripts" / "packages.txt").read_text().split("[test]\n")
        for package in ("chromium", "nodejs", "etcd-server", "nats-server", "clang", "libgtest-dev"):
            self.assertNotIn(f"\n{package}\n", run)
            self.assertIn(f"{package}\n", test)

    def test_an_unknown_part_is_refused(self):
        refused = subprocess.run([SOURCE / "scripts" / "setup.sh", "all"], capture_output=True, text=True)
        self.assertEqual((2, ""), (refused.returncode, refused.stdout))


if __name__ == "__main__":
    unittest.main()
