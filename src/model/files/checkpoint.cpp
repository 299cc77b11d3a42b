// SPDX-License-Identifier: MIT
#include "model/files/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "model/files/foreign_file.h"
#include "model/files/model_directory.h"

namespace cheetah {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxShards = 10'000;

std::vector<std::string> ending_in(const std::vector<std::string>& names, std::string_view suffix) {
  std::vector<std::string> found;
  for (const std::string& name : names)
    if (name.ends_with(suffix)) found.push_back(name);
  return found;
}

// No weights we can read: says what stands in the directory instead.
[[noreturn]] void fail_without_weights(const std::string& path, const std::vector<std::string>& names) {
  if (names.empty()) throw Error(format("{}: the directory is empty, expected a model", path));
  for (const std::string_view suffix : {".bin", ".pt", ".pth", ".ckpt"})
    if (const auto found = ending_in(names, suffix); !found.empty())
      throw Error(format(
          "{}: {} is a PyTorch pickle, which can execute code: convert it to safetensors", path, found[0]));
  for (const std::string_view suffix : {".onnx", ".h5", ".msgpack", ".npz"})
    if (const auto found = ending_in(names, suffix); !found.empty())
      throw Error(format(
          "{}: {} is in a format we do not read: get the model as safetensors or GGUF", path, found[0]));
  for (const std::string_view suffix : {".incomplete", ".part", ".crdownload", ".aria2"})
    if (const auto found = ending_in(names, suffix); !found.empty())
      throw Error(
          format("{}: {} is an unfinished download: let it finish or download it again", path, found[0]));
  throw Error(format(
      "{}: no weights: expected model.safetensors, model.safetensors.index.json or a .gguf file", path));
}

// The one GGUF model of a directory: a file or the first part of a split one.
std::optional<std::string> only_gguf(const std::string& path, const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const std::string& name : ending_in(names, ".gguf")) {
    const bool later_part =
        name.find("-of-") != std::string::npos && name.find("-00001-of-") == std::string::npos;
    if (!later_part && !name.starts_with("mmproj")) found.push_back(name);
  }
  if (found.empty()) return std::nullopt;
  if (found.size() > 1)
    throw Error(format("{}: {} GGUF models in one directory ({}, {}, ...): name the one you want", path,
        found.size(), found[0], found[1]));
  return found[0];
}

bool starts_with_gguf_magic(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  return file.text().starts_with("GGUF");
}

}  // namespace

Checkpoint Checkpoint::open(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    throw Error(format("{}: no such file or directory, expected a model directory or a .gguf file", path));
  if (status.type() == fs::file_type::directory) return open_directory(path);

  Checkpoint checkpoint;
  checkpoint.path_ = path;
  if (path.ends_with(".gguf") || starts_with_gguf_magic(path)) {
    checkpoint.gguf_ = GgufFile::open(path);
    checkpoint.tensors_ = checkpoint.gguf_->tensors();
    return checkpoint;
  }
  const fs::path parent = fs::path(path).parent_path();
  checkpoint.directory_ = parent.empty() ? "." : parent.string();
  // The person named this very file, so where its link leads is their business.
  checkpoint.shards_.push_back(SafetensorsFile::open(path));
  checkpoint.tensors_ = checkpoint.shards_.back().tensors();
  checkpoint.read_configs();
  return checkpoint;
}

Checkpoint Checkpoint::open_directory(const std::string& path) {
  const std::vector<std::string> names = list_files(path);
  const bool has_config = find_model_file(path, "config.json").has_value();
  const auto safetensors = ending_in(names, ".safetensors");
  const auto indices = ending_in(names, ".safetensors.index.json");
  if (safetensors.empty() && indices.empty()) {
    if (const auto gguf = only_gguf(path, names)) {
      Checkpoint checkpoint = open((fs::path(path) / *gguf).string());
      checkpoint.path_ = path;
      return checkpoint;
    }
    fail_without_weights(path, names);
  }
  if (!has_config && find_model_file(path, "adapter_config.json"))
    throw Error(
        format("{}: this is an adapter (LoRA), not a whole model: give the base model's directory", path));

  Checkpoint checkpoint;
  checkpoint.path_ = path;
  checkpoint.directory_ = path;
  checkpoint.read_configs();
  if (std::find(safetensors.begin(), safetensors.end(), "model.safetensors") != safetensors.end())
    checkpoint.add_shard("model.safetensors");
  else if (indices.size() == 1)
    checkpoint.open_index(indices[0]);
  else if (safetensors.size() == 1 && indices.empty())
    checkpoint.add_shard(safetensors[0]);
  else
    throw Error(format("{}: {} safetensors files and no model.safetensors.index.json that says what is where",
        path, safetensors.size()));
  return checkpoint;
}

void Checkpoint::read_configs() {
  const auto config = read_model_text(directory_, "config.json");
  if (!config)
    throw Error(format("{}: config.json is missing: a model needs it beside its weights", directory_));
  const std::string config_path = (fs::path(directory_) / "config.json").string();
  config_ = parse_json(*config, config_path);
  if (!config_.is_object())
    throw Error(format("{}: expected a JSON object, found {}", config_path, config_.type_name()));
  if (const auto text = read_model_text(directory_, "generation_config.json")) {
    const std::string path = (fs::path(directory_) / "generation_config.json").string();
    generation_config_ = parse_json(*text, path);
    if (!generation_config_.is_object())
      throw Error(format("{}: expected a JSON object, found {}", path, generation_config_.type_name()));
  }
}

void Checkpoint::add_shard(const std::string& file_name) {
  const auto path = find_model_file(directory_, file_name);
  if (!path)
    throw Error(format("{}: shard {} is missing: download it again", directory_, printable(file_name, 120)));
  shards_.push_back(SafetensorsFile::open(*path));
  for (const auto& [name, view] : shards_.back().tensors())
    if (!tensors_.emplace(name, view).second)
      throw Error(format("{}: tensor \"{}\" is in another shard too", *path, printable(name, 120)));
}

void Checkpoint::open_index(const std::string& index_name) {
  const std::string index_path = (fs::path(directory_) / index_name).string();
  const Json index = parse_json(*read_model_text(directory_, index_name), index_path);
  const auto weight_map = index.is_object() ? index.find("weight_map") : index.end();
  if (weight_map == index.end() || !weight_map->is_object())
    throw Error(format("{}: weight_map is missing or not an object of tensor names and files", index_path));
  std::set<std::string> files;
  for (const auto& [tensor, file] : weight_map->items()) {
    if (!file.is_string())
      throw Error(format("{}: tensor \"{}\" must name a file", index_path, printable(tensor, 120)));
    files.insert(file.get<std::string>());
  }
  if (files.size() > kMaxShards)
    throw Error(format("{}: {} shards, more than the limit of {}", index_path, files.size(), kMaxShards));
  std::map<std::string_view, const TensorMap*> tensors_of_file;
  shards_.reserve(files.size());
  for (const std::string& file : files) {
    add_shard(file);
    tensors_of_file[file] = &shards_.back().tensors();
  }
  for (const auto& [tensor, file] : weight_map->items())
    if (!tensors_of_file.at(file.get_ref<const std::string&>())->contains(tensor))
      throw Error(format("{}: tensor \"{}\" is not in {}, where the index puts it", index_path,
          printable(tensor, 120), printable(file.get_ref<const std::string&>(), 120)));
}

int64_t Checkpoint::file_bytes() const {
  int64_t total = gguf_ ? gguf_->file_bytes() : 0;
  for (const SafetensorsFile& shard : shards_) total += shard.file_bytes();
  return total;
}

std::optional<std::string> Checkpoint::text_file(std::string_view name) const {
  return gguf_ ? std::nullopt : read_model_text(directory_, name);
}

void Checkpoint::prefetch() const {
  if (gguf_) gguf_->prefetch();
  for (const SafetensorsFile& shard : shards_) shard.prefetch();
}

}  // namespace cheetah
