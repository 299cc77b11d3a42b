// SPDX-License-Identifier: MIT
#pragma once
// Reads one table of a TOML text into plain members. A key that is not asked for is an error, so a misspelt one
// cannot be overlooked. Included by one file: toml++ is slow to compile.
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::cluster {

template <class T>
struct Named {
  std::string_view name;
  T value;
};

class TableReader {
 public:
  TableReader(const toml::table& table, std::string path, const std::string& what)
      : table_(table), path_(std::move(path)), what_(what) {}

  void number(std::string_view key, double& out, double low, double high) {
    const toml::node* node = find(key);
    if (!node) return;
    const auto value = node->is_number() ? node->value<double>() : std::nullopt;
    if (!value || !std::isfinite(*value) || *value < low || *value > high)
      fail(*node, key, format("expected a number from {} to {}", low, high));
    out = *value;
  }
  void share(std::string_view key, double& out) {
    const toml::node* node = find(key);
    if (!node) return;
    const auto value = node->is_number() ? node->value<double>() : std::nullopt;
    if (!value || !(*value >= 0) || *value > 1)
      fail(*node, key, "expected a share from 0 to 1 (0.8 rather than 80)");
    out = *value;
  }
  void integer(std::string_view key, int64_t& out, int64_t low, int64_t high) {
    const toml::node* node = find(key);
    if (!node) return;
    const auto* value = node->as_integer();
    if (!value || value->get() < low || value->get() > high)
      fail(*node, key, format("expected a whole number from {} to {}", low, high));
    out = value->get();
  }
  void integer(std::string_view key, int32_t& out, int32_t low, int32_t high) {
    int64_t wide = out;
    integer(key, wide, low, high);
    out = static_cast<int32_t>(wide);
  }
  void milliseconds(std::string_view key, int64_t& out) { integer(key, out, 0, 86'400'000); }
  void flag(std::string_view key, bool& out) {
    const toml::node* node = find(key);
    if (!node) return;
    if (!node->is_boolean()) fail(*node, key, "expected true or false");
    out = node->as_boolean()->get();
  }
  void text(std::string_view key, std::string& out) {
    const toml::node* node = find(key);
    if (!node) return;
    if (!node->is_string() || node->as_string()->get().size() > 256)
      fail(*node, key, "expected text of at most 256 bytes");
    out = node->as_string()->get();
  }
  template <class T, size_t N>
  void choice(std::string_view key, T& out, const Named<T> (&choices)[N]) {
    const toml::node* node = find(key);
    if (!node) return;
    std::string all;
    for (const Named<T>& c : choices) {
      if (node->is_string() && node->as_string()->get() == c.name) {
        out = c.value;
        return;
      }
      all += (all.empty() ? "" : ", ") + std::string(c.name);
    }
    fail(*node, key, "expected one of " + all);
  }
  void table(std::string_view key, const std::function<void(TableReader&)>& read) {
    const toml::node* node = find(key);
    if (!node) return;
    if (!node->is_table()) fail(*node, key, "expected a table");
    TableReader inner(*node->as_table(), path_of(key) + ".", what_);
    read(inner);
    inner.done();
  }
  // An array of tables; what `out` held before is replaced.
  template <class T>
  void tables(std::string_view key, std::vector<T>& out, const std::function<void(TableReader&, T&)>& read) {
    const toml::node* node = find(key);
    if (!node) return;
    const toml::array* list = node->as_array();
    if (!list || list->size() > kMaxTables || !std::ranges::all_of(*list, &toml::node::is_table))
      fail(*node, key, format("expected at most {} tables", kMaxTables));
    out.clear();
    for (const toml::node& item : *list) {
      TableReader inner(*item.as_table(), path_of(key) + ".", what_);
      read(inner, out.emplace_back());
      inner.done();
    }
  }
  void done() const {
    for (const auto& [key, node] : table_)
      if (!asked_.contains(std::string(key.str())))
        fail(node, key.str(), "is not known; known here: " + known());
  }
  [[noreturn]] void fail(const toml::node& node, std::string_view key, const std::string& expected) const {
    const auto at = node.source().begin;
    throw Error(format("{}:{}:{}: {}: {}", what_, at.line, at.column, printable(path_of(key)), expected));
  }
  [[noreturn]] void fail(std::string_view key, const std::string& expected) const {
    const toml::node* node = table_.get(key);
    fail(node ? *node : table_, key, expected);
  }

 private:
  static constexpr size_t kMaxTables = 1000;
  const toml::node* find(std::string_view key) {
    asked_.insert(std::string(key));
    return table_.get(key);
  }
  std::string path_of(std::string_view key) const { return path_ + std::string(key); }
  std::string known() const {
    std::string all;
    for (const std::string& key : asked_) all += (all.empty() ? "" : ", ") + key;
    return all;
  }

  const toml::table& table_;
  std::string path_;
  const std::string& what_;
  std::set<std::string> asked_;
};

}  // namespace cheetah::cluster
