// SPDX-License-Identifier: MIT
#pragma once
// Machines for the tests: tests/doctor/server.tree and what the lines of cases.txt do to it.
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "doctor/collect.h"
#include "doctor/snapshot.h"

namespace cheetah::doctor {

inline std::string read_test_file(const std::string& name) {
  std::ifstream file(std::string(CHEETAH_SOURCE_DIR "/tests/doctor/") + name, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// "a{1-3}" and "x" with <1> -> a1, a2, a3, each with what its braces became filled in.
inline std::vector<std::pair<std::string, std::string>> expanded(
    const std::string& path, const std::string& text, int depth = 1) {
  const size_t open = path.find('{'), close = path.find('}');
  if (open == std::string::npos || close == std::string::npos) return {{path, text}};
  std::vector<std::string> values;
  const std::string inside = path.substr(open + 1, close - open - 1);
  const size_t dash = inside.find('-');
  const auto first = to_integer(inside.substr(0, dash));
  if (dash != std::string::npos && first)
    for (int64_t i = *first; i <= to_integer(inside.substr(dash + 1)).value_or(*first); ++i)
      values.push_back(std::to_string(i));
  else
    for (const std::string_view part : split(inside, ',')) values.emplace_back(part);
  const std::string mark = "<" + std::to_string(depth) + ">";
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string& value : values) {
    const std::string filled =
        replace_all(path.substr(0, open) + value + path.substr(close + 1), mark, value);
    for (auto& entry : expanded(filled, replace_all(text, mark, value), depth + 1))
      all.push_back(std::move(entry));
  }
  return all;
}

// Lines "%OFFSET HEX" as bytes.
inline std::string binary_text(const std::string& text) {
  std::string bytes;
  for (const std::string_view line : lines_of(text)) {
    const auto words = words_of(line);
    const size_t offset = std::stoul(std::string(words[0].substr(1)), nullptr, 16);
    const std::string hex(words[1]);
    if (bytes.size() < offset + hex.size() / 2) bytes.resize(offset + hex.size() / 2, '\0');
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
      bytes[offset + i / 2] = static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

inline std::string file_text(const std::string& text) {
  return text.starts_with('%') ? binary_text(text) : text;
}

inline void load_tree(const std::string& tree, MemorySource& source) {
  std::string path, text;
  const auto finish = [&] {
    if (!path.empty())
      for (const auto& [name, content] : expanded(path, text)) source.set(name, file_text(content));
    path.clear();
    text.clear();
  };
  for (const std::string_view line : lines_of(tree)) {
    if (line.starts_with("#")) continue;
    if (line.starts_with("== ")) {
      finish();
      path = std::string(line.substr(3));
    } else if (line.starts_with("-> ")) {
      finish();
      const auto words = words_of(line);
      for (const auto& [name, target] : expanded(std::string(words[1]), std::string(words[2])))
        source.set_link(name, target);
    } else if (!path.empty() && !(line.empty() && text.empty())) {
      text += std::string(line) + "\n";
    }
  }
  finish();
}

struct Machine {
  std::shared_ptr<MemorySource> source = std::make_shared<MemorySource>();
  Intent intent;

  static Machine healthy() {
    static const MemorySource kServer = [] {
      MemorySource server;
      load_tree(read_test_file("server.tree"), server);
      load_tree(read_test_file("tools.tree"), server);
      return server;
    }();
    Machine machine;
    *machine.source = kServer;
    machine.intent = {.purpose = Purpose::kTrain,
        .multi_node = true,
        .pid = "4242",
        .data_path = "/data",
        .checkpoint_path = "/ckpt",
        .binary = "",
        .config = "etc/job.yaml"};
    return machine;
  }
  Facts facts() const;
};

// "begin,end,category,name,bytes" lines as Chrome's JSON.
inline std::string trace_json(const std::string& csv) {
  std::string events;
  for (const std::string_view line : lines_of(csv)) {
    const auto cells = split(line, ',');
    if (cells.size() < 5) continue;
    const double begin = to_number(cells[0]).value_or(0), end = to_number(cells[1]).value_or(0);
    events += format(
        "{}{{\"ph\":\"X\",\"ts\":{},\"dur\":{},\"cat\":\"{}\",\"name\":\"{}\",\"args\":{{\"bytes\":{}}}}}",
        events.empty() ? "" : ",", begin, end - begin, cells[2], cells[3], cells[4]);
  }
  return "{\"traceEvents\":[" + events + "]}";
}

inline Facts Machine::facts() const {
  Facts facts =
      collect(source, intent, {.layer_limit = std::chrono::seconds(60), .counter_interval = {}}).facts;
  const auto text = [&](const char* name) { return source->read(name, kMaxFileBytes); };
  if (text("pod.yaml").ok()) facts.pod = read_pods(text("pod.yaml").text, "pod.yaml");
  if (text("metrics.txt").ok()) {
    facts.engine = EngineFacts{.now = Metrics::parse(text("metrics.txt").text),
        .before = {},
        .interval_s = 10,
        .source = "metrics.txt",
        .slo_ttft_s = 1,
        .slo_itl_s = 0.05};
    if (text("metrics0.txt").ok()) facts.engine->before = Metrics::parse(text("metrics0.txt").text);
  }
  facts.profile = text("run.log").ok() ? read_log(text("run.log").text, "run.log") : ProfileFacts{};
  facts.profile->source = "trace.json";
  if (text("trace.csv").ok()) {
    Timeline timeline = read_chrome_trace(trace_json(text("trace.csv").text), "trace.json");
    timeline.page_faults = to_number(text("faults").text).value_or(0);
    facts.profile->timeline = {summarize(timeline), "trace.json"};
  }
  if (text("counters.csv").ok())
    facts.profile->counters = {read_ncu_csv(text("counters.csv").text), "counters.csv"};
  if (text("expect.yaml").ok()) facts.expected = parse_expected(text("expect.yaml").text, "expect.yaml");
  for (const auto& [name, value] : fields_of(text("before.txt").text, '='))
    if (const auto number = to_number(value)) facts.measured_before[name] = *number;
  if (text("trends.txt").ok()) facts.trends = parse_trends(text("trends.txt").text);
  if (text("measured.txt").ok()) facts.measured = parse_measured(text("measured.txt").text);
  return facts;
}

// A program with machine code for one architecture in a fat binary.
inline std::string fat_binary(int arch) {
  std::string entry(64, '\0');
  entry[0] = 2;
  entry[4] = 64;
  entry[8] = 8;
  entry[28] = static_cast<char>(arch);
  entry += "machine!";
  std::string header("\x50\xed\x55\xba\x01\x00\x10\x00", 8);
  header += std::string(1, static_cast<char>(entry.size())) + std::string(7, '\0');
  return "ELF…" + header + entry;
}

inline std::string unescaped(std::string text) {
  if (text.starts_with("<fatbin:")) return fat_binary(std::stoi(text.substr(8)));
  if (text.starts_with("<kernels:")) {  // count : period : duration : name [: host call]
    const auto parts = split(std::string_view(text).substr(0, text.size() - 1), ':');
    std::string csv = "0,1,cuda_runtime,cudaGetDevice,0\n";
    const double period = *to_number(parts[2]), duration = *to_number(parts[3]);
    for (int i = 0; i < to_integer(parts[1]); ++i) {
      csv += format("{},{},kernel,{},0\n", i * period, i * period + duration, parts[4]);
      if (parts.size() > 5) csv += format("{},{},cuda_runtime,{},0\n", i * period, i * period + 1, parts[5]);
    }
    return csv;
  }
  if (text.starts_with("<repeat:")) {
    const size_t colon = text.find(':', 8);
    std::string all;
    for (int i = 0; i < std::stoi(text.substr(8)); ++i)
      all += text.substr(colon + 1, text.size() - colon - 2) + "\n";
    return all;
  }
  return replace_all(replace_all(std::move(text), "\\n", "\n"), "\\t", "\t");
}

// One operation of cases.txt; false when it is not understood or changes nothing it should.
inline bool apply(const std::string& operation, Machine& machine) {
  std::istringstream words(operation);
  std::string verb, path;
  words >> verb >> path;
  std::string rest;
  std::getline(words, rest);
  if (!rest.empty()) rest = rest.substr(1);
  MemorySource& source = *machine.source;
  if (verb == "same") return true;
  if (verb == "set") return source.set(path, file_text(unescaped(rest))), true;
  if (verb == "add")
    return source.set(path, source.read(path, kMaxFileBytes).text + unescaped(rest) + "\n"), true;
  if (verb == "link") return source.set_link(path, rest), true;
  if (verb == "cut") return source.remove(path), true;
  if (verb == "drop") {
    std::vector<std::string> gone;
    for (const auto& [name, text] : source.texts())
      if (contains(name, path)) gone.push_back(name);
    for (const std::string& name : gone) source.remove(name);
    return !gone.empty();
  }
  if (verb == "sub") {
    const auto parts = split(rest, '|');
    const std::string before = source.read(path, kMaxFileBytes).text;
    if (parts.size() < 3) return false;
    const std::string after =
        replace_all(before, unescaped(std::string(parts[1])), unescaped(std::string(parts[2])));
    source.set(path, after);
    return after != before || parts[1] == parts[2];
  }
  if (verb != "intent") return false;
  if (path == "purpose") machine.intent.purpose = purpose_named(rest);
  if (path == "multi_node") machine.intent.multi_node = rest == "yes";
  if (path == "pid") machine.intent.pid = rest;
  if (path == "data") machine.intent.data_path = rest;
  if (path == "checkpoints") machine.intent.checkpoint_path = rest;
  if (path == "binary") machine.intent.binary = rest;
  if (path == "config") machine.intent.config = rest;
  return true;
}

struct CheckCase {
  std::string id;
  std::vector<std::string> good, bad, not_applicable;
};

inline std::vector<CheckCase> read_cases(const std::string& file) {
  std::vector<CheckCase> cases;
  const std::string text = read_test_file(file);
  for (const std::string_view line : lines_of(text)) {
    if (line.empty() || line.starts_with("#")) continue;
    if (line[0] != ' ') {
      cases.push_back({std::string(trimmed(line)), {}, {}, {}});
      continue;
    }
    const std::string_view start = line.substr(2);
    const size_t blank = start.find(' ');
    const std::string_view kind = start.substr(0, blank);
    auto& operations = kind == "good"  ? cases.back().good
                       : kind == "bad" ? cases.back().bad
                                       : cases.back().not_applicable;
    operations.emplace_back(start.substr(blank + 1));
  }
  return cases;
}

}  // namespace cheetah::doctor
