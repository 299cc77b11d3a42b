// SPDX-License-Identifier: MIT
#include "cli/render_input.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"
#include "model/template/builtins.h"
#include "model/template/template_source.h"

namespace cheetah {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The clock of the person, as datetime.now() shows it: their zone's hours and minutes.
int64_t local_now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  localtime_r(&seconds, &local);
  return static_cast<int64_t>(timegm(&local));
}

int64_t time_of(const OrderedJson& value, const std::string& name) {
  if (value.is_null()) return local_now();
  if (value.is_string()) return parse_time(value.get<std::string>());
  if (value.is_number() && std::abs(value.get<double>()) < 1e15)
    return static_cast<int64_t>(value.get<double>());
  throw Error(format("{}: \"now\" must be a time like 2024-07-26T12:34:56 or seconds since 1970", name));
}

std::string string_field(const OrderedJson& input, const char* field, const std::string& name) {
  if (!input[field].is_string()) throw Error(format("{}: \"{}\" must be a string", name, field));
  return input[field].get<std::string>();
}

bool has(const OrderedJson& input, const char* field) {
  return input.contains(field) && !input[field].is_null();
}

void load_template(const OrderedJson& input, const std::string& name, RenderInput& result,
    OrderedJson& variables, const std::function<std::string(const std::string&)>& model_path) {
  if (has(input, "template")) {
    result.source = string_field(input, "template", name);
    result.name = "template";
  } else if (has(input, "template_file")) {
    result.name = string_field(input, "template_file", name);
    result.source = MappedFile::open(result.name).text();
  }
  if (has(input, "model")) {
    const bool has_tools = has(input, "tools") && !input["tools"].empty();
    const std::string path = model_path(string_field(input, "model", name));
    const bool own = !result.name.empty();
    TemplateSource found = find_chat_template(path, has_tools);
    if (!own) result.source = std::move(found.text);
    if (!own) result.name = std::move(found.name);
    for (const auto& [token, text] : found.special_tokens) variables[token] = text;
  }
  if (result.name.empty())
    throw Error(format("{}: expected \"template\", \"template_file\" or \"model\"", name));
}

}  // namespace

int64_t parse_time(const std::string& text) {
  int year = 0, hour = 0, minute = 0, second = 0, used = 0;
  unsigned month = 0, day = 0;
  const char* rest = text.c_str();
  const bool date = std::sscanf(rest, "%4d-%2u-%2u%n", &year, &month, &day, &used) == 3;
  if (date) rest += used;
  bool fine = date;
  if (fine && (*rest == 'T' || *rest == ' ')) {
    used = 0;
    const int fields = std::sscanf(rest + 1, "%2d:%2d%n:%2d%n", &hour, &minute, &used, &second, &used);
    fine = fields >= 2;
    rest += 1 + used;
    if (*rest == '.') rest += 1 + std::strspn(rest + 1, "0123456789");
  }
  if (*rest == 'Z') ++rest;
  const std::chrono::year_month_day when{
      std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
  fine = fine && *rest == '\0' && when.ok() && hour >= 0 && hour < 24 && minute >= 0 && minute < 60 &&
         second >= 0 && second < 61;
  if (!fine) throw Error(format("\"now\" is {}, expected a time like 2024-07-26T12:34:56", printable(text)));
  const auto days = std::chrono::sys_days(when).time_since_epoch().count();
  return int64_t{days} * 86400 + hour * 3600 + minute * 60 + second;
}

RenderInput read_render_input(std::string_view text, const std::string& name,
    const std::function<std::string(const std::string&)>& model_path) {
  jinja::read_json(text, name);  // says where bad syntax, bad UTF-8 and too much depth are
  const OrderedJson input = OrderedJson::parse(text);
  if (!input.is_object())
    throw Error(format("{}: expected a JSON object, found {}", name, input.type_name()));
  RenderInput result;
  OrderedJson variables = {{"tools", nullptr}, {"documents", nullptr}, {"add_generation_prompt", false}};
  load_template(input, name, result, variables, model_path);
  for (const auto& [key, value] : input.items())
    if (key != "template" && key != "template_file" && key != "model" && key != "now") variables[key] = value;
  result.variables = variables.dump();
  result.now = input.contains("now") ? time_of(input["now"], name) : local_now();
  return result;
}

}  // namespace cheetah
