// SPDX-License-Identifier: MIT
// Every render of the reference templates, when CHEETAH_REFERENCE_DIR names a folder that has them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "model/template/chat_template.h"

namespace cheetah {
namespace {

using OrderedJson = nlohmann::ordered_json;  // templates print mappings in the order they were given

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

OrderedJson variables_of(const OrderedJson& item, const OrderedJson& cases) {
  OrderedJson variables = {{"tools", nullptr}, {"documents", nullptr}};
  variables.update(cases["cases"][item["inputs"]["case_ref"].get<std::string>()]);
  for (const auto& [name, value] : item["inputs"].items())
    if (name != "case_ref") variables[name] = value;
  return variables;
}

void check(const OrderedJson& item, const std::string& source, const OrderedJson& variables) {
  constexpr int64_t kNow = 1721997296;  // 2024-07-26T12:34:56, the `now` of cases.json
  std::string rendered;
  std::string error;
  try {
    rendered = ChatTemplate(source, item["template"].get<std::string>()).render(variables.dump(), kNow);
  } catch (const Error& problem) {
    error = problem.what();
  }
  if (item.contains("output")) {
    EXPECT_EQ(rendered, item["output"].get<std::string>()) << error;
  } else {
    EXPECT_NE(error.find(item["error"].get<std::string>()), std::string::npos)
        << "expected the error " << item["error"] << ", got \"" << error << "\" and the text " << rendered;
  }
}

TEST(TemplateGoldens, EveryReferenceRenderIsReproducedExactly) {
  const char* reference = std::getenv("CHEETAH_REFERENCE_DIR");
  if (!reference || !std::filesystem::exists(std::filesystem::path(reference) / "templates"))
    GTEST_SKIP() << "CHEETAH_REFERENCE_DIR has no templates";
  const std::filesystem::path root = std::filesystem::path(reference) / "templates";
  const OrderedJson cases = OrderedJson::parse(read_text(root / "cases.json"));
  int renders = 0;
  for (const auto& file : std::filesystem::directory_iterator(root / "goldens")) {
    for (const OrderedJson& item : OrderedJson::parse(read_text(file.path()))) {
      SCOPED_TRACE(item["template"].get<std::string>() + " " + item["case"].get<std::string>());
      check(item, read_text(root / "jinja" / item["template"].get<std::string>()), variables_of(item, cases));
      ++renders;
    }
  }
  EXPECT_GT(renders, 0);
}

}  // namespace
}  // namespace cheetah
