// SPDX-License-Identifier: MIT
// Opening GGUF files, whole or split into parts called NAME-00001-of-0000N.gguf.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "model/files/gguf.h"

namespace cheetah {
namespace {

struct SplitName {
  std::string prefix;
  int64_t index = 0;  // from 0
  int64_t count = 0;

  std::string part(int64_t i) const { return format("{}-{:05}-of-{:05}.gguf", prefix, i + 1, count); }
};

std::optional<SplitName> parse_split_name(const std::string& path) {
  constexpr std::string_view kPattern = "-00001-of-00003.gguf";  // '0'..'9' stand for any digit
  if (path.size() <= kPattern.size()) return std::nullopt;
  const size_t start = path.size() - kPattern.size();
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (size_t i = 0; i < kPattern.size(); ++i) {
    const char c = path[start + i];
    if (is_digit(kPattern[i]) ? !is_digit(c) : c != kPattern[i]) return std::nullopt;
  }
  SplitName name;
  name.prefix = path.substr(0, start);
  name.index = std::atoi(path.c_str() + start + 1) - 1;
  name.count = std::atoi(path.c_str() + start + 10);
  if (name.index < 0 || name.index >= name.count)
    throw Error(format("{}: part {} of {} does not exist", path, name.index + 1, name.count));
  return name;
}

}  // namespace

void GgufFile::add_part(MappedFile file, int64_t index, int64_t count) {
  GgufFile part = parse(file.bytes(), file.path());
  const int64_t declared = part.integer("split.count").value_or(1);
  if (declared > 1 && count == 1)
    throw Error(format("{}: this is part of a model split into {} files: name them NAME-00001-of-{:05}.gguf",
        file.path(), declared, declared));
  if (count > 1 && (declared != count || part.integer("split.no").value_or(-1) != index))
    throw Error(format("{}: the file's split.no and split.count do not say part {} of {}, as its name does",
        file.path(), index + 1, count));
  if (index == 0) metadata_ = std::move(part.metadata_);
  for (const auto& [name, view] : part.tensors_)
    if (!tensors_.emplace(name, view).second)
      throw Error(format("{}: tensor \"{}\" is in an earlier part too", file.path(), printable(name)));
  files_.push_back(std::move(file));
}

GgufFile GgufFile::open(const std::string& path) {
  GgufFile whole;
  whole.name_ = path;
  const auto split = parse_split_name(path);
  const int64_t count = split ? split->count : 1;
  for (int64_t i = 0; i < count; ++i)
    whole.add_part(MappedFile::open(split ? split->part(i) : path), i, count);
  const auto expected = whole.integer("split.tensors.count");
  if (count > 1 && expected && *expected != static_cast<int64_t>(whole.tensors_.size()))
    throw Error(format("{}: the parts hold {} tensors, split.tensors.count says {}", path,
        whole.tensors_.size(), *expected));
  return whole;
}

int64_t GgufFile::file_bytes() const {
  int64_t total = 0;
  for (const MappedFile& file : files_) total += file.size();
  return total;
}

void GgufFile::prefetch() const {
  for (const MappedFile& file : files_) file.prefetch(0, file.size());
}

}  // namespace cheetah
