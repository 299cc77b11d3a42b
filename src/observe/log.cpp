// SPDX-License-Identifier: MIT
#include "observe/log.h"

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

// From "src/" on: where the tree was when it was built does not matter.
std::string_view path_in_tree(std::string_view path) {
  const size_t at = path.rfind("src/");
  return at == std::string_view::npos ? path : path.substr(at);
}

}  // namespace

LogField::LogField(std::string_view field_name, int64_t number)
    : name(field_name), value(std::to_string(number)), is_number(true) {}

LogField::LogField(std::string_view field_name, double number)
    : name(field_name), value(format("{:.3f}", number)), is_number(true) {}

std::vector<LogField> failure_fields(const std::exception& failure) {
  std::vector<LogField> fields = {{"why", failure.what()}};
  if (const auto* error = dynamic_cast<const Error*>(&failure))
    fields.push_back(
        {"where", format("{}:{}", path_in_tree(error->where().file_name()), error->where().line())});
  return fields;
}

}  // namespace cheetah
