// SPDX-License-Identifier: MIT
#include "cli/settings_file.h"

#include <sys/stat.h>
#include <toml++/toml.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;

std::string place(const std::string& path, const toml::source_region& region) {
  return format("{}:{}:{}", path, region.begin.line, region.begin.column);
}

std::string scalar_text(const toml::node& node, const std::string& where) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  throw UsageError(format("{}: expected text, a number, true or false", where));
}

std::string text_of(const toml::node& node, const std::string& where) {
  const auto* list = node.as_array();
  if (!list) return scalar_text(node, where);
  std::string text;
  for (const toml::node& item : *list) {
    if (!text.empty()) text += ',';
    text += scalar_text(item, where);
  }
  return text;
}

void collect(const toml::table& table, const std::string& prefix, const std::string& path,
    std::vector<FileSetting>& out) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(std::string_view(key.str()));
    if (const auto* inner = node.as_table()) {
      collect(*inner, name + "-", path, out);
      continue;
    }
    const std::string where = place(path, node.source());
    out.push_back({name, text_of(node, where), where});
  }
}

}  // namespace

std::vector<FileSetting> read_settings_file(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0)
    throw UsageError(format("--config: {}: {}", printable(path, 256), std::strerror(errno)));
  if (!S_ISREG(info.st_mode))
    throw UsageError(format("{}: cannot be read as a configuration file", printable(path, 256)));
  if (info.st_size > kMaxFileBytes)
    throw UsageError(format(
        "{}: is larger than {} bytes, too much for a configuration", printable(path, 256), kMaxFileBytes));
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw UsageError(format("{}: cannot be read", printable(path, 256)));
  std::vector<FileSetting> settings;
  try {
    collect(toml::parse(text.str()), "", path, settings);
  } catch (const toml::parse_error& error) {
    throw UsageError(format("{}: {}", place(path, error.source()), error.description()));
  }
  return settings;
}

}  // namespace cheetah
