// SPDX-License-Identifier: MIT
#pragma once
// Where facts come from: the files of a machine, alive or captured. A path is relative to the root and has no
// leading slash. What no file holds (NVML, the kernel log, free space) is offered under "cheetah/", so that a
// captured tree, a snapshot and a test hold everything in one form: text by path.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace cheetah::doctor {

enum class Absence {
  kNone,        // there is text
  kMissing,     // no such file: the feature is not there
  kUnreadable,  // it is there, but we may not or cannot read it
};

struct Text {
  std::string path;
  std::string text;
  Absence absence = Absence::kNone;
  std::string reason;  // why there is no text
  bool ok() const { return absence == Absence::kNone; }
};

constexpr int64_t kMaxFileBytes = int64_t{1} << 20;
constexpr int64_t kMaxListEntries = 16384;

class Source {
 public:
  virtual ~Source() = default;
  // At most `limit` bytes; a longer file is cut there.
  virtual Text read(const std::string& path, int64_t limit = kMaxFileBytes) const = 0;
  // The names in a folder, sorted; none when it is absent.
  virtual std::vector<std::string> list(const std::string& path) const = 0;
  // Where a symbolic link points, as written; "" when it is none.
  virtual std::string link(const std::string& path) const = 0;
};

// A probe gives the text of one "cheetah/NAME" that no file holds, or the reason why it cannot. What follows
// NAME/ in the path is its argument.
using Probe = std::function<Text(const std::string& argument)>;
using Probes = std::map<std::string, Probe>;

// A folder of the file system as the root of a machine; "/" is this one. Opens regular files alone, never
// waits, never leaves the root through a link.
class FolderSource : public Source {
 public:
  // Throws Error when root is no folder. Probes answer before files of the same name.
  explicit FolderSource(std::string root, Probes probes = {});
  Text read(const std::string& path, int64_t limit) const override;
  std::vector<std::string> list(const std::string& path) const override;
  std::string link(const std::string& path) const override;

 private:
  int open_inside(const std::string& path, int flags) const;
  std::string root_;
  std::shared_ptr<const int>
      root_fd_;  // shared with copies of this source that collectors may outlive us with
  Probes probes_;
};

// Texts in memory: a loaded snapshot, or a fixture of a test.
class MemorySource : public Source {
 public:
  Text read(const std::string& path, int64_t limit) const override;
  std::vector<std::string> list(const std::string& path) const override;
  std::string link(const std::string& path) const override;

  void set(const std::string& path, std::string text);
  void set(const Text& text);
  void set_link(const std::string& path, std::string target) { links_[path] = std::move(target); }
  void set_list(const std::string& path, std::vector<std::string> names);
  void remove(const std::string& path);  // the file, or everything below the folder
  const std::map<std::string, Text>& texts() const { return texts_; }
  const std::map<std::string, std::string>& links() const { return links_; }
  const std::map<std::string, std::vector<std::string>>& lists() const { return lists_; }

 private:
  std::map<std::string, Text> texts_;
  std::map<std::string, std::string> links_;
  std::map<std::string, std::vector<std::string>> lists_;
};

// Passes reads on and keeps what was read, for a snapshot. One thread uses it at a time.
class RecordingSource : public Source {
 public:
  explicit RecordingSource(std::shared_ptr<const Source> below) : below_(std::move(below)) {}
  Text read(const std::string& path, int64_t limit) const override;
  std::vector<std::string> list(const std::string& path) const override;
  std::string link(const std::string& path) const override;
  void append_to(MemorySource& all) const;

 private:
  std::shared_ptr<const Source> below_;
  mutable MemorySource seen_;
};

}  // namespace cheetah::doctor
