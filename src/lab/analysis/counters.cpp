// SPDX-License-Identifier: MIT
#include "lab/analysis/counters.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"

namespace cheetah::analysis {
namespace {

constexpr size_t kMaxKernels = 10000;

// Words of nvprof and of the graphical tools for what ncu calls otherwise.
constexpr std::pair<std::string_view, std::string_view> kStallWords[] = {
    {"memory_dependency", "long_scoreboard"},
    {"exec_dependency", "wait"},
    {"execution_dependency", "wait"},
    {"memory_throttle", "lg_throttle"},
    {"pipe_busy", "math_pipe_throttle"},
    {"compute_unit_busy", "math_pipe_throttle"},
    {"sync", "barrier"},
    {"synchronization", "barrier"},
    {"inst_fetch", "no_instruction"},
    {"instruction_fetch", "no_instruction"},
    {"no_instructions", "no_instruction"},
    {"constant_memory_dependency", "imc_miss"},
    {"texture", "tex_throttle"},
    {"texture_throttle", "tex_throttle"},
};

bool is_counter(std::string_view name) {
  return std::ranges::any_of(counter_names(), [&](const CounterName& c) { return c.name == name; });
}

std::map<std::string, double, std::less<>> numbers_of(const Json& object, const std::string& what) {
  std::map<std::string, double, std::less<>> numbers;
  for (const auto& [name, value] : object.items()) {
    if (value.is_null()) continue;
    numbers[name] = value.is_boolean() ? (value.get<bool>() ? 1 : 0) : JsonFields(object, what).number(name);
  }
  return numbers;
}

const Json& object_of(const Json& kernel, const char* field, const std::string& what) {
  static const Json kNone = Json::object();
  const auto found = kernel.find(field);
  if (found == kernel.end() || found->is_null()) return kNone;
  if (!found->is_object()) throw Error(format("{}: {}: expected an object of numbers", what, field));
  return *found;
}

Counters kernel_from_json(const Json& kernel, const std::string& what) {
  const JsonFields fields(kernel, what);
  Counters counters;
  counters.name = printable(fields.string_or("name", "kernel"), 200);
  counters.values = numbers_of(object_of(kernel, "counters", what), what + ".counters");
  for (const auto& [name, value] : counters.values)
    if (!is_counter(name))
      throw Error(format(
          "{}: '{}' is not a counter; 'cheetah lab diagnose --counters' lists them", what, printable(name)));
  for (const auto& [reason, share] : numbers_of(object_of(kernel, "stalls", what), what + ".stalls"))
    counters.stalls[normal_stall(reason)] += share;
  return counters;
}

}  // namespace

Number Counters::operator[](std::string_view counter) const {
  CHEETAH_ASSERT(is_counter(counter), "a rule asks for a counter that does not exist");
  const auto found = values.find(counter);
  return found == values.end() ? Number() : Number(found->second);
}

Number Counters::stall(std::string_view reason) const {
  if (stalls.empty()) return std::nullopt;
  const auto found = stalls.find(reason);
  return found == stalls.end() ? 0 : found->second;
}

std::string Counters::top_stall() const {
  std::string top;
  double most = 0;
  for (const auto& [reason, share] : stalls)
    if (reason != "not_selected" && reason != "selected" && share > most) most = share, top = reason;
  return top;
}

std::string normal_stall(std::string_view reason) {
  std::string word;
  for (const char c : reason)
    word += c == ' ' || c == '-' ? '_' : static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  if (word.starts_with("stall_")) word.erase(0, 6);
  for (const auto& [old, now] : kStallWords)
    if (word == old) return std::string(now);
  return word;
}

std::vector<Counters> counters_from_json(const Json& document, const std::string& what) {
  const JsonFields fields(document, what);
  const Json* kernels = fields.find("kernels");
  if (kernels == nullptr || !kernels->is_array())
    throw Error(format("{}: expected an object with a list 'kernels'", what));
  if (kernels->size() > kMaxKernels) throw Error(format("{}: more than {} kernels", what, kMaxKernels));
  std::vector<Counters> all;
  for (size_t i = 0; i < kernels->size(); ++i)
    all.push_back(kernel_from_json((*kernels)[i], format("{}: kernels[{}]", what, i)));
  return all;
}

}  // namespace cheetah::analysis
