// SPDX-License-Identifier: MIT
#pragma once
// The kernel's log as events: what happened, to which device, how often, when, and the line that says so.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cheetah::doctor {

struct LogLine {
  int level = -1;      // of printk: 0 emergency … 3 error, 4 warning, 6 information; -1 not told
  double time_s = -1;  // since boot; -1 not told
  std::string_view text;
};

// Lines of the latest boot, in any of the forms of dmesg, /dev/kmsg and journalctl.
std::vector<LogLine> parse_log(std::string_view log);

enum class Subsystem { kGpu, kSwitch, kPcie, kStorage, kNetwork, kMemory, kKernel, kOutOfMemory };

enum class Gravity {
  kNote,       // a fault of a program, or a message of routine
  kCorrected,  // put right by the hardware: only many of them matter
  kPassing,    // it hurt when it happened; old ones are history
  kLasting,    // stays until an operator acts
};

struct LogEvent {
  Subsystem subsystem = Subsystem::kKernel;
  Gravity gravity = Gravity::kNote;
  std::string what;     // "Xid 79: the GPU fell off the bus"
  std::string culprit;  // "0000:13:00.0", "nvme0", "mlx5_0"; "" when the line names none
  std::string action;   // what to do
  std::string line;     // the latest that tells of it
  int count = 0;
  double first_s = -1, last_s = -1;
};

// Equal events of one culprit are one, in order of gravity, then of time, the latest first.
std::vector<LogEvent> log_events(std::string_view log);

// What a message means; nullopt for the thousands that mean nothing to us.
std::optional<LogEvent> event_of(const LogLine& line);

// The catalogue of a driver's error numbers.
struct CodeMeaning {
  int first, last;
  Gravity gravity;
  const char* meaning;
  const char* action;
};
std::optional<CodeMeaning> xid_meaning(int code);
std::optional<CodeMeaning> sxid_meaning(int code);

}  // namespace cheetah::doctor
