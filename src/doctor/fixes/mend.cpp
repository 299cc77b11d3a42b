// SPDX-License-Identifier: MIT
#include "doctor/fixes/mend.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/run_tool.h"

namespace cheetah::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::minutes kLongestCommand{10};  // swapoff of a large area
constexpr size_t kMaxJournal = size_t{64} << 20;

class File {
 public:
  File(const std::string& path, int flags, int mode = 0644)
      : fd_(open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool ok() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  std::string read_all() const {
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; (got = read(fd_, buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<size_t>(got));
      if (text.size() > kMaxJournal) break;
    }
    return text;
  }
  // One call: files of the kernel take a value whole.
  bool write_all(std::string_view text) const {
    return write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }

 private:
  int fd_;
};

std::string reason(const std::string& path) {
  const int error = errno;
  return format("{}: {}{}", printable(path, 300), std::strerror(error),
      error == EACCES || error == EPERM ? ": run it as root" : "");
}

bool is_kernel_file(int fd) {
  struct statfs info {};
  if (fstatfs(fd, &info) != 0) return false;
  for (const long magic :
      {long{SYSFS_MAGIC}, long{PROC_SUPER_MAGIC}, long{CGROUP2_SUPER_MAGIC}, long{CGROUP_SUPER_MAGIC}})
    if (static_cast<long>(info.f_type) == magic) return true;
  return false;
}

// Values with tabs and blanks between them are equal whichever the kernel prints.
std::string normalized(std::string_view text) {
  std::string words;
  for (const std::string_view word : words_of(setting_in(text)))
    words += (words.empty() ? "" : " ") + std::string(word);
  return words;
}

// The path below the root, with no link that leads out of it.
std::string inside(const std::string& root, const std::string& path) {
  std::string full = root == "/" ? "/" + path : root + "/" + path;
  if (root == "/") return full;
  std::error_code error;
  const std::string top = fs::weakly_canonical(root, error).string();
  std::string real = fs::weakly_canonical(full, error).string();
  if (error || real.compare(0, top.size() + 1, top + "/") != 0)
    throw Error(format("{}: it leads out of {}", printable(full, 300), printable(root, 300)));
  return real;
}

std::string_view name_of(Step::Kind kind) {
  constexpr std::string_view kNames[] = {"write", "create", "run"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

CommandRunner system_commands() {
  return [](const std::vector<std::string>& command) -> std::pair<int, std::string> {
    const ToolResult result = run_tool(command, {.time = kLongestCommand, .with_errors = true});
    if (!result.started) return {127, command[0] + " is not installed"};
    return {result.complete ? result.exit_code : -1, std::string(trimmed(result.output))};
  };
}

CommandRunner no_commands(const std::string& root) {
  return [root](const std::vector<std::string>& command) -> std::pair<int, std::string> {
    return {-1, format("{} acts on this machine, not on {}: not run", command[0], root)};
  };
}

std::string journal_line(const JournalEntry& entry) {
  const Step& step = entry.step;
  return dump_json({{"check", entry.check}, {"kind", name_of(step.kind)},
             {"when", step.when == When::kNow ? "now" : "lasting"}, {"path", step.path}, {"text", step.text},
             {"was", step.was}, {"became", entry.became}, {"command", step.command}, {"undo", step.undo}}) +
         "\n";
}

std::vector<JournalEntry> parse_journal(std::string_view text, const std::string& what) {
  std::vector<JournalEntry> entries;
  int number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    if (trimmed(line).empty()) continue;
    try {
      const Json json = Json::parse(line);
      JournalEntry entry;
      entry.check = json.at("check").get<std::string>();
      const auto kind = json.at("kind").get<std::string>();
      entry.step.kind = kind == "write"    ? Step::Kind::kWrite
                        : kind == "create" ? Step::Kind::kCreate
                                           : Step::Kind::kRun;
      if (kind != name_of(entry.step.kind)) throw Error("kind");
      entry.step.when = json.at("when") == "now" ? When::kNow : When::kLasting;
      entry.step.path = json.at("path").get<std::string>();
      entry.step.text = json.at("text").get<std::string>();
      entry.step.was = json.at("was").get<std::string>();
      entry.became = json.at("became").get<std::string>();
      entry.step.command = json.at("command").get<std::vector<std::string>>();
      entry.step.undo = json.at("undo").get<std::vector<std::string>>();
      entries.push_back(std::move(entry));
    } catch (const std::exception&) {
      throw Error(
          format("{}:{}: not a line of the doctor's journal: repair or remove it by hand", what, number));
    }
  }
  return entries;
}

Mender::Mender(std::string root, std::string journal, CommandRunner run)
    : root_(std::move(root)), journal_(std::move(journal)), run_(std::move(run)) {}

Done Mender::apply(const std::string& check, const Step& step) {
  JournalEntry entry{check, step, ""};
  try {
    if (step.kind == Step::Kind::kWrite) {
      const File now(inside(root_, step.path), O_RDONLY);
      if (!now.ok()) return {false, reason("/" + step.path)};
      entry.step.was = now.read_all();
      if (normalized(entry.step.was) == normalized(step.text)) return {true, "it is so already"};
      if (normalized(entry.step.was) != normalized(step.was))
        return {false, format("/{} no longer holds '{}' but '{}': left alone", step.path,
                           printable(setting_in(step.was)), printable(setting_in(entry.step.was)))};
    }
    std::error_code ignored;
    fs::create_directories(fs::path(journal_).parent_path(), ignored);
    const File journal(journal_, O_WRONLY | O_CREAT | O_APPEND, 0600);
    const off_t begin = journal.ok() ? lseek(journal.fd(), 0, SEEK_END) : -1;
    if (!journal.ok() || !journal.write_all(journal_line(entry)) || fsync(journal.fd()) != 0)
      return {false, "the journal cannot be written, so nothing is changed: " + reason(journal_)};
    Done done;
    if (step.kind == Step::Kind::kWrite)
      done = write(step.path, step.was, step.text, entry.became);
    else if (step.kind == Step::Kind::kCreate)
      done = make(step.path, step.text);
    else
      done = run(step.command);
    // What failed changed nothing; a value that the kernel rounded is noted as it stands.
    if (!done.ok || !entry.became.empty()) {
      if (ftruncate(journal.fd(), begin) != 0) return {false, reason(journal_)};
      if (done.ok && !journal.write_all(journal_line(entry))) return {false, reason(journal_)};
    }
    return done;
  } catch (const Error& error) {
    return {false, error.what()};
  }
}

Done Mender::write(
    const std::string& path, const std::string& expected, const std::string& text, std::string& became) {
  const std::string full = inside(root_, path);
  std::string now;
  {
    const File file(full, O_RDONLY);
    if (!file.ok()) return {false, reason("/" + path)};
    now = file.read_all();
  }
  if (normalized(now) != normalized(expected))
    return {false, format("/{} holds '{}', not '{}': it was changed since, so it is left alone", path,
                       printable(setting_in(now)), printable(setting_in(expected)))};
  {
    const File file(full, O_WRONLY | O_TRUNC);
    if (!file.ok()) return {false, reason("/" + path)};
    if (!file.write_all(is_kernel_file(file.fd()) ? setting_in(text) + "\n" : text))
      return {false, reason("/" + path)};
  }
  const File after(full, O_RDONLY);
  const std::string kept = after.ok() ? after.read_all() : "";
  if (normalized(kept) == normalized(text)) return {true, ""};
  became = kept;
  return {true, format("/{} now holds '{}'", path, printable(setting_in(kept)))};
}

Done Mender::make(const std::string& path, const std::string& text) {
  const std::string full = inside(root_, path);
  std::error_code error;
  fs::create_directories(fs::path(full).parent_path(), error);
  const File file(full, O_WRONLY | O_CREAT | O_EXCL);
  if (!file.ok() && errno == EEXIST) return {false, format("/{} is there already: left alone", path)};
  if (!file.ok() || !file.write_all(text)) return {false, reason("/" + path)};
  return {true, ""};
}

Done Mender::run(const std::vector<std::string>& command) {
  if (command.empty()) return {true, "there is nothing to put back"};
  const auto [code, output] = run_(command);
  if (code == 0) return {true, ""};
  return {false, format("{} failed{}: {}", command[0], code > 0 ? format(" with {}", code) : "",
                     printable(output, 300))};
}

std::vector<JournalEntry> Mender::journal() const {
  const File file(journal_, O_RDONLY);
  if (!file.ok()) return {};
  return parse_journal(file.read_all(), journal_);
}

Done Mender::undo(const JournalEntry& entry) {
  try {
    if (entry.step.kind == Step::Kind::kRun) return run(entry.step.undo);
    std::string became;
    if (entry.step.kind == Step::Kind::kWrite)
      return write(
          entry.step.path, entry.became.empty() ? entry.step.text : entry.became, entry.step.was, became);
    const std::string full = inside(root_, entry.step.path);
    {
      const File file(full, O_RDONLY);
      if (!file.ok()) return {errno == ENOENT, errno == ENOENT ? "it is gone already" : reason(full)};
      if (file.read_all() != entry.step.text)
        return {false, format("/{} was changed since: left alone", entry.step.path)};
    }
    if (unlink(full.c_str()) != 0) return {false, reason(full)};
    return {true, ""};
  } catch (const Error& error) {
    return {false, error.what()};
  }
}

void Mender::keep(const std::vector<JournalEntry>& entries) {
  if (entries.empty()) {
    unlink(journal_.c_str());
    return;
  }
  const std::string next = journal_ + ".next";
  {
    const File file(next, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    std::string text;
    for (const JournalEntry& entry : entries) text += journal_line(entry);
    if (!file.ok() || !file.write_all(text) || fsync(file.fd()) != 0) throw Error(reason(next));
  }
  if (rename(next.c_str(), journal_.c_str()) != 0) throw Error(reason(journal_));
}

}  // namespace cheetah::doctor
