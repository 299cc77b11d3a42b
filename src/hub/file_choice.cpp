// SPDX-License-Identifier: MIT
#include "hub/file_choice.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"

namespace cheetah::hub {
namespace {

std::string upper(std::string_view text) {
  std::string out(text);
  std::ranges::transform(
      out, out.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_gguf(const RepositoryFile& file) {
  return file.path.ends_with(".gguf") && !base_name(file.path).starts_with("mmproj");
}

// The path without "-00001-of-00003.gguf" or ".gguf": the same for all parts of a model.
std::string whole_of(const std::string& path) {
  std::string stem = path.substr(0, path.size() - std::string_view(".gguf").size());
  constexpr size_t kPart = std::string_view("-00001-of-00003").size();
  if (stem.size() > kPart && stem.substr(stem.size() - 9, 4) == "-of-" && stem[stem.size() - kPart] == '-')
    stem.resize(stem.size() - kPart);
  return stem;
}

bool is_quantization(std::string_view word) {
  constexpr std::string_view kPlain[] = {"F16", "BF16", "F32", "FP16", "FP32", "FP8", "MXFP4", "NVFP4"};
  if (std::ranges::find(kPlain, word) != std::end(kPlain)) return true;
  for (const std::string_view begin : {"IQ", "TQ", "Q"})
    if (word.starts_with(begin) && word.size() > begin.size() &&
        std::isdigit(static_cast<unsigned char>(word[begin.size()])))
      return true;
  return false;
}

std::vector<RepositoryFile> parts_of(const std::vector<RepositoryFile>& models, const std::string& whole) {
  std::vector<RepositoryFile> parts;
  for (const RepositoryFile& file : models)
    if (whole_of(file.path) == whole) parts.push_back(file);
  return parts;
}

// "Q4_K_M, Q8_0", or the names of files without a quantization.
std::string quantizations(const std::vector<RepositoryFile>& models) {
  std::set<std::string> names;
  for (const RepositoryFile& file : models) {
    const std::string quant = quantization_of(base_name(file.path));
    names.insert(quant.empty() ? base_name(file.path) : quant);
  }
  return printable(format("{}", fmt::join(names, ", ")), 600);
}

std::vector<RepositoryFile> choose_gguf(
    const Repository& repository, const std::vector<RepositoryFile>& models, const std::string& quant) {
  std::set<std::string> found;
  for (const RepositoryFile& file : models)
    if (upper(quantization_of(base_name(file.path))) == upper(quant)) found.insert(whole_of(file.path));
  if (found.empty())
    throw Error(format("{}:{}: the repository has no GGUF file of this quantization; it has {}",
        repository.name, printable(quant, 80), models.empty() ? "no GGUF file" : quantizations(models)));
  if (found.size() > 1)
    throw Error(format("{}:{}: {} models have this quantization: name one as {}/FILE, e.g. {}/{}.gguf",
        repository.name, quant, found.size(), repository.name, repository.name, *found.begin()));
  return parts_of(models, *found.begin());
}

// Without a name: the only model, or the quantization most people take.
std::vector<RepositoryFile> usual_gguf(
    const Repository& repository, const std::vector<RepositoryFile>& models) {
  std::set<std::string> wholes;
  for (const RepositoryFile& file : models) wholes.insert(whole_of(file.path));
  if (wholes.size() == 1) return models;
  for (const char* usual : {"Q4_K_M", "Q8_0"})
    if (std::ranges::any_of(
            models, [&](const RepositoryFile& f) { return quantization_of(base_name(f.path)) == usual; }))
      return choose_gguf(repository, models, usual);
  throw Error(format("{}: several models: name one as {}:QUANTIZATION; it has {}", repository.name,
      repository.name, quantizations(models)));
}

// The files of a model for transformers: weights and the small files beside them, nothing from other folders.
std::vector<RepositoryFile> choose_safetensors(const std::vector<RepositoryFile>& files) {
  const auto named = [&](const char* name) {
    return std::ranges::any_of(files, [&](const RepositoryFile& file) { return file.path == name; });
  };
  const bool usual = named("model.safetensors") || named("model.safetensors.index.json");
  std::vector<RepositoryFile> chosen;
  for (const RepositoryFile& file : files) {
    const bool templates =
        file.path.starts_with("additional_chat_templates/") && file.path.ends_with(".jinja");
    if (!templates && file.path.find('/') != std::string::npos) continue;
    const bool weights = file.path.ends_with(".safetensors") && (!usual || file.path.starts_with("model"));
    const bool beside = std::ranges::any_of(
        std::initializer_list<std::string_view>{".json", ".txt", ".model", ".jinja", ".tiktoken"},
        [&](std::string_view ending) { return file.path.ends_with(ending); });
    if (weights || beside || templates) chosen.push_back(file);
  }
  return chosen;
}

[[noreturn]] void fail_without_weights(const Repository& repository) {
  for (const RepositoryFile& file : repository.files)
    for (const std::string_view ending : {".bin", ".pt", ".pth", ".ckpt"})
      if (file.path.ends_with(ending))
        throw Error(format(
            "{}: {} is a PyTorch pickle, which can execute code: look for a repository with safetensors or GGUF",
            repository.name, printable(file.path, 120)));
  throw Error(format("{}: the repository has no safetensors or GGUF files", repository.name));
}

}  // namespace

std::string quantization_of(const std::string& file_name) {
  std::string stem = file_name.ends_with(".gguf") ? whole_of(file_name) : file_name;
  std::string last;
  for (size_t begin = 0; begin <= stem.size();) {
    const size_t end = std::min(stem.find_first_of("-./", begin), stem.size());
    const std::string word = upper(std::string_view(stem).substr(begin, end - begin));
    if (is_quantization(word)) last = word;
    begin = end + 1;
  }
  return last;
}

std::vector<RepositoryFile> choose_files(const Repository& repository, const HubReference& reference) {
  std::vector<RepositoryFile> models;
  for (const RepositoryFile& file : repository.files)
    if (is_gguf(file)) models.push_back(file);
  if (!reference.file.empty()) {
    const auto found = std::ranges::find(repository.files, reference.file, &RepositoryFile::path);
    if (found == repository.files.end())
      throw Error(
          format("{}: the repository has no file {}", repository.name, printable(reference.file, 200)));
    return is_gguf(*found) ? parts_of(models, whole_of(found->path)) : std::vector{*found};
  }
  if (!reference.quant.empty()) return choose_gguf(repository, models, reference.quant);
  const bool has_weights = std::ranges::any_of(repository.files, [](const RepositoryFile& file) {
    return file.path.ends_with(".safetensors") && file.path.find('/') == std::string::npos;
  });
  if (has_weights) return choose_safetensors(repository.files);
  if (models.empty()) fail_without_weights(repository);
  return usual_gguf(repository, models);
}

}  // namespace cheetah::hub
