// SPDX-License-Identifier: MIT
#include "hub/repository.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/text.h"
#include "hub/digest.h"

namespace cheetah::hub {
namespace {

constexpr size_t kMostAnswerBytes = size_t{64} << 20;
constexpr size_t kMostPathBytes = 1024;
constexpr int64_t kMostFileBytes = int64_t{1} << 44;

// A relative path of plain names: nothing that could lead out of the snapshot.
bool is_plain_path(std::string_view path) {
  if (path.empty() || path.size() > kMostPathBytes || path.front() == '/') return false;
  return std::ranges::all_of(split(path, '/'), [](std::string_view name) {
    const bool printable_name =
        std::ranges::all_of(name, [](unsigned char c) { return c >= ' ' && c != 0x7F && c != '\\'; });
    return !name.empty() && name != "." && name != ".." && name.size() <= 255 && printable_name;
  });
}

std::string text_at(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

int64_t bytes_at(const Json& object) {
  const auto found = object.is_object() ? object.find("size") : object.end();
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : -1;
}

RepositoryFile file_of(const Json& sibling) {
  const auto large = sibling.is_object() ? sibling.find("lfs") : sibling.end();
  const bool is_large = large != sibling.end() && large->is_object();
  return {.path = text_at(sibling, "rfilename"),
      .bytes = is_large ? bytes_at(*large) : bytes_at(sibling),
      .etag = is_large ? text_at(*large, "sha256") : text_at(sibling, "blobId")};
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

// A revision may have slashes (refs/pr/1), which are part of its name.
std::string escaped_revision(std::string_view revision) {
  std::string out;
  for (const char c : escaped(revision)) c == '/' ? out += "%2F" : out += c;
  return out;
}

}  // namespace

Repository read_repository(const std::string& name, const std::string& json) {
  const std::string what = format("the hub's answer for {}", name);
  const Json answer = parse_json(json, what);
  Repository repository{.name = name, .commit = text_at(answer, "sha"), .files = {}};
  if (!is_etag(repository.commit) || repository.commit.size() != 40)
    throw Error(format("{}: it names no commit; is HF_ENDPOINT a model hub?", what));
  const auto siblings = answer.find("siblings");
  if (siblings == answer.end() || !siblings->is_array()) throw Error(format("{}: it lists no files", what));
  for (const Json& sibling : *siblings) {
    RepositoryFile file = file_of(sibling);
    const bool good =
        is_plain_path(file.path) && file.bytes >= 0 && file.bytes <= kMostFileBytes && is_etag(file.etag);
    if (good) repository.files.push_back(std::move(file));
  }
  if (repository.files.empty() && !siblings->empty())
    throw Error(format("{}: no file has a size and a checksum", what));
  return repository;
}

Repository ask_repository(HttpFetch& fetch, const std::string& name, const std::string& revision) {
  const std::string path =
      format("/api/models/{}/revision/{}?blobs=true", escaped(name), escaped_revision(revision));
  return read_repository(name, fetch.get_text(path, kMostAnswerBytes));
}

std::string file_address(const Repository& repository, const RepositoryFile& file) {
  return format("/{}/resolve/{}/{}", escaped(repository.name), repository.commit, escaped(file.path));
}

}  // namespace cheetah::hub
