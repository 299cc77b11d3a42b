// SPDX-License-Identifier: MIT
#include "model/files/hub_cache.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "model/files/model_directory.h"

namespace cheetah {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFolderPrefix = "models--";

// A plain name of a repository, a file or a folder: never "..", never hidden.
bool is_plain(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name[0] != '.' &&
         std::ranges::all_of(name, [](unsigned char c) {
           return std::isalnum(c) || c == '.' || c == '_' || c == '-' || c == '+' || c == '=' || c == ' ';
         });
}

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = std::min(path.find('/', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    if (end == path.size()) return parts;
    begin = end + 1;
  }
}

bool all_plain(std::string_view path) { return std::ranges::all_of(parts_of(path), is_plain); }

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(
      out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// "model-Q8_0-00001-of-00002.gguf" -> "model-Q8_0".
std::string stem_of(const fs::path& file) {
  const std::string stem = file.stem().string();
  const size_t part = stem.rfind("-00001-of-");
  return part == std::string::npos ? stem : stem.substr(0, part);
}

// Whether the file's name ends with the quantization, or lies in a folder named for it. Before an underscore stands a
// part of another quantization unless what follows is a whole one: Q4_K_M does not end with M.
bool has_quant(const fs::path& file, const std::string& quant) {
  const std::string stem = lower(stem_of(file));
  if (lower(file.parent_path().filename().string()) == quant || stem == quant) return true;
  if (!stem.ends_with(quant)) return false;
  const char before = stem[stem.size() - quant.size() - 1];
  const bool whole = std::string_view("qifbtm").find(quant[0]) != std::string_view::npos &&
                     std::ranges::any_of(quant, [](unsigned char c) { return std::isdigit(c) != 0; });
  return before == '-' || before == '.' || (before == '_' && whole);
}

// Models, not later parts of split ones nor projectors, in the folder and those right below.
std::vector<fs::path> gguf_models(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at.depth() > 0) at.disable_recursion_pending();
    const std::string name = at->path().filename().string();
    const bool later = name.find("-of-") != std::string::npos && name.find("-00001-of-") == std::string::npos;
    if (name.ends_with(".gguf") && !later && !name.starts_with("mmproj")) found.push_back(at->path());
  }
  std::ranges::sort(found);
  return found;
}

std::string file_with_quant(const HubReference& reference, const fs::path& snapshot) {
  const std::vector<fs::path> models = gguf_models(snapshot);
  std::string names;
  for (const fs::path& model : models) {
    if (has_quant(model, lower(reference.quant))) return model.string();
    names += (names.empty() ? "" : ", ") + model.filename().string();
  }
  throw Error(format("{}:{}: no GGUF file of this quantization is in {}; it has {}", reference.repository,
      printable(reference.quant, 80), snapshot.string(),
      names.empty() ? "no GGUF files" : printable(names, 400)));
}

// The snapshot of the revision: a branch or tag in refs/, or a commit (its beginning will do).
std::optional<fs::path> find_snapshot(const fs::path& home, const std::string& revision) {
  std::error_code error;
  const fs::path ref = home / "refs" / revision;
  if (fs::is_regular_file(ref, error)) {
    const std::string text =
        read_model_text(ref.parent_path().string(), ref.filename().string()).value_or("");
    const std::string commit = text.substr(0, text.find_first_of(" \r\n"));
    if (is_plain(commit) && fs::is_directory(home / "snapshots" / commit, error))
      return home / "snapshots" / commit;
  }
  const std::vector<std::string> commits = list_files((home / "snapshots").string());
  if (revision == "main" && commits.size() == 1) return home / "snapshots" / commits[0];
  constexpr size_t kShortest = 6;
  for (const std::string& commit : commits)
    if (commit == revision || (revision.size() >= kShortest && commit.starts_with(revision)))
      return home / "snapshots" / commit;
  return std::nullopt;
}

std::string folder_of(const std::string& repository) {
  std::string folder(kFolderPrefix);
  for (const char c : repository) c == '/' ? folder += "--" : folder += c;
  return folder;
}

}  // namespace

std::optional<HubReference> parse_hub_reference(std::string_view text) {
  for (const std::string_view site : {"https://huggingface.co/", "huggingface.co/", "hf.co/"})
    if (text.starts_with(site)) text.remove_prefix(site.size());
  HubReference reference;
  if (const size_t at = text.find('@'); at != std::string_view::npos) {
    reference.revision = text.substr(at + 1);
    text = text.substr(0, at);
    if (!all_plain(reference.revision)) return std::nullopt;
  }
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    reference.quant = text.substr(colon + 1);
    text = text.substr(0, colon);
    if (!is_plain(reference.quant)) return std::nullopt;
  }
  if (!all_plain(text)) return std::nullopt;
  const size_t slash = text.find('/');
  const size_t end =
      slash == std::string_view::npos ? text.size() : std::min(text.find('/', slash + 1), text.size());
  reference.repository = text.substr(0, end);
  if (end < text.size()) reference.file = text.substr(end + 1);
  if (!reference.file.empty() && !reference.quant.empty()) return std::nullopt;
  return reference;
}

std::string find_in_hub_cache(const HubReference& reference, const std::string& hub_directory) {
  std::error_code error;
  const fs::path home = fs::path(hub_directory) / folder_of(reference.repository);
  if (!fs::is_directory(home / "snapshots", error))
    throw Error(format("{}: neither a path nor a model in {}: 'cheetah pull {}' downloads it",
        reference.repository, hub_directory, reference.repository));
  const auto snapshot = find_snapshot(home, reference.revision);
  if (!snapshot)
    throw Error(format("{}: {} revisions in {} and none is {}: download it, or name one with @REVISION",
        reference.repository, list_files((home / "snapshots").string()).size(), (home / "snapshots").string(),
        printable(reference.revision, 80)));
  if (!reference.quant.empty()) return file_with_quant(reference, *snapshot);
  if (reference.file.empty()) return snapshot->string();
  const fs::path file = *snapshot / reference.file;
  if (!fs::is_directory(file.parent_path(), error) ||
      !find_model_file(file.parent_path().string(), file.filename().string()))
    throw Error(format("{}: {} is not among the files of {}: download it first", reference.repository,
        printable(reference.file, 200), snapshot->string()));
  return file.string();
}

std::string hub_name_of(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error).lexically_normal();
  bool below_snapshots = false;
  for (fs::path at = whole; at.has_relative_path(); at = at.parent_path()) {
    const std::string name = at.filename().string();
    if (below_snapshots && name.starts_with(kFolderPrefix)) {
      std::string repository = name.substr(kFolderPrefix.size());
      if (const size_t dashes = repository.find("--"); dashes != std::string::npos)
        repository.replace(dashes, 2, "/");
      return repository;
    }
    below_snapshots = name == "snapshots";
  }
  return "";
}

std::string resolve_model_reference(const std::string& reference, const std::string& hub_directory) {
  std::error_code error;
  if (fs::exists(reference, error)) return reference;
  const auto parsed = parse_hub_reference(reference);
  if (!parsed || hub_directory.empty())
    throw Error(
        format("{}: no such file or directory, expected a model directory or a .gguf file", reference));
  return find_in_hub_cache(*parsed, hub_directory);
}

}  // namespace cheetah
