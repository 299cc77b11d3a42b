// SPDX-License-Identifier: MIT
#include "cluster/node/failpoints.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "base/random.h"
#include "base/text.h"
#include "cluster/node/fault_places.h"
#include "observe/event_log.h"

namespace cheetah::cluster {
namespace {

constexpr std::array<std::string_view, 7> kNames = {
    "nothing", "kill", "stop", "stall", "fail", "drop", "double"};

[[noreturn]] void refuse(std::string_view fault, std::string_view expected) {
  throw UsageError(format("CHEETAH_FAILPOINTS: {}: expected {}", printable(fault), expected));
}

std::optional<int64_t> milliseconds_of(std::string_view text) {
  const bool fine = text.ends_with("ms");
  if (!text.ends_with('s')) return std::nullopt;
  const auto number = to_integer(text.substr(0, text.size() - (fine ? 2 : 1)));
  if (!number || *number < 0 || *number > 600'000) return std::nullopt;
  return fine ? *number : *number * 1000;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw UsageError(format("CHEETAH_FAILPOINTS: {}: cannot be read", printable(path)));
  return text.str();
}

// Straight there: a process that is killed next has no time for a log of its own.
void tell(int report, std::string_view event, const std::vector<LogField>& fields) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::string line = render_log_line(LogFormat::kJson, LogLevel::kWarning, event, fields,
                               std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) +
                           "\n";
  [[maybe_unused]] const ssize_t written = ::write(report, line.data(), line.size());
}

}  // namespace

std::string_view name_of(FaultAction action) { return kNames.at(static_cast<size_t>(action)); }

Failpoints::Failpoints(const std::string& setting, int report) : report_(report) {
  if (setting.starts_with('@')) {
    file_ = setting.substr(1);
    contents_ = text_of(file_);
  }
  Faults faults = file_.empty() ? parse(setting, ';') : parse(contents_, '\n');
  faults_.swap_in(faults);
}

Failpoints::Faults Failpoints::parse(std::string_view text, char separator) {
  Faults faults;
  for (const std::string_view piece : split(text, separator)) {
    const std::string_view line = trimmed(piece);
    if (line.empty()) continue;
    const auto parts = split(line, ',');
    const size_t equals = parts[0].find('=');
    if (equals == std::string_view::npos) refuse(line, "PLACE=ACTION");
    const std::string_view place = parts[0].substr(0, equals);
    std::string_view action = parts[0].substr(equals + 1);
    Fault fault;
    if (action.starts_with("stall:")) {
      const auto time = milliseconds_of(action.substr(6));
      if (!time) refuse(line, "a time such as 2s or 300ms");
      fault.stall_ms = *time;
      action = "stall";
    } else if (action == "stall") {
      refuse(line, "stall:TIME");
    }
    for (size_t i = 1; i < kNames.size(); ++i)
      if (action == kNames[i]) fault.action = static_cast<FaultAction>(i);
    if (fault.action == FaultAction::kNothing) refuse(line, "kill, stop, stall:TIME, fail, drop or double");
    if (const std::string why = why_no_place(place, fault.action); !why.empty()) refuse(line, why);
    for (size_t i = 1; i < parts.size(); ++i) read_option(fault, parts[i]);
    faults.emplace(place, fault);
  }
  return faults;
}

void Failpoints::read_option(Fault& fault, std::string_view option) {
  const size_t equals = std::min(option.find('='), option.size());
  const std::string_view name = option.substr(0, equals);
  const std::string_view text = option.substr(std::min(equals + 1, option.size()));
  const auto whole = to_integer(text);
  const auto number = to_number(text);
  if (name == "hit" && whole && *whole >= 1) {
    fault.first_hit = *whole;
  } else if (name == "times" && whole && *whole >= 1) {
    fault.times = *whole;
  } else if (name == "seed" && whole && *whole >= 0) {
    fault.seed = static_cast<uint64_t>(*whole);
  } else if (name == "chance" && number && *number > 0 && *number <= 1) {
    fault.chance = *number;
    if (fault.times == 1) fault.times = INT64_MAX;
  } else {
    refuse(option, "hit=N, times=N, seed=N or chance=P with P up to 1");
  }
}

bool Failpoints::is_due(Fault& fault, bool alone) {
  const auto hit = static_cast<uint64_t>(fault.hits++);
  if (!alone || fault.hits < fault.first_hit || fault.injected >= fault.times) return false;
  constexpr double kWhole = 4294967296.0;
  if (fault.chance < 1 && philox_at(fault.seed, 0, hit) >= fault.chance * kWhole) return false;
  ++fault.injected;
  return true;
}

FaultAction Failpoints::hit(std::string_view place) {
  Fault due;
  faults_.with([&](Faults& faults) {
    const auto [first, last] = faults.equal_range(place);
    for (auto at = first; at != last; ++at)
      if (is_due(at->second, due.action == FaultAction::kNothing)) due = at->second;
  });
  if (due.action == FaultAction::kNothing) return due.action;
  tell(report_, "failpoint", {{"place", place}, {"action", name_of(due.action)}, {"hit", due.hits}});
  if (due.action == FaultAction::kKill) kill(getpid(), SIGKILL);
  if (due.action == FaultAction::kStop) raise(SIGSTOP);  // to this thread: none of them goes on
  if (due.action == FaultAction::kStall) std::this_thread::sleep_for(std::chrono::milliseconds(due.stall_ms));
  return due.action;
}

void Failpoints::look_again() {
  if (file_.empty()) return;
  try {
    std::string contents = text_of(file_);
    if (contents == contents_) return;
    contents_ = std::move(contents);
    Faults faults = parse(contents_, '\n');
    faults_.swap_in(faults);
    tell(report_, "failpoints_armed", {{"faults", trimmed(contents_)}});
  } catch (const Error& error) {
    tell(report_, "failpoints_refused", {{"why", error.what()}});
  }
}

}  // namespace cheetah::cluster
