// SPDX-License-Identifier: MIT
#include "model/files/model_directory.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"

namespace cheetah {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxTextBytes = int64_t{128} << 20;

bool is_under(const fs::path& path, const fs::path& root) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

// In .../models--org--name/snapshots/<revision>[/sub] the files are links into .../models--org--name/blobs.
std::optional<fs::path> hub_blobs_of(const fs::path& directory) {
  for (fs::path at = directory; at.has_relative_path(); at = at.parent_path())
    if (at.filename() == "snapshots") return at.parent_path() / "blobs";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> find_model_file(const std::string& directory, std::string_view name) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string_view::npos ||
      name.find('\\') != std::string_view::npos || name.find('\0') != std::string_view::npos)
    throw Error(format(
        "{}: \"{}\" is not a plain file name inside the model's directory", directory, printable(name, 120)));
  std::error_code error;
  const fs::path root = fs::canonical(directory, error);
  if (error) throw Error(format("{}: cannot open: {}", directory, error.message()));
  const fs::path path = fs::path(directory) / name;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found) return std::nullopt;
  const fs::path target = fs::canonical(path, error);
  if (error) throw Error(format("{}: cannot open: {}", path.string(), error.message()));
  const auto blobs = hub_blobs_of(root);
  if (!is_under(target, root) && !(blobs && is_under(target, *blobs)))
    throw Error(
        format("{}: the link leads out of the model's directory, to {}", path.string(), target.string()));
  return path.string();
}

std::optional<std::string> read_model_text(const std::string& directory, std::string_view name) {
  const auto path = find_model_file(directory, name);
  if (!path) return std::nullopt;
  const MappedFile file = MappedFile::open(*path);
  if (file.size() > kMaxTextBytes)
    throw Error(format("{}: {} bytes, more than the limit of {}", *path, file.size(), kMaxTextBytes));
  return std::string(file.text());
}

std::vector<std::string> list_files(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  if (error) throw Error(format("{}: cannot read the directory: {}", directory, error.message()));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace cheetah
