// SPDX-License-Identifier: MIT
#include "doctor/fixes/fix.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::doctor {
namespace {

constexpr size_t kMaxNamed = 6;
constexpr size_t kMaxSteps = 8192;

// Names come from the machine, perhaps from a hostile one: what is not plainly a word is not acted on.
bool is_word(std::string_view word) {
  return !word.empty() && word.size() < 512 && !contains(word, "/../") &&
         std::all_of(word.begin(), word.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 ||
                  contains("_.:/@-,+=", std::string_view(reinterpret_cast<char*>(&c), 1));
         });
}

bool is_plain(std::string_view word) { return is_word(word) && word[0] != '-'; }

bool is_safe_word(std::string_view word) {
  return word.size() < 512 &&
         std::all_of(word.begin(), word.end(), [](unsigned char c) { return c >= 32 && c < 127; });
}

std::string replaced(std::string_view pattern, std::string_view mark, std::string_view by) {
  std::string text(pattern);
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + by.size()))
    text.replace(at, mark.size(), by);
  return text;
}

std::string list_of(const std::vector<Subject>& subjects, std::string Subject::*part) {
  std::string list;
  size_t named = 0;
  for (const Subject& subject : subjects) {
    const std::string name = printable(subject.*part, 120);
    if (name.empty()) continue;
    if (++named <= kMaxNamed) list += (list.empty() ? "" : ", ") + name;
  }
  if (named > kMaxNamed) list += format(" and {} more", named - kMaxNamed);
  return list;
}

std::string joined(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + quoted(word);
  return line;
}

std::string one_line(std::string_view text) { return std::string(trimmed(text)); }

std::string write_line(const std::string& path, std::string_view text) {
  constexpr std::string_view kSysctl = "proc/sys/";
  if (starts_with(path, kSysctl))
    return format(
        "sysctl -w {}={}", replaced(path.substr(kSysctl.size()), "/", "."), quoted(setting_in(text)));
  return format("echo {} > /{}", quoted(setting_in(text)), path);
}

}  // namespace

std::string rendered(std::string_view pattern, const Outcome& outcome) {
  if (!contains(pattern, "{it}") && !contains(pattern, "{was}")) return std::string(pattern);
  const std::string names = list_of(outcome.subjects, &Subject::name),
                    was = list_of(outcome.subjects, &Subject::was);
  return replaced(replaced(pattern, "{it}", names.empty() ? "the device" : names), "{was}", was);
}

std::string quoted(std::string_view word) {
  if (is_word(word)) return std::string(word);
  return "'" + replaced(word, "'", "'\\''") + "'";
}

std::string setting_in(std::string_view text) {
  const std::string_view line = trimmed(text.substr(0, text.find('\n')));
  const size_t open = line.find('['), close = line.find(']', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos) return std::string(line);
  return std::string(line.substr(open + 1, close - open - 1));
}

std::string shell_line(const Step& step) {
  if (step.kind == Step::Kind::kRun) return joined(step.command);
  if (step.kind == Step::Kind::kWrite) return write_line(step.path, step.text);
  return format("echo {} > /{}", quoted(one_line(step.text)), step.path);
}

std::string undo_line(const Step& step) {
  if (step.kind == Step::Kind::kRun) return joined(step.undo);
  if (step.kind == Step::Kind::kWrite) return write_line(step.path, step.was);
  return format("rm /{}", step.path);
}

std::string FixBuilder::text_of(const std::string& path) const {
  const Text text = read_.read(path, kMaxFileBytes);
  return text.ok() ? text.text : "";
}

bool FixBuilder::has_unit(std::string_view service) const {
  return std::find(facts.settings.services.begin(), facts.settings.services.end(), service) !=
         facts.settings.services.end();
}

void FixBuilder::write(const std::string& path, const std::string& value) {
  const std::string was = text_of(path);
  if (was.empty() || !is_plain(path) || !is_safe_word(value) || !is_safe_word(setting_in(was))) {
    note(format(
        "/{} was not read, so that a change could not be undone: it is left alone", printable(path, 120)));
    return;
  }
  if (setting_in(was) == value || fix_.steps.size() >= kMaxSteps) return;
  fix_.steps.push_back({Step::Kind::kWrite, When::kNow, path, value + "\n", was, {}, {}});
}

void FixBuilder::create(const std::string& path, const std::string& text) {
  fix_.steps.push_back({Step::Kind::kCreate, When::kLasting, path, text + "\n", "", {}, {}});
}

void FixBuilder::run(When when, std::vector<std::string> command, std::vector<std::string> undo) {
  for (const auto* words : {&command, &undo})
    for (const std::string& word : *words)
      if (!is_safe_word(word) || word.empty()) {
        note(format("'{}' is not a name that a command may be given", printable(word)));
        return;
      }
  if (fix_.steps.size() < kMaxSteps)
    fix_.steps.push_back({Step::Kind::kRun, when, "", "", "", std::move(command), std::move(undo)});
}

void FixBuilder::sysctl(std::string_view check, const std::string& name, const std::string& value) {
  write("proc/sys/" + replaced(name, ".", "/"), value);
  create(format("etc/sysctl.d/90-cheetah-{}.conf", check), name + " = " + value);
}

void FixBuilder::load_module(const std::string& module) {
  run(When::kNow, {"modprobe", module}, {"modprobe", "-r", module});
  create(format("etc/modules-load.d/cheetah-{}.conf", module), module);
}

void FixBuilder::start(const std::string& service) {
  run(When::kNow, {"systemctl", "start", service}, {"systemctl", "stop", service});
  run(When::kLasting, {"systemctl", "enable", service}, {"systemctl", "disable", service});
}

void FixBuilder::refuse(std::string why) {
  fix_.steps.clear();
  fix_.refusal = std::move(why);
}

Fix fix_for(const Check& check, const Facts& facts, const Outcome& outcome, const Source& read) {
  Fix fix;
  fix.advice = rendered(check.fix, outcome);
  if (outcome.verdict != Verdict::kBad) return fix;
  FixBuilder builder(facts, outcome, read, fix);
  for (const auto table : {host_fixes(), device_fixes(), gpu_fixes()})
    for (const PlannerOf& planner : table)
      if (planner.check == check.id) planner.plan(builder);
  if (!fix.steps.empty() && facts.container.around_us)
    builder.refuse(format("this is a {} container: run the doctor on its node, which owns this setting",
        *facts.container.around_us));
  if (check.fix_kind == FixKind::kCommand && fix.steps.empty() && fix.refusal.empty())
    builder.refuse(
        "what it would change was not read, so that it could not be put back: run the doctor as root");
  return fix;
}

}  // namespace cheetah::doctor
