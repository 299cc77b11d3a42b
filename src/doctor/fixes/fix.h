// SPDX-License-Identifier: MIT
#pragma once
// What mends a finding: steps with the state that they expect and the state that undoing them brings back, or
// the sentence why none is offered. Every name in a step comes from the machine and is a plain word.
#include <string>
#include <vector>

#include "doctor/check.h"

namespace cheetah::doctor {

enum class When {
  kNow,      // at once, until the next boot
  kLasting,  // from the next boot on, or for as long as the device keeps it
};

// One change: a file that is written, a file that is made, or a command with its inverse.
struct Step {
  enum class Kind { kWrite, kCreate, kRun };
  Kind kind = Kind::kWrite;
  When when = When::kNow;
  std::string path;                        // below the root, without a leading slash
  std::string text;                        // what the file is to hold
  std::string was;                         // kWrite: all that the file held when it was read
  std::vector<std::string> command, undo;  // kRun; undo empty: nothing to put back
};

struct Fix {
  std::string advice;              // one sentence, with the machine's own names
  std::string refusal;             // why no step is offered; "" when there are steps, or none is possible
  std::vector<Step> steps;         // in this order; undone in reverse
  std::vector<std::string> notes;  // what to know before, e.g. "takes effect after a reset of the GPU"
};

// The fix of one bad outcome. `read` holds what was read from the machine, by path.
Fix fix_for(const Check& check, const Facts& facts, const Outcome& outcome, const Source& read);

// "{it}" and "{was}" filled in with the names of the subjects: "eth0, eth1 and 6 more".
std::string rendered(std::string_view pattern, const Outcome& outcome);

// One line of shell that does the step, and one that undoes it; "" when nothing is to be undone.
std::string shell_line(const Step& step);
std::string undo_line(const Step& step);
std::string quoted(std::string_view word);  // for a shell
// What writing into a file of the kernel takes: "madvise" of "always [madvise] never".
std::string setting_in(std::string_view text);

// Collects the steps of one fix; what cannot be undone from what was read is left out, with a note.
class FixBuilder {
 public:
  FixBuilder(const Facts& of, const Outcome& found, const Source& read, Fix& fix)
      : facts(of), outcome(found), read_(read), fix_(fix) {}

  const Facts& facts;
  const Outcome& outcome;

  std::string text_of(const std::string& path) const;  // "" when it was not read
  bool has_unit(std::string_view service) const;
  void write(const std::string& path, const std::string& value);
  void create(const std::string& path, const std::string& text);
  void run(When when, std::vector<std::string> command, std::vector<std::string> undo);
  void sysctl(std::string_view check, const std::string& name, const std::string& value);
  void load_module(const std::string& module);
  void start(const std::string& service);  // now and at each boot
  void note(std::string text) { fix_.notes.push_back(std::move(text)); }
  void refuse(std::string why);
  void advise(std::string text) { fix_.advice = std::move(text); }
  bool is_refused() const { return !fix_.refusal.empty(); }

 private:
  const Source& read_;
  Fix& fix_;
};

using Planner = void (*)(FixBuilder&);
struct PlannerOf {
  std::string_view check;
  Planner plan;
};
std::span<const PlannerOf> host_fixes();
std::span<const PlannerOf> device_fixes();
std::span<const PlannerOf> gpu_fixes();

}  // namespace cheetah::doctor
