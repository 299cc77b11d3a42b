// SPDX-License-Identifier: MIT
#pragma once
// Whole machines for the tests: tests/doctor/hosts/*.host, a few lines each, expanded with the parts below
// parts/. See tests/doctor/hosts/README.md for the form.
#include <filesystem>

#include "doctor/fixture.h"

namespace cheetah::doctor {

using Keys = std::map<std::string, std::string>;

// name=value pairs; a value in quotes may hold blanks, elsewhere ~ stands for one.
inline Keys keys_of(std::string_view line) {
  Keys keys;
  size_t at = 0;
  while (at < line.size()) {
    const size_t equals = line.find('=', at);
    if (equals == std::string_view::npos) break;
    const std::string name(trimmed(line.substr(at, equals - at)));
    const bool quoted = equals + 1 < line.size() && line[equals + 1] == '"';
    size_t end = quoted ? line.find('"', equals + 2) : line.find(' ', equals);
    if (end == std::string_view::npos) end = line.size();
    const size_t begin = equals + (quoted ? 2 : 1);
    std::string value(line.substr(begin, end - begin));
    keys[name] = quoted ? value : replace_all(std::move(value), "~", " ");
    at = end + 1;
  }
  return keys;
}

class HostBuilder {
 public:
  explicit HostBuilder(Machine& machine) : machine_(machine) {}

  void build(const std::string& text, Keys keys, int depth = 0) {
    std::string path, content, mode;
    const auto finish = [&] {
      if (!path.empty()) write(path, content, mode == "++");
      path.clear();
      content.clear();
    };
    for (const std::string_view raw : lines_of(text)) {
      if (raw.starts_with("#")) continue;
      const std::string line = filled(std::string(raw), keys);
      const std::string verb = line.substr(0, line.find(' '));
      const std::string rest = line.size() > verb.size() ? line.substr(verb.size() + 1) : "";
      if (verb == "default") {
        for (const auto& [name, value] : keys_of(rest)) keys.emplace(name, value);
      } else if (verb == "let") {
        for (const auto& [name, value] : keys_of(rest)) keys[name] = value;
      } else if (verb == "use") {
        finish();
        include(rest, keys, depth);
      } else if (verb == "intent" || verb == "cut") {
        finish();
        if (!apply(line, machine_)) throw Error("not understood: " + line);
      } else if (verb == "==" || verb == "++") {
        finish();
        mode = verb;
        path = rest;
      } else if (verb == "->") {
        finish();
        link(rest);
      } else if (!path.empty() && !(line.empty() && content.empty())) {
        content += line + "\n";
      }
    }
    finish();
  }

 private:
  static std::string filled(std::string text, const Keys& keys) {
    for (const auto& [name, value] : keys) text = replace_all(std::move(text), "$" + name + "$", value);
    return text;
  }

  void include(const std::string& rest, const Keys& keys, int depth) {
    if (depth > 8) throw Error("parts include each other");
    const std::string part = rest.substr(0, rest.find(' '));
    Keys inner = keys_of(rest.size() > part.size() ? std::string_view(rest).substr(part.size() + 1) : "");
    inner.insert(keys.begin(), keys.end());
    build(read_test_file("hosts/parts/" + part + ".tree"), std::move(inner), depth + 1);
  }

  void link(const std::string& rest) {
    const auto words = words_of(rest);
    if (words.size() < 2) throw Error("a link needs a path and a target: " + rest);
    for (const auto& [name, target] : expanded(std::string(words[0]), std::string(words[1])))
      machine_.source->set_link(name, target);
  }

  void write(const std::string& path, const std::string& content, bool append) {
    for (const auto& [name, text] : expanded(path, content)) {
      if (name.find('$') != std::string::npos || text.find("$\n") != std::string::npos)
        throw Error("a key has no value: " + name + ": " + text);
      machine_.source->set(
          name, (append ? machine_.source->read(name, kMaxFileBytes).text : "") + file_text(text));
    }
  }

  Machine& machine_;
};

inline Machine read_host(const std::string& name) {
  Machine machine;
  machine.intent.purpose = Purpose::kTrain;
  HostBuilder(machine).build(read_test_file("hosts/" + name + ".host"), {{"host", name}});
  return machine;
}

inline std::vector<std::string> host_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(CHEETAH_SOURCE_DIR "/tests/doctor/hosts"))
    if (entry.path().extension() == ".host") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

// "CHECK culprit | operation | operation" below the name of a host.
struct HostFault {
  std::string host, check, culprit;
  std::vector<std::string> operations;
};

inline std::vector<HostFault> host_faults(const std::string& file) {
  std::vector<HostFault> faults;
  std::string host;
  const std::string text = read_test_file("hosts/" + file);
  for (const std::string_view line : lines_of(text)) {
    if (trimmed(line).empty() || line.starts_with("#")) continue;
    if (line[0] != ' ') {
      host = std::string(trimmed(line));
      continue;
    }
    const size_t bar = line.find(" | ");
    const auto head = words_of(line.substr(0, bar));
    HostFault fault{host, std::string(head.at(0)),
        head.size() > 1 ? replace_all(std::string(head[1]), "~", " ") : "", {}};
    for (size_t at = bar; at != std::string_view::npos;) {
      const size_t next = line.find(" | ", at + 3);
      fault.operations.emplace_back(
          line.substr(at + 3, next == std::string_view::npos ? next : next - at - 3));
      at = next;
    }
    faults.push_back(std::move(fault));
  }
  return faults;
}

}  // namespace cheetah::doctor
